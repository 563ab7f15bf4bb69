"""The last line of `check`: whether to start the job, and never more sure than what could be read."""

from __future__ import annotations

from typing import TYPE_CHECKING

import crashcart
from crashcart.report.foreseen import text, verdict

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def test_a_job_of_which_all_was_read_can_be_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text("print('fine')\n")
    diagnosis = crashcart.check(command=["python", "train.py"])
    assert verdict(diagnosis) == "It can be started: nothing in what was read will kill it."


def test_what_could_not_be_read_is_not_called_well(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A part of the program is not known: that is no reason to say that it can be started."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text("import model\n")
    (tmp_path / "model.py").write_bytes(b"\x00\x01\x02 no program")
    diagnosis = crashcart.check(command=["python", "train.py"])
    assert diagnosis.not_looked
    assert verdict(diagnosis).endswith("could not be looked at, and may.")
    assert "Not everything could be read." in text(diagnosis)
