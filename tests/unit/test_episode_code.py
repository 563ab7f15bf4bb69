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

    def whole(self):
        return [self.parse_hdf5_file(path) for path in self.paths]


Episodes().whole()
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
REGISTRY = """
DATASETS = {}


def register(cls):
    DATASETS[cls.__name__.lower()] = cls
    return cls


@register
class Chunks(Dataset):
    def __init__(self, root, horizon):
        self.root, self.horizon = root, horizon
        lengths = {p: self.steps(p) for p in sorted(glob.glob(root + "/*.hdf5"))}
        self.index = [(p, t) for p, n in lengths.items() for t in range(n - horizon + 1)]

    @staticmethod
    def steps(path):
        with h5py.File(path, "r") as file:
            return len(file["action"])

    def __len__(self):
        return len(self.index)

    def __getitem__(self, at):
        return at


@dataclass
class RunConfig:
    data_root: str = "episodes"
    horizon: int = 64
    kind: str = "chunks"


def build(kind, **given):
    return DATASETS[kind](**given)


run = RunConfig()
loader = DataLoader(build(run.kind, root=run.data_root, horizon=run.horizon), shuffle=True)
"""
TWO_PARTS = """
@dataclass
class Settings:
    data_root: str = "episodes"
    obs_horizon: int = 2
    pred_horizon: int = 62


class Windows(Dataset):
    def __init__(self, root, obs_horizon, pred_horizon):
        self.oh, self.ph = obs_horizon, pred_horizon
        self.starts = [0]
        for path in sorted(glob.glob(root + "/*.hdf5")):
            with h5py.File(path, "r") as file:
                steps = file["action"].shape[0]
            usable = max(steps - self.oh - self.ph + 1, 0)
            self.starts.append(self.starts[-1] + usable)

    def __len__(self):
        return self.starts[-1]

    def __getitem__(self, at):
        return at


p = Settings()
loader = DataLoader(Windows(p.data_root, p.obs_horizon, p.pred_horizon), shuffle=True)
"""
ONLY_LONG = HANDED.replace(
    """            for start in np.arange(0, n - self.window + 1):
                self.items.append((path, start))
""",
    """            if n >= self.window:
                self.items.extend((path, start) for start in range(n))
""",
)
FILTERED = HANDED.replace(
    """        for path in sorted(glob.glob(os.path.join(root, "*.hdf5"))):
            with h5py.File(path, "r") as file:
                n = file["action"].shape[0]
            for start in np.arange(0, n - self.window + 1):
                self.items.append((path, start))
""",
    """        for path in sorted(glob.glob(os.path.join(root, "*.hdf5"))):
            with h5py.File(path, "r") as file:
                self.items.append((path, file["action"].shape[0]))
        self.items = [(path, length) for path, length in self.items if length >= self.window]
""",
)
STRIDED = HANDED.replace("np.arange(0, n - self.window + 1)", "range((n - self.window) // 4 + 1)")
PIECES = HANDED.replace("np.arange(0, n - self.window + 1)", "range(n // self.window)")
WHILE = HANDED.replace(
    """            for start in np.arange(0, n - self.window + 1):
                self.items.append((path, start))
""",
    """            start = 0
            while start + self.window <= n:
                self.items.append((path, start))
                start += 4
""",
)
CLAMPED = """
DATA_DIR = "episodes"


class Clamped(Dataset):
    def __init__(self, root, chunk_size):
        self.paths, self.chunk_size = sorted(glob.glob(root + "/*.hdf5")), chunk_size

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, at):
        with h5py.File(self.paths[at], "r") as file:
            n = file["action"].shape[0]
            last = max(0, n - self.chunk_size)
            start = min(np.random.randint(n), last)
            action = file["action"][start : start + self.chunk_size]
            if len(action) >= self.chunk_size:
                return torch.from_numpy(action)
        return torch.from_numpy(np.pad(action, ((0, self.chunk_size - len(action)), (0, 0)), mode="edge"))


loader = DataLoader(Clamped(DATA_DIR, 64), batch_size=2)
"""
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
PADDED_BEFORE = HANDED.replace(
    """            for start in np.arange(0, n - self.window + 1):
                self.items.append((path, start))
""",
    """            if n < self.window:
                self.items.append((path, 0))
            else:
                self.items.extend((path, start) for start in range(n - self.window + 1))
""",
)
ONLY_COUNTED = HANDED.replace(
    """            for start in np.arange(0, n - self.window + 1):
                self.items.append((path, start))
""",
    """            self.items.append((path, 0))
            for start in range(n - self.window + 1):
                print(path, "has a window at", start)
""",
)
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
    [
        CONSTANT, FUNCTION, CUMULATIVE, HANDED, NAMED, ASKED, REGISTRY, TWO_PARTS, ONLY_LONG, FILTERED, STRIDED, PIECES,
        WHILE,
    ],
    ids=[
        "constant", "function", "dataclass", "handed", "named", "asked", "registry", "two-parts", "only-long", "filtered",
        "strided", "pieces", "while",
    ],
)  # fmt: skip
def test_short_episodes_are_seen_however_they_are_left_out(program: str) -> None:
    episodes(20, 30, 40)
    assert told(program, "data/empty-or-short") == ["will"]
    episodes(100, 30, 100)
    assert told(program, "data/empty-or-short") == ["note"]
    episodes(64, 80, 100)
    assert not told(program, "data/empty-or-short")


@pytest.mark.parametrize(
    "program",
    [PADDED, CLAMPED, PADDED_BEFORE, ONLY_COUNTED],
    ids=["padded", "clamped", "padded-before", "only-counted"],
)
def test_a_program_that_pads_loses_nothing(program: str) -> None:
    episodes(20, 30, 40)
    assert not told(program, "data/empty-or-short")
    assert not told(program, "data/shape")


def test_episodes_that_are_stacked_must_have_one_length() -> None:
    episodes(20, 30, 40)
    assert told(STACKED, "data/shape") == ["will"]
    episodes(30, 30, 30)
    assert not told(STACKED, "data/shape")


SPLIT = HANDED.replace(
    """class Windows(Dataset):
    def __init__(self, root, window):
        self.window = window
        self.items = []
        for path in sorted(glob.glob(os.path.join(root, "*.hdf5"))):
""",
    """def parts(root):
    paths = {listed}
    cut = {cut}
    return paths[:cut], paths[cut:]


class Windows(Dataset):
    def __init__(self, paths, window):
        self.window = window
        self.items = []
        for path in paths:
""",
).replace(
    "loader = DataLoader(Windows(DATA_ROOT, window=64), shuffle=True)",
    "train, val = parts(DATA_ROOT)\nloaders = [DataLoader(Windows(one, window=64)) for one in (train, val)]",
)
SORTED = 'sorted(glob.glob(os.path.join(root, "*.hdf5")))'


@pytest.mark.parametrize(
    ("listed", "cut", "level"),
    [
        (SORTED, "int(0.8 * len(paths))", ["can"]),
        (SORTED, "len(paths) * 4 // 5", ["can"]),
        (SORTED, "len(paths) - 1", ["can"]),
        (SORTED, "-1", ["can"]),
        (SORTED, "int(0.2 * len(paths))", ["note"]),
        ('glob.glob(os.path.join(root, "*.hdf5"))', "int(0.8 * len(paths))", ["note"]),
    ],
)
def test_a_part_that_is_split_off_can_be_empty(listed: str, cut: str, level: list[str]) -> None:
    episodes(100, 100, 100, 100, 30)
    assert told(SPLIT.replace("{listed}", listed).replace("{cut}", cut), "data/empty-or-short") == level
