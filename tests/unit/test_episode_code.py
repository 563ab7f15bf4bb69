"""Short episodes and episodes of different lengths, however the program is written."""

from __future__ import annotations

from pathlib import Path

import pytest

import crashcart

h5py = pytest.importorskip("h5py")
np = pytest.importorskip("numpy")
HEAD = """
import argparse
import glob
import os
from dataclasses import dataclass

import h5py
import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset

"""
CONSTANT = """
HDF5_DIR = "episodes/"


class Episodes:
    def __init__(self):
        self.paths = [os.path.join(HDF5_DIR, name) for name in os.listdir(HDF5_DIR)]

    def parse_hdf5_file(self, path):
        with h5py.File(path, "r") as f:
            qpos = f["observations"]["qpos"][:]
            num_steps = qpos.shape[0]
            if num_steps < 64:
                return False, None
            return True, qpos


Episodes()
"""
FUNCTION = """
def build_index(root, horizon):
    index = []
    for path in sorted(glob.glob(f"{root}/*.hdf5")):
        with h5py.File(path, "r") as file:
            total = len(file["action"])
        if total < horizon:
            continue
        index.extend((path, t) for t in range(total - horizon + 1))
    return index


class Chunks(Dataset):
    def __init__(self, index):
        self.index = index

    def __getitem__(self, at):
        return self.index[at]


parser = argparse.ArgumentParser()
parser.add_argument("--data_dir", default="episodes")
parser.add_argument("--pred_horizon", type=int, default=64)
args = parser.parse_args()
loader = DataLoader(Chunks(build_index(args.data_dir, args.pred_horizon)), shuffle=True)
"""
CUMULATIVE = """
@dataclass
class Config:
    data_root: str = "episodes"
    chunk_size: int = 64


class Buffer(Dataset):
    def __init__(self, cfg):
        self.cfg = cfg
        self.counts = []
        for path in sorted(glob.glob(cfg.data_root + "/*.hdf5")):
            with h5py.File(path, "r") as file:
                length = file["action"].shape[0]
            self.counts.append(max(0, length - self.cfg.chunk_size + 1))
        self.ends = np.cumsum(self.counts)

    def __len__(self):
        return int(self.ends[-1])

    def __getitem__(self, at):
        return at


import tyro

cfg = tyro.cli(Config)
loader = DataLoader(Buffer(cfg), shuffle=True)
"""
HANDED = """
class Windows(Dataset):
    def __init__(self, root, window):
        self.window = window
        self.items = []
        for path in sorted(glob.glob(os.path.join(root, "*.hdf5"))):
            with h5py.File(path, "r") as file:
                n = file["action"].shape[0]
            for start in np.arange(0, n - self.window + 1):
                self.items.append((path, start))

    def __len__(self):
        return len(self.items)

    def __getitem__(self, at):
        return at


DATA_ROOT = "episodes"
loader = DataLoader(Windows(DATA_ROOT, window=64), shuffle=True)
"""
NAMED = HANDED.replace(
    """            for start in np.arange(0, n - self.window + 1):
                self.items.append((path, start))
""",
    """            room = max(0, n - self.window + 1)
            self.items.extend((path, start) for start in range(room))
""",
)
ASKED = HANDED.replace(
    "            for start in np.arange(0, n - self.window + 1):\n",
    """            room = n - self.window + 1
            if room < 1:
                continue
            for start in np.arange(room):
""",
)
PADDED = """
DATA_DIR = "episodes"


class Padded(Dataset):
    def __init__(self, root, chunk_size):
        self.paths, self.chunk_size = sorted(glob.glob(root + "/*.hdf5")), chunk_size

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, at):
        with h5py.File(self.paths[at], "r") as file:
            n = file["action"].shape[0]
            start = np.random.randint(0, max(1, n - self.chunk_size + 1))
            action = file["action"][start : start + self.chunk_size]
        if len(action) < self.chunk_size:
            action = np.concatenate([action, np.tile(action[-1:], (self.chunk_size - len(action), 1))])
        return torch.from_numpy(action)


loader = DataLoader(Padded(DATA_DIR, 64), batch_size=2)
"""
STACKED = """
DATA_DIR = "episodes"


def get_norm_stats(dataset_dir, num_episodes):
    all_action_data = []
    for episode_idx in range(num_episodes):
        with h5py.File(os.path.join(dataset_dir, f"episode_{episode_idx}.hdf5"), "r") as root:
            action = root["/action"][()]
        all_action_data.append(torch.from_numpy(action))
    all_action_data = torch.stack(all_action_data)
    return all_action_data.mean(dim=[0, 1])


stats = get_norm_stats(DATA_DIR, 3)
"""


@pytest.fixture(autouse=True)
def _own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def episodes(*lengths: int) -> None:
    Path("episodes").mkdir(exist_ok=True)
    for at, length in enumerate(lengths):
        with h5py.File(f"episodes/episode_{at}.hdf5", "w") as file:
            file["action"] = np.zeros((length, 2), "float32")
            file["observations/qpos"] = np.zeros((length, 2), "float32")


def told(program: str, cause: str) -> list[str]:
    Path("train.py").write_text(HEAD + program)
    return [one.level for one in crashcart.check(command=["python", "train.py"]).findings if one.cause == cause]


@pytest.mark.parametrize(
    "program",
    [CONSTANT, FUNCTION, CUMULATIVE, HANDED, NAMED, ASKED],
    ids=["constant", "function", "dataclass", "handed", "named", "asked"],
)
def test_short_episodes_are_seen_however_they_are_left_out(program: str) -> None:
    episodes(20, 30, 40)
    assert told(program, "data/empty-or-short") == ["will"]
    episodes(100, 30, 100)
    assert told(program, "data/empty-or-short") == ["note"]
    episodes(64, 80, 100)
    assert not told(program, "data/empty-or-short")


def test_a_program_that_pads_loses_nothing() -> None:
    episodes(20, 30, 40)
    assert not told(PADDED, "data/empty-or-short")
    assert not told(PADDED, "data/shape")


def test_episodes_that_are_stacked_must_have_one_length() -> None:
    episodes(20, 30, 40)
    assert told(STACKED, "data/shape") == ["will"]
    episodes(30, 30, 30)
    assert not told(STACKED, "data/shape")
