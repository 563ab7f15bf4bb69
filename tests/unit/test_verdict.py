"""The last line of `check`: whether to start the job, and never more sure than what could be read."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import crashcart
from crashcart.report.foreseen import nothing_found, text, what_next

if TYPE_CHECKING:
    from pathlib import Path


def test_a_job_without_a_finding_is_told_by_what_was_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text("print('fine')\n")
    diagnosis = crashcart.check(command=["python", "train.py"])
    assert nothing_found(diagnosis) == "No problems found in the file read."
    assert text(diagnosis).startswith("No training found")


def test_what_could_not_be_read_is_not_called_well(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A part of the program is not known: that is no reason to say that it can be started."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text("import model\n")
    (tmp_path / "model.py").write_bytes(b"\x00\x01\x02 no program")
    diagnosis = crashcart.check(command=["python", "train.py"])
    assert diagnosis.not_looked
    assert "Not checked: model.py" in nothing_found(diagnosis)


ACT = """
import argparse, os, h5py, torch
TASKS = {"cube": {"dataset_dir": "data/cube", "num_episodes": 5}}

def main(args):
    task = TASKS[args["task"]]
    for number in range(task["num_episodes"]):
        with h5py.File(os.path.join(task["dataset_dir"], f"episode_{number}.hdf5")) as file:
            print(file["action"][()].mean())

parser = argparse.ArgumentParser()
parser.add_argument("--task", required=True)
main(vars(parser.parse_args()))
"""


def test_a_patch_stands_where_it_cures_and_is_called_what_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fewer episodes than asked for has a patch; the damaged one beside it has none, though both are of one cause."""
    h5py = pytest.importorskip("h5py", reason="h5py is not installed")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data" / "cube").mkdir(parents=True)
    for number in range(4):
        with h5py.File(tmp_path / "data" / "cube" / f"episode_{number}.hdf5", "w") as file:
            file["action"] = [[0.5] * 3] * 50
    (tmp_path / "data" / "cube" / "episode_2.hdf5").write_bytes(
        (tmp_path / "data" / "cube" / "episode_1.hdf5").read_bytes()[:900]
    )
    (tmp_path / "train.py").write_text(ACT)
    diagnosis = crashcart.check(command=["python", "train.py", "--task", "cube"])
    damaged = {
        one.level: [fix.safety for fix in one.fixes if fix.diff]
        for one in diagnosis.findings
        if one.cause == "data/corrupt-or-missing"
    }
    assert damaged == {"will": ["changes-training"], "can": []}
    assert what_next(diagnosis, notes=True) == (
        "To see the patches and apply them: `crashcart check --fix-all`. They change the training."
    )
