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
        return 10_000

    def __getitem__(self, at):
        with h5py.File(self.path, "r") as file:
            return torch.from_numpy(file["images"][at % 100])


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


def test_no_more_than_the_set_has_can_be_ahead() -> None:
    Path("train.py").write_text(PROGRAM.replace("10_000", "100"))
    assert not told("#SBATCH --mem=300M\npython train.py", "host-memory/oom-kill")


SECTION = """
import h5py
import torch
import yaml
from torch.utils.data import DataLoader, Dataset


class Steps(Dataset):
    def __init__(self, path, cameras):
        self.path, self.cameras = path, cameras

    def __len__(self):
        return 10_000

    def __getitem__(self, at):
        with h5py.File(self.path, "r") as file:
            group = file[f"episode_{at % 2}"]
            images = [torch.from_numpy(group["images"][camera][at % 50]) for camera in self.cameras]
        return torch.stack(images).float() {scaled}


def loader_for(data, **options):
    return DataLoader(data, shuffle=True, **options)


cfg = yaml.safe_load(open("cfg.yaml"))
for batch in {loader}:
    pass
"""


@pytest.mark.parametrize(
    "loader",
    [
        'DataLoader(Steps(cfg["data_path"], cfg["cameras"]), **cfg["loader"])',
        'DataLoader(Steps(cfg["data_path"], cfg["cameras"]), **dict(cfg["loader"]))',
        'loader_for(Steps(cfg["data_path"], cfg["cameras"]), **cfg["loader"])',
        'loader_for(Steps(cfg["data_path"], cfg["cameras"]), batch_size=16, num_workers=8, prefetch_factor=4)',
    ],
)
@pytest.mark.parametrize(("scaled", "level"), [("/ 255", ["will"]), ("* 2", [])])
def test_options_of_a_section_and_tables_named_later(loader: str, scaled: str, level: list[str]) -> None:
    """2 of 3 cameras, 8 workers x 4 batches x 16 samples x 96 KiB are 48 MiB, and four times as much as floats."""
    with h5py.File("frames.h5", "w") as file:
        for camera in ("left", "right", "top"):
            for episode in range(2):
                file.create_dataset(f"episode_{episode}/images/{camera}", (50, 128, 128, 3), "uint8")
    Path("train.py").write_text(SECTION.replace("{loader}", loader).replace("{scaled}", scaled))
    options = "  batch_size: 16\n  num_workers: 8\n  prefetch_factor: 4\n"
    Path("cfg.yaml").write_text(f"data_path: frames.h5\ncameras: [left, right]\nloader:\n{options}")
    said = told("#SBATCH --mem=170M\npython train.py", "host-memory/oom-kill")
    assert [one for one, _ in said if one == "will"] == level
    if level:
        assert "8 workers x 4 batches ahead x 16 samples" in said[0][1]
        assert "192 MiB in all" in said[0][1]


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


GATHERED = """
import functools

import h5py
import torch
from torch.utils.data import DataLoader, Dataset

OPEN = {}


def opened(path):
    if path not in OPEN:
        OPEN[path] = h5py.File(path, "r")
    return OPEN[path]


@functools.lru_cache(maxsize=None)
def remembered(path):
    return h5py.File(path, "r")


class Pool:
    def __init__(self):
        self.files = {}

    def __getitem__(self, path):
        if path not in self.files:
            {room}
            handle = h5py.File(path, "r")
            self.files[path] = handle
        return self.files[path]


class Steps(Dataset):
    def __init__(self, folder):
        self.paths = [f"{folder}/{at}.h5" for at in range(12)]
        self.pool = Pool()

    def __len__(self):
        return 1000

    def __getitem__(self, at):
        return torch.from_numpy({how}["x"][()])


DATA_DIR = "episodes"
for batch in DataLoader(Steps(DATA_DIR), batch_size=2, shuffle=True, num_workers=2, persistent_workers=True):
    pass
"""
BOUND = "while len(self.files) >= 4:\n                self.files.pop(next(iter(self.files))).close()"


def _episodes() -> None:
    Path("episodes").mkdir()
    for at in range(12):
        with h5py.File(f"episodes/{at}.h5", "w") as file:
            file["x"] = np.zeros(2)


def _only(how: str, room: str = "pass") -> str:
    """The program with one of the three ways to keep files open."""
    text = GATHERED.replace("{how}", how).replace("{room}", room)
    parts = {"opened": "def opened", "remembered": "@functools", "self.pool": "class Pool"}
    for name, begin in parts.items():
        if name not in how:
            start = text.index(begin)
            text = text[:start] + text[text.index("\n\n\n", start) + 3 :]
    return text if "self.pool" in how else text.replace("self.pool = Pool()", "pass")


@pytest.mark.parametrize(
    "how", ["opened(self.paths[at % 12])", "remembered(self.paths[at % 12])", "self.pool[self.paths[at % 12]]"]
)
def test_files_that_stay_open_once_they_were_read(how: str) -> None:
    from crashcart.model import HARMLESS
    from crashcart.repair import repairs, write

    _episodes()
    Path("train.py").write_text(_only(how))
    script = "ulimit -n 10\npython train.py"
    assert [level for level, _ in told(script, "host-memory/fds")] == ["will"]
    assert not told("ulimit -n 4096\npython train.py", "host-memory/fds")
    told(script, "host-memory/fds")
    write(repairs(crashcart.check("train.sh").findings, HARMLESS))
    assert not told(script, "host-memory/fds")


def test_a_pool_that_closes_the_oldest() -> None:
    _episodes()
    Path("train.py").write_text(_only("self.pool[self.paths[at % 12]]", BOUND))
    assert not told("ulimit -n 10\npython train.py", "host-memory/fds")


KEPT = """
import h5py
import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset


def read(path, mode="r"):
    with h5py.File(path, mode) as file:
        return {"x": file["images"][()], "n": len(file["images"])}


def read_tables(path):
    with h5py.File(path, "r") as file:
        return {name: table[()] for name, table in file.items()}


def read_names(path):
    with h5py.File(path, "r") as file:
        return {name: file[name][:] for name in file.keys()}


def read_all(paths):
    found = {}
    for one in paths:
        found[one] = read(one)
    return found


def count(path):
    with h5py.File(path, "r") as file:
        return len(file["images"][()])


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
        ("self.x = {one: read(one) for one in [path]}", "will"),
        ("self.x = list(map(read, [path]))", "will"),
        ("self.x = [read_tables(one) for one in [path]]", "will"),
        ("self.x = [read_names(one) for one in [path]]", "will"),
        ("self.x = read_all([path])", "will"),
        ("self.x = np.concatenate([np.array(h5py.File(one)['images']) for one in [path]])", "will"),
        ("self.x = {one: count(one) for one in [path]}", ""),
        ("self.x = {one: read(one)['n'] for one in [path]}", ""),
        ("x = [read(one) for one in [path]]\n        self.n = len(x)", ""),
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


TENSORS = """
import h5py
import torch
from torch.utils.data import DataLoader, TensorDataset


def windows(paths):
    {gathered} = []
    for path in paths:
        with h5py.File(path, "r") as file:
            {gathered}.append(torch.from_numpy(file["images"][:]))
    return TensorDataset(torch.cat({kept}))


DATA_PATH = "frames.h5"
for batch in DataLoader(windows([DATA_PATH])):
    pass
"""


@pytest.mark.parametrize(("kept", "level"), [("images", ["will"]), ("[torch.zeros(2)]", [])])
def test_tensors_of_all_files(kept: str, level: list[str]) -> None:
    Path("train.py").write_text(TENSORS.replace("{gathered}", "images").replace("{kept}", kept))
    said = told("#SBATCH --mem=5M\npython train.py", "host-memory/oom-kill")
    assert [one for one, _ in said if one != "note"] == level


LISTED = """
import glob

import h5py
import torch
from torch.utils.data import DataLoader, Dataset


class Steps(Dataset):
    def __init__(self, paths):
        self.paths = paths
        self.handles = EMPTY

    def __len__(self):
        return len(self.paths)

    def opened(self, path):
        file = h5py.File(path, "r")
        self.handles.ADD(file)
        return file

    def __getitem__(self, at):
        return torch.from_numpy(self.opened(self.paths[at])["images"][0])


DATA_DIR = "many"
paths = sorted(glob.glob(DATA_DIR + "/*.h5"))
for batch in DataLoader(Steps(paths), batch_size=4, num_workers=2, persistent_workers=True):
    pass
"""


@pytest.mark.parametrize(("empty", "add", "cut"), [("[]", "append", True), ("set()", "add", False)])
def test_files_that_stay_open_in_a_list(empty: str, add: str, cut: bool) -> None:  # noqa: FBT001 - a column of the table
    """They are told against the script's own limit; of a set no slice can be deleted."""
    Path("many").mkdir()
    for at in range(40):
        with h5py.File(f"many/{at}.h5", "w") as file:
            file["images"] = np.zeros((2, 4, 4), "uint8")
    Path("train.py").write_text(LISTED.replace("EMPTY", empty).replace("ADD", add))
    Path("train.sh").write_text("#!/bin/bash\nulimit -n 32\npython train.py\n")
    found = [one for one in crashcart.check("train.sh").findings if one.cause == "host-memory/fds"]
    assert [one.level for one in found] in (["can"], ["will"])
    assert any("del self.handles[:-4]" in (fix.diff or "") for fix in found[0].fixes) is cut
