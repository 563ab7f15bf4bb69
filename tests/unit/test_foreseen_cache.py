"""A cache of episodes that only grows, where the data's folder has a default that a variable may change."""

from __future__ import annotations

from pathlib import Path

import pytest

import crashcart

h5py = pytest.importorskip("h5py")
PROGRAM = """
import argparse
import os

import h5py
import torch
from torch.utils.data import DataLoader, Dataset

ROOT = os.environ.get("EPISODES", "data")
TASKS = {"cube": {"dataset_dir": ROOT + "/cube", "num_episodes": 20}, "peg": {"dataset_dir": ROOT + "/peg"}}


class Episodes(Dataset):
    def __init__(self, folder, count):
        self.folder, self.count = folder, count
        self.known = {}

    def __len__(self):
        return self.count

    def episode(self, at):
        if at not in self.known:
            with h5py.File(f"{self.folder}/episode_{at}.hdf5", "r") as root:
                self.known[at] = {"images": root["images"][()], "action": root["action"][()]}
        return self.known[at]

    def __getitem__(self, at):
        episode = self.episode(at)
        return torch.from_numpy(episode["images"][0]), torch.from_numpy(episode["action"][0])


parser = argparse.ArgumentParser()
parser.add_argument("--task")
task = TASKS[parser.parse_args().task]
for batch in DataLoader(Episodes(task["dataset_dir"], task["num_episodes"]), batch_size=4, num_workers=0):
    pass
"""


@pytest.fixture(autouse=True)
def _project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("EPISODES", raising=False)
    Path("train.py").write_text(PROGRAM)
    Path("data/cube").mkdir(parents=True)
    for at in range(20):
        with h5py.File(f"data/cube/episode_{at}.hdf5", "w") as file:
            file.create_dataset("images", (100, 256, 256, 3), "uint8", chunks=(1, 256, 256, 3))
            file.create_dataset("action", (100, 14), "float32")


def levels(script: str) -> list[str]:
    Path("train.sh").write_text(f"#!/bin/bash\n{script}\n")
    return [one.level for one in crashcart.check("train.sh").findings if one.cause == "host-memory/leak"]


def test_it_is_weighed_against_what_the_job_may_use() -> None:
    """20 episodes of 19 MiB are 375 MiB."""
    assert levels("#SBATCH --mem=300M\npython train.py --task cube") == ["can"]
    assert levels("#SBATCH --mem=30G\npython train.py --task cube") == ["note"]


def test_a_variable_that_is_set_leads_elsewhere() -> None:
    """Then nobody knows what the data hold."""
    assert levels("#SBATCH --mem=300M\nexport EPISODES=/elsewhere\npython train.py --task cube") == ["note"]


def test_a_default_that_is_not_there_is_no_missing_path() -> None:
    """Who starts the job may set the variable."""
    Path("train.sh").write_text("#!/bin/bash\npython train.py --task peg\n")
    assert not [one for one in crashcart.check("train.sh").findings if one.level != "note"]
