"""`CRASHCART=off`: the command alone, as if crashcart were not there."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from supervised import CRASHCART, python, run

import crashcart
from crashcart.errors import DEBUG

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.processes


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("CRASHCART_RUNS", raising=False)
    return tmp_path


def test_the_command_takes_our_place(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CRASHCART", "off")
    monkeypatch.delenv(DEBUG)
    code = (
        "import os, sys; print(os.getpid(), '_crashcart_inside' in sys.modules,"
        " [name for name in os.environ if name.startswith('CRASHCART_')]); sys.exit(3)"
    )
    job = subprocess.Popen([*CRASHCART, "--", *python(code)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    out, errors = job.communicate(timeout=150)
    assert (job.returncode, out) == (3, f"{job.pid} False []\n")
    assert errors == "crashcart: CRASHCART=off: running the command without crashcart.\n"
    assert list(folder.iterdir()) == []


def test_signals_are_as_the_caller_left_them(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Python ignores two signals from its start; neither a switched-off job nor a watched one may inherit that."""
    command = ("grep", "-E", "^Sig(Blk|Ign|Cgt)", "/proc/self/status")
    bare = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert run(*command, flags=("--quiet",)).stdout == bare
    monkeypatch.setenv("CRASHCART", "off")
    done = run(*command, flags=("--quiet",))
    assert (done.stdout, done.stderr) == (bare, "")
    assert len(list(folder.glob("crashcart_runs/2*"))) == 1


@pytest.mark.usefixtures("folder")
def test_a_command_that_cannot_start_has_the_shells_code(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CRASHCART", "off")
    assert run("no-such-command").returncode == 127
    assert run("/").returncode == 126


@pytest.mark.usefixtures("folder")
def test_one_program_of_a_job_can_be_left_alone() -> None:
    code = "import sys; module = sys.modules.get('_crashcart_inside.page'); print(module is not None)"
    script = f'{sys.executable} -c "{code}"; CRASHCART=off {sys.executable} -c "{code}"'
    assert run("sh", "-c", script, env={**os.environ}).stdout == "True\nFalse\n"


def test_a_run_within_a_run_is_recorded_once(folder: Path) -> None:
    (folder / "train.py").write_text("raise KeyError('teacher')\n")
    inner = " ".join([*CRASHCART, "--", sys.executable, "train.py"])
    done = run("sh", "-c", inner)
    assert done.returncode == 1
    assert "an outer `crashcart run` already records this" in done.stderr
    recorded = list(folder.glob("crashcart_runs/2*"))
    assert len(recorded) == 1
    diagnosis = crashcart.why([str(recorded[0])])
    assert [stage.program for stage in diagnosis.stages] == ["train.py"]
    assert diagnosis.findings[0].signs[0].says.startswith("train.py raised KeyError")
