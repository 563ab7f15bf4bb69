"""Real jobs that die under `crashcart run`: the first rank, how it ended and who ended it are told from the record."""

from __future__ import annotations

import contextlib
import os
import pty
import signal
import subprocess
import sys
import textwrap
from typing import TYPE_CHECKING

import pytest

from crashcart.report.terminal import text

if TYPE_CHECKING:
    from pathlib import Path
pytest.importorskip("torch")
from dying import (
    CRASHCART,
    PATIENCE,
    TORCHRUN,
    TRAIN,
    blamed,
    finding,
    pid_of,
    prepared,
    processes,
    ran,
    started,
    told,
    training,
    trains,
    until,
    words,
)

pytestmark = pytest.mark.processes


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return prepared(tmp_path, monkeypatch)


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    ("what", "cause", "says"),
    [
        ("crash", "code/bug", "rank 1 raised KeyError at"),
        ("segfault", "code/bug", "was killed by SIGSEGV, a segmentation fault during training"),
        ("exit", "code/bug", "exited with code 3, without an exception"),
        ("save", "checkpoint/save-failed", "rank 1 raised RuntimeError while writing a checkpoint"),
    ],
)
def test_the_rank_that_fails_first_is_named_and_the_other_is_its_echo(
    folder: Path, what: str, cause: str, says: str
) -> None:
    diagnosis = ran(folder, *training(what))
    assert diagnosis.findings[0].cause == cause
    assert diagnosis.findings[0].level == "did"
    assert diagnosis.ending.first_rank == 1
    assert says in words(diagnosis.findings[0])
    echo = finding(diagnosis, "distributed/peer-died")
    assert echo.role == "echo"
    assert "after rank 1, as a consequence" in words(echo)


def test_sigkill_of_a_rank_from_outside_is_told_by_exclusion(folder: Path) -> None:
    with started(folder, *training("train")):
        trains(folder)
        os.kill(pid_of(folder, 1), signal.SIGKILL)
    diagnosis = told(folder)
    assert (diagnosis.findings[0].cause, diagnosis.ending.first_rank) == ("outside/user", 1)
    assert "rank 1 was killed by SIGKILL from outside" in words(diagnosis.findings[0])
    assert "oom_kill of the whole machine: stayed at" in words(diagnosis.findings[0])
    assert not [one for one in diagnosis.findings if one.cause.startswith("host-memory/")]
    assert "host-memory/oom-kill" in [one.cause for one in diagnosis.ruled_out]
    assert "Find who sends SIGKILL" in text(diagnosis)
    assert "tmux" not in text(diagnosis)


LOADER = """
    import time
    import torch
    from torch.utils.data import DataLoader

    model = torch.nn.Linear(8, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for step, batch in enumerate(DataLoader(torch.randn(4000, 8), batch_size=8, num_workers=2)):
        loss = model(batch).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"step {step} loss {loss.item():.4f}", flush=True)
        time.sleep(0.1)
"""


def test_sigkill_of_a_loader_worker_is_neither_memory_nor_shared_memory(folder: Path) -> None:
    (folder / "train.py").write_text(textwrap.dedent(LOADER))
    with started(folder, sys.executable, "train.py"):
        until(lambda: b"step 4 " in (folder / "seen").read_bytes() and len(processes(folder, "loader worker")) == 2)
        os.kill(next(iter(processes(folder, "loader worker"))), signal.SIGKILL)
    diagnosis = told(folder)
    assert diagnosis.findings[0].cause == "outside/user"
    assert "loader worker of rank 0 was killed by SIGKILL from outside" in words(diagnosis.findings[0])
    assert not {"host-memory/oom-kill", "host-memory/shm"} & set(blamed(diagnosis))


def test_a_kill_of_the_whole_job_blames_no_rank(folder: Path) -> None:
    with started(folder, *training("train")):
        trains(folder)
        for pid in [*processes(folder, "launcher"), *processes(folder, "rank")]:
            os.kill(pid, signal.SIGKILL)
    diagnosis = told(folder)
    assert (diagnosis.findings[0].cause, diagnosis.ending.first_rank) == ("outside/user", None)
    assert "the whole job, including its launcher, was killed by SIGKILL" in words(diagnosis.findings[0])


@pytest.mark.parametrize(("number", "cause"), [(signal.SIGINT, "outside/user"), (signal.SIGTERM, "outside/preempted")])
def test_a_signal_that_asks_the_job_to_stop_is_told_with_its_sender(
    folder: Path, number: signal.Signals, cause: str
) -> None:
    # torchrun does not always get its ranks to end on an interrupt: then the job is killed after its grace.
    with started(folder, *training("train"), grace=4) as job:
        trains(folder)
        job.send_signal(number)
    diagnosis = told(folder)
    assert (diagnosis.findings[0].cause, diagnosis.ending.state) == (cause, "stopped")
    assert diagnosis.ending.first_rank is None
    assert f"{number.name} was sent to the job by" in words(diagnosis.findings[0])
    assert f"(pid {os.getpid()})" in words(diagnosis.findings[0])
    if number == signal.SIGINT:  # whoever stopped it wants no more than a line
        assert text(diagnosis).startswith("The run was stopped: SIGINT was sent")
        assert "What to do" not in text(diagnosis)


def test_sigterm_at_the_launcher_itself_is_told_too(folder: Path) -> None:
    with started(folder, *training("train")):
        trains(folder)
        os.kill(next(iter(processes(folder, "launcher"))), signal.SIGTERM)
    diagnosis = told(folder)
    assert (diagnosis.findings[0].cause, diagnosis.ending.first_rank) == ("outside/user", None)
    assert "SIGTERM reached the launcher before anything else failed" in words(diagnosis.findings[0])


def test_a_hang_up_that_reaches_the_job(folder: Path) -> None:
    code = "import os, signal; import torch; os.kill(os.getpid(), signal.SIGHUP)"
    diagnosis = ran(folder, sys.executable, "-c", code)
    assert (diagnosis.findings[0].cause, diagnosis.ending.signal) == ("outside/user", "SIGHUP")
    assert "tmux" in text(diagnosis)


def test_control_c_on_a_terminal(folder: Path) -> None:
    master, slave = pty.openpty()
    job = subprocess.Popen(
        ["setsid", "--ctty", "--wait", *CRASHCART, "--", *training("train")], stdin=slave, stdout=slave, stderr=slave
    )
    os.close(slave)
    seen = b""
    with contextlib.suppress(OSError):
        while piece := os.read(master, 4096):
            seen += piece
            if b"step 4 " in seen:
                os.write(master, b"\x03")
                seen = b""
    job.wait(PATIENCE)
    diagnosis = told(folder)
    assert (diagnosis.findings[0].cause, diagnosis.ending.state) == ("outside/user", "stopped")
    assert "SIGINT reached" in words(diagnosis.findings[0])


# A launcher that clears up with SIGKILL as soon as one of its ranks has failed.
LAUNCHER = """
    import os, subprocess, sys, time
    ranks = [
        subprocess.Popen(
            [sys.executable, "train.py", "crash"],
            env={**os.environ, "RANK": str(r), "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": sys.argv[1]},
        )
        for r in range(2)
    ]
    while all(rank.poll() is None for rank in ranks):
        time.sleep(0.005)
    for rank in ranks:
        rank.kill()
    sys.exit(max(rank.wait() for rank in ranks))
"""


def test_the_launchers_own_kill_is_an_echo(folder: Path) -> None:
    # Rank 0 is kept from noticing by itself, so that it is the launcher's signal that ends it.
    (folder / "launch.py").write_text(textwrap.dedent(LAUNCHER))
    program = textwrap.dedent(TRAIN).replace("dist.all_reduce(parameter.grad)", "step")
    (folder / "train.py").write_text(program)
    port = str(20000 + os.getpid() % 20000)
    diagnosis = ran(folder, sys.executable, "launch.py", port)
    assert (diagnosis.findings[0].cause, diagnosis.ending.first_rank) == ("code/bug", 1)
    assert "killed by SIGKILL" in words(finding(diagnosis, "distributed/peer-died"))
    assert blamed(diagnosis) == ["code/bug"]


@pytest.mark.long
def test_what_ended_an_earlier_attempt_stays_in_the_record(folder: Path) -> None:
    try:
        diagnosis = ran(folder, *training("restart", "--max-restarts", "3"))
    except subprocess.TimeoutExpired:
        pytest.skip("the launcher's own restart did not come up: its ranks did not find each other again")
    if diagnosis.ending.exit_code:
        pytest.skip("the launcher's own restarts failed one after another: nothing to tell of a run that ended well")
    assert diagnosis.ending.state == "finished"
    assert blamed(diagnosis) == []
    first = finding(diagnosis, "code/bug")
    assert first.role == "contributing"
    assert "rank 1 raised KeyError" in words(first)
    assert "the job was restarted after that" in words(first)


@pytest.mark.parametrize("command", [["train.py", "finish"]])
def test_a_run_that_is_well_is_blamed_for_nothing(folder: Path, command: list[str]) -> None:
    diagnosis = ran(folder, *TORCHRUN, *command)
    assert diagnosis.ending.state == "finished"
    assert diagnosis.findings == ()
