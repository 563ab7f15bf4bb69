"""A table of tasks that lies beside the code: the episodes that it promises, and the batches that they give."""

from __future__ import annotations

from pathlib import Path

import pytest

import crashcart
from crashcart.model import HARMLESS
from crashcart.repair import repairs, write

h5py = pytest.importorskip("h5py")
np = pytest.importorskip("numpy")
TABLE = """
import os
import pathlib

DATA_DIR = {place}
TASKS = {{
    "lift": {{"dataset_dir": DATA_DIR + "/lift", "num_episodes": {count}}},
    "insert": {{"dataset_dir": DATA_DIR + "/insert", "num_episodes": 90}},
}}
"""
PROGRAM = """
import argparse
import os

import h5py
import numpy as np
import torch
from constants import TASKS
from torch.utils.data import DataLoader, Dataset


class Episodes(Dataset):
    def __init__(self, episode_ids, folder):
        self.episode_ids = episode_ids
        self.folder = folder

    def __len__(self):
        return len(self.episode_ids)

    def __getitem__(self, at):
        with h5py.File(os.path.join(self.folder, f"episode_{self.episode_ids[at]}.hdf5"), "r") as file:
            return torch.from_numpy(file["action"][:4])


def statistics(dataset_dir, num_episodes):
    found = []
    for number in range(num_episodes):
        with h5py.File(os.path.join(dataset_dir, f"episode_{number}.hdf5"), "r") as file:
            found.append(file["action"][()])
    return np.concatenate(found).mean(0)


def main(args):
    task = TASKS[args.task_name]
    mean = statistics(task["dataset_dir"], task["num_episodes"])
    order = np.random.permutation(task["num_episodes"])
    data = Episodes(order[: int(0.8 * len(order))], task["dataset_dir"])
    loader = DataLoader(data, batch_size=args.batch_size, shuffle=True, drop_last=True)
    policy = torch.nn.Linear(3, 1)
    optimizer = torch.optim.SGD(policy.parameters(), lr=0.1)
    for batch in loader:
        policy(batch - torch.from_numpy(mean)).mean().backward()
        optimizer.step()
        optimizer.zero_grad()


parser = argparse.ArgumentParser()
parser.add_argument("--task_name", required=True)
parser.add_argument("--batch_size", type=int, required=True)
main(parser.parse_args())
"""
PLACES = (
    'os.path.join(str(pathlib.Path(__file__).parent.resolve()), "demos")',
    'str(pathlib.Path(__file__).resolve().parents[0] / "demos")',
    'os.path.join(os.path.dirname(os.path.abspath(__file__)), "demos")',
)


@pytest.fixture(params=PLACES)
def place(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Six episodes below the folder of the code, which is not the folder where the job is started."""
    (tmp_path / "code" / "demos" / "lift").mkdir(parents=True)
    for number in range(6):
        with h5py.File(tmp_path / "code" / "demos" / "lift" / f"episode_{number}.hdf5", "w") as file:
            file["action"] = np.ones((8, 3), dtype="float32")
    (tmp_path / "code" / "train.py").write_text(PROGRAM, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return str(request.param)


def told(place: str, count: int, batch: int) -> dict[str, str]:
    """The level of each cause that is claimed."""
    Path("code/constants.py").write_text(TABLE.format(place=place, count=count), encoding="utf-8")
    command = ["python", "code/train.py", "--task_name", "lift", "--batch_size", str(batch)]
    return {one.cause: one.level or "" for one in crashcart.check(command=command).findings if one.level != "note"}


def test_more_episodes_are_promised_than_lie_there(place: str) -> None:
    """It ends for sure, and the count that is right can be written down."""
    assert told(place, 9, 2) == {"data/corrupt-or-missing": "will"}
    command = ["python", "code/train.py", "--task_name", "lift", "--batch_size", "2"]
    found = repairs(crashcart.check(command=command).findings, HARMLESS | {"changes-training"})
    write(found)
    assert '"num_episodes": 6}' in Path("code/constants.py").read_text(encoding="utf-8")
    assert not [one for one in crashcart.check(command=command).findings if one.level != "note"]


def test_a_batch_larger_than_all_episodes_is_left_out(place: str) -> None:
    """Six episodes, eight to a batch, and the last one dropped."""
    assert told(place, 6, 8) == {"data/empty-or-short": "will"}


def test_episodes_that_are_all_there_are_no_finding(place: str) -> None:
    """Nor is a table that asks for fewer."""
    assert told(place, 6, 2) == {}
    assert told(place, 5, 2) == {}


def test_a_file_that_may_be_absent_is_no_will(place: str) -> None:
    """Somebody catches what is not there."""
    lines = PROGRAM.split("\n")
    first = next(at for at, line in enumerate(lines) if "range(num_episodes)" in line) + 1
    lines[first : first + 2] = [
        "        try:",
        *("    " + line for line in lines[first : first + 2]),
        "        except OSError:",
        "            continue",
    ]
    caught = "\n".join(lines)
    Path("code/train.py").write_text(caught, encoding="utf-8")
    assert "will" not in told(place, 9, 2).values()
