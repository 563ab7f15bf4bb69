"""Samples that are raw files as they are, loaders whose options a loop takes from parts of the settings."""

from __future__ import annotations

from pathlib import Path

import pytest

import crashcart

CONFIG = """
length = 8
images = 32
data = dict(
    root="sweeps",
    train=dict(num_workers=16, prefetch_factor=8, persistent_workers=True),
    val=dict(num_workers=2, prefetch_factor=2, persistent_workers=False),
)
"""
PROGRAM = """
import runpy
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset


class Sweeps(Dataset):
    def __init__(self, root, split, length):
        self.paths = sorted((Path(root) / split).glob("*.bin"))
        self.length = length

    def __len__(self):
        return len(self.paths) - self.length + 1

    def read(self, at):
        points = [np.fromfile(one, dtype=np.float32) for one in self.paths[at : at + self.length]]
        points = np.stack(points)
        return {"points": POINTS}

    def __getitem__(self, at):
        return {key: torch.from_numpy(value) for key, value in self.read(at).items()}


def loaders(cfg):
    made = {}
    for split in ("train", "val"):
        options = dict(cfg.data[split])
        data = Sweeps(cfg.data["root"], split, cfg.length)
        made[split] = DataLoader(data, batch_size=cfg.images // cfg.length, **options)
    return made


cfg = SimpleNamespace(**runpy.run_path("configs/b.py"))
for batch in loaders(cfg)["train"]:
    pass
"""


def told(points: str, header: str = "#SBATCH --mem=8G") -> list[tuple[str, str]]:
    Path("train.py").write_text(PROGRAM.replace("POINTS", points))
    Path("train.slurm").write_text(f"#!/bin/bash\n{header}\nsrun python train.py --config configs/b.py\n")
    found = crashcart.check("train.slurm").findings
    return [(one.level, sign.says) for one in found if one.cause == "host-memory/oom-kill" for sign in one.signs]


@pytest.fixture(autouse=True)
def _project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("configs").mkdir()
    Path("configs/b.py").write_text(CONFIG)
    for split, many in (("train", 600), ("val", 20)):
        Path("sweeps", split).mkdir(parents=True)
        for at in range(many):
            with open(f"sweeps/{split}/{at:06}.bin", "wb") as file:
                file.truncate(160_000 * 16)


def test_the_files_of_a_sample_are_summed() -> None:
    """16 workers x 8 batches x 4 samples of 8 files."""
    level, says = told("points")[0]
    assert level == "can"
    assert "16 workers x 8 batches ahead x 4 samples of at least 20 MiB" in says


def test_what_is_thinned_out_or_fits_is_not_told() -> None:
    """A part of the points, more memory, or a number of tasks that nobody knows."""
    assert not [one for one in told("points[:, ::64]") if one[0] != "note"]
    assert not [one for one in told("points", "#SBATCH --mem=64G") if one[0] != "note"]
    assert not [one for one in told("points", "#SBATCH --mem=8G\n#SBATCH --ntasks-per-node=$N") if one[0] != "note"]
