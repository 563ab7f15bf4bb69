"""The sum of what loaders hold, factor by factor, against what a job may use."""

from __future__ import annotations

from pathlib import Path

import pytest

import crashcart

np = pytest.importorskip("numpy")
h5py = pytest.importorskip("h5py")
PROGRAM = """
import h5py
import torch
import yaml
from torch.utils.data import DataLoader, Dataset


class Steps(Dataset):
    def __init__(self, path):
        self.path = path

    def __len__(self):
        return 100

    def __getitem__(self, at):
        with h5py.File(self.path, "r") as file:
            return torch.from_numpy(file["images"][at])


cfg = yaml.safe_load(open("cfg.yaml"))
loader = DataLoader(
    Steps(cfg["data_path"]), batch_size=cfg["batch_size"], num_workers=cfg["num_workers"], prefetch_factor=cfg["prefetch_factor"]
)
for batch in loader:
    pass
"""


@pytest.fixture(autouse=True)
def _project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("train.py").write_text(PROGRAM)
    Path("cfg.yaml").write_text("data_path: frames.h5\nbatch_size: 16\nnum_workers: 8\nprefetch_factor: 4\n")
    with h5py.File("frames.h5", "w") as file:
        file.create_dataset("images", (100, 256, 256, 3), "uint8", chunks=(1, 256, 256, 3))


def told(script: str, cause: str) -> list[tuple[str, str]]:
    Path("train.sh").write_text(f"#!/bin/bash\n{script}\n")
    found = crashcart.check("train.sh").findings
    return [(one.level, sign.says) for one in found if one.cause == cause for sign in one.signs]


def test_the_sum_is_told_with_each_factor() -> None:
    """8 workers x 4 batches x 16 samples x 192 KiB x 4 ranks are 384 MiB."""
    (level, says), *_ = told("#SBATCH --mem=300M\ntorchrun --nproc_per_node 4 train.py", "host-memory/oom-kill")
    assert level == "will"
    assert "8 workers x 4 batches ahead x 16 samples of at least 192 KiB x 4 ranks" in says
    assert "384 MiB in all" in says


def test_near_the_limit_it_is_a_condition_and_far_below_nothing() -> None:
    near = told("#SBATCH --mem=400M\ntorchrun --nproc_per_node 4 train.py", "host-memory/oom-kill")
    assert near[0][0] == "can"
    far = told("#SBATCH --mem=64G\ntorchrun --nproc_per_node 4 train.py", "host-memory/oom-kill")
    assert [level for level, _ in far] == ["note"]  # 32 worker processes


def test_what_is_not_known_is_not_summed() -> None:
    Path("cfg.yaml").write_text("data_path: frames.h5\nbatch_size: 16\nnum_workers: ${WORKERS}\nprefetch_factor: 4\n")
    assert not told("#SBATCH --mem=300M\ntorchrun --nproc_per_node 4 train.py", "host-memory/oom-kill")


def test_shared_memory_of_a_container(monkeypatch: pytest.MonkeyPatch) -> None:
    """Docker gives 64 MiB, and it counts only where the job runs here."""

    class Small:
        f_blocks, f_frsize = 64, 1 << 20

    monkeypatch.setattr("os.statvfs", lambda _path: Small)
    (level, says), *_ = told("python train.py", "host-memory/shm")
    assert level == "will"
    assert "/dev/shm is 64 MiB" in says
    assert not told("#SBATCH --mem=64G\npython train.py", "host-memory/shm")


def test_the_patch_fits() -> None:
    from crashcart.model import HARMLESS
    from crashcart.repair import repairs, write

    script = "#SBATCH --mem=300M\ntorchrun --nproc_per_node 4 train.py"
    told(script, "host-memory/oom-kill")
    write(repairs(crashcart.check("train.sh").findings, HARMLESS))
    assert Path("cfg.yaml").read_text() == "data_path: frames.h5\nbatch_size: 16\nnum_workers: 4\nprefetch_factor: 1\n"
    assert all(level == "note" for level, _ in told(script, "host-memory/oom-kill"))


def test_more_files_than_may_be_open(monkeypatch: pytest.MonkeyPatch) -> None:
    import resource

    Path("episodes").mkdir()
    for at in range(12):
        with h5py.File(f"episodes/{at}.h5", "w") as file:
            file["x"] = np.zeros(2)
    text = PROGRAM.replace("self.path = path", "self.files = [h5py.File(one, 'r') for one in path]")
    Path("train.py").write_text(text)
    Path("cfg.yaml").write_text("data_path: episodes\nbatch_size: 16\nnum_workers: 0\nprefetch_factor: 4\n")
    monkeypatch.setattr(resource, "getrlimit", lambda _what: (10, 10))
    assert told("python train.py", "host-memory/fds")[0][0] == "will"
    assert not told("ulimit -n 4096\npython train.py", "host-memory/fds")


KEPT = """
import h5py
import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset


class Held(Dataset):
    def __init__(self, path="frames.h5"):
        {body}

    def __getitem__(self, at):
        return at


for batch in DataLoader(Held("frames.h5")):
    pass
"""


@pytest.mark.parametrize(
    ("body", "level"),
    [
        ("self.x = [h5py.File(one)['images'][()] for one in [path]]", "will"),
        ("self.x = []\n        for one in [path]:\n            self.x.append(h5py.File(one)['images'][:])", "will"),
        (
            "x = []\n        for one in [path]:\n            v = h5py.File(one)['images'][()]\n            x.append(v)\n        self.x = np.stack(x)",
            "will",
        ),
        (
            "x = []\n        for one in [path]:\n            x.append(h5py.File(one)['images'][()])\n        self.mean = np.mean(x)",
            "",
        ),
        ("self.n = []\n        for one in [path]:\n            self.n.append(h5py.File(one)['images'][()].shape[0])", ""),
        (
            "self.n = []\n        for one in [path]:\n            v = h5py.File(one)['images'][()]\n            self.n.append(len(v))",
            "",
        ),
    ],
)
def test_data_counts_where_it_stays_in_memory(body: str, level: str) -> None:
    Path("train.py").write_text(KEPT.replace("{body}", body))
    said = [one for one, _ in told("#SBATCH --mem=5M\npython train.py", "host-memory/oom-kill") if one != "note"]
    assert said == ([level] if level else [])
