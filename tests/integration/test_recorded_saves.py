"""Checkpoints that cannot be written, under `crashcart run`: a full file system is told by its name, with what lies there now."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest
from recorded import ran, shown

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytest.importorskip("torch")

pytestmark = pytest.mark.processes
SAVES = """
    import sys
    import torch

    model = torch.nn.Linear(1000, 1000)
    for step in range(4):
        HOW
"""
WAYS = {
    "by its own file": 'torch.save(model.state_dict(), f"elsewhere/{step}.pt")',
    "by the program's file": 'torch.save(model.state_dict(), open(f"elsewhere/{step}.pt", "wb"))',
    "by safetensors": 'from safetensors.torch import save_file; save_file(model.state_dict(), f"elsewhere/{step}.pt")',
}


@pytest.fixture
def elsewhere(tmp_path: Path) -> Iterator[Path]:
    """A small file system that is not the one of the working folder."""
    place = tmp_path / "elsewhere"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=6m", "none", str(place)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("a file system cannot be mounted here")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=False)


@pytest.mark.parametrize("way", WAYS)
def test_a_full_file_system_elsewhere_is_named(tmp_path: Path, elsewhere: Path, way: str) -> None:
    if way == "by safetensors":
        pytest.importorskip("safetensors")
    diagnosis = ran(tmp_path, SAVES.replace("HOW", WAYS[way]))
    causes = [one.cause for one in diagnosis.findings]
    assert causes[0] == "host-memory/disk-full"
    assert "checkpoint/save-failed" in causes
    said = shown(diagnosis)
    assert "The file system elsewhere had" in said
    assert "while writing elsewhere/1.pt" in said
    if (elsewhere / "1.pt").exists():
        assert "is incomplete; the last complete one is elsewhere/0.pt" in said


def test_a_folder_that_is_not_there_is_no_full_disk(tmp_path: Path) -> None:
    diagnosis = ran(tmp_path, SAVES.replace("HOW", 'torch.save(model.state_dict(), "no/such/folder/model.pt")'))
    assert diagnosis.findings[0].cause == "checkpoint/save-failed"
    assert "host-memory/disk-full" not in [one.cause for one in diagnosis.findings if one.role == "cause"]


def test_a_save_that_the_program_gets_over_is_nobodys_fault(tmp_path: Path) -> None:
    how = """try:
            torch.save(model.state_dict(), "no/such/folder/model.pt")
        except RuntimeError:
            torch.save(model.state_dict(), "model.pt")"""
    assert not ran(tmp_path, SAVES.replace("HOW", how)).findings
