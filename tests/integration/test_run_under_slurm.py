"""How Slurm ends jobs: by its own process, at the end that it had named, with last words that only its own file holds.

Its daemon signals every process of a step (`proctrack/linuxproc`, `scancel --full`) or the task's own process alone
(`proctrack/cgroup`, which most clusters have).
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from processes import tree_of

from crashcart.verbs.why import why

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.processes

CRASHCART = [sys.executable, "-m", "crashcart.cli", "run", "--grace", "2", "--"]
JOB = """
    import os, signal, sys, time
    what = sys.argv[1]
    if what == "saves":
        signal.signal(signal.SIGTERM, lambda *_: (print("saved", flush=True), sys.exit(0)))
    elif what == "swallows":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    elif what == "requeues":
        signal.signal(signal.SIGUSR1, lambda *_: (print("checkpoint", flush=True), sys.exit(0)))
    print("ready", flush=True)
    time.sleep(60)
"""
# Signals the processes that it is given, and lives on, as Slurm's daemon does.
STEPD = "import os, sys\nfor pid in sys.argv[2:]:\n    os.kill(int(pid), int(sys.argv[1]))\nimport time\ntime.sleep(1)"
REACHES = pytest.mark.parametrize("reaches", ["everybody", "task"])


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CRASHCART_RUNS", str(tmp_path / "runs"))
    monkeypatch.setenv("SLURM_JOB_ID", "77")
    monkeypatch.setenv("SLURM_SUBMIT_DIR", str(tmp_path))
    (tmp_path / "train.py").write_text(textwrap.dedent(JOB))
    (tmp_path / "slurmstepd").symlink_to(Path(sys.executable).resolve())
    return tmp_path


def until(condition: Callable[[], object], seconds: float = 60.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.05)


def the_run(folder: Path) -> Path:
    (found,) = [path for path in (folder / "runs").iterdir() if path.is_dir()]
    return found


def ran(
    folder: Path, what: str, number: signal.Signals = signal.SIGTERM, last_words: str = "", reaches: str = "everybody"
) -> int:
    """A batch job whose output is Slurm's file, and that Slurm signals."""
    with (folder / "slurm-77.out").open("ab") as out:
        job = subprocess.Popen([*CRASHCART, sys.executable, "train.py", what], stdout=out, stderr=out)
    until(lambda: b"ready" in (folder / "slurm-77.out").read_bytes())
    until(lambda: "job" in json.loads((the_run(folder) / "run.json").read_text()))
    pids = map(str, tree_of(job.pid) if reaches == "everybody" else [job.pid])
    subprocess.run(["./slurmstepd", "-S", "-c", STEPD, str(int(number)), *pids], check=True, cwd=folder)
    code = job.wait(150)
    with (folder / "slurm-77.out").open("a") as out:
        out.write(last_words)
    return code


def stamp(seconds: float = 0.0) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(time.time() + seconds))


@REACHES
@pytest.mark.parametrize("what", ["dies", "swallows"])
def test_the_time_limit_is_told_by_the_end_that_slurm_had_named(
    folder: Path, monkeypatch: pytest.MonkeyPatch, what: str, reaches: str
) -> None:
    monkeypatch.setenv("SLURM_JOB_END_TIME", str(int(time.time()) + 5))
    assert ran(folder, what, reaches=reaches) == -(15 if what == "dies" else 9)
    told = why([str(the_run(folder))])
    assert told.ending.state == "stopped"
    assert told.findings[0].cause == "outside/preempted"
    says = told.findings[0].signs[0].says
    assert "by Slurm (slurmstepd" in says
    assert "at the end of its Slurm time limit" in says


@pytest.mark.parametrize(
    ("reason", "says"),
    [(" DUE TO TIME LIMIT", "its time limit was reached"), (" DUE TO PREEMPTION", "it was preempted"), ("", "scancel")],
)
def test_slurms_last_words_are_found_in_its_own_file(folder: Path, reason: str, says: str) -> None:
    earlier = f"slurmstepd: error: *** JOB 77 ON n1 CANCELLED AT {stamp(-7200)} DUE TO NODE FAILURE ***\n"
    (folder / "slurm-77.out").write_text(earlier)
    ran(folder, "dies", last_words=f"slurmstepd: error: *** JOB 77 ON n1 CANCELLED AT {stamp()}{reason} ***\n")
    told = why([str(the_run(folder))])
    assert told.findings[0].cause == "outside/preempted"
    assert any(says in sign.says for sign in told.findings[0].signs)
    assert not [one for one in told.findings if one.cause == "outside/node-lost" and one.strength != "weak"]


@REACHES
@pytest.mark.parametrize(("what", "number"), [("saves", signal.SIGTERM), ("requeues", signal.SIGUSR1)])
def test_a_job_that_saves_and_ends_well_has_not_crashed(
    folder: Path, what: str, number: signal.Signals, reaches: str
) -> None:
    assert ran(folder, what, number, reaches=reaches) == 0
    said = (folder / "slurm-77.out").read_text()
    assert said.count("saved") + said.count("checkpoint") == 1
    told = why([str(the_run(folder))])
    assert told.ending.state == "finished"
    assert not [one for one in told.findings if one.role == "cause"]
    if number == signal.SIGTERM:
        assert any("it then exited with code 0" in note.quote for note in told.notes)
    shown = subprocess.run(
        [sys.executable, "-m", "crashcart", "runs"], capture_output=True, text=True, check=True, env={**os.environ}
    )
    assert "finished" in shown.stdout
