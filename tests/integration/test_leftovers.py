"""After `crashcart run` has ended a job, nothing of it is left but what left it on purpose; else what the job itself left."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import stopped
from processes import tree_of
from supervised import CRASHCART, gone, python, until

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.processes

STOP = [*CRASHCART, "--quiet", "--on-hang", "stop", "--grace", "2", "--"]
WRITE_PID = "open(f'pid-{name}', 'w').write(str(os.getpid()))"
HANGING_RANKS = f"""
    import os, signal, time, torch, torch.distributed as dist
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    name = f"rank{{rank}}"
    {WRITE_PID}
    if rank == 1:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    model = torch.nn.Linear(4, 4)
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    for step in range(40):
        optimizer.zero_grad()
        model(torch.ones(2, 4)).sum().backward()
        optimizer.step()
        time.sleep(0.02)
    if rank == 0:
        dist.barrier()
    time.sleep(600)
"""
HANGING = f"""
    import os, time, torch
    name = "train"
    {WRITE_PID}
    model = torch.nn.Linear(4, 4)
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    for step in range(40):
        model(torch.ones(2, 4)).sum().backward()
        optimizer.step()
        time.sleep(0.02)
    time.sleep(600)
"""
DETACHED = """
    setsid sleep 600 & echo $! > pid-session
    nohup sleep 600 > /dev/null 2>&1 & echo $! > pid-nohup
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    yield stopped.prepared(tmp_path, monkeypatch)
    for path in tmp_path.glob("pid-*"):
        with contextlib.suppress(OSError, ValueError):
            os.kill(int(path.read_text()), signal.SIGKILL)


def pid(folder: Path, name: str) -> int:
    return int((folder / f"pid-{name}").read_text())


def test_a_launcher_that_hangs_leaves_no_rank_and_keeps_what_was_detached(folder: Path) -> None:
    (folder / "train.py").write_text(textwrap.dedent(HANGING_RANKS))
    (folder / "train.sh").write_text(textwrap.dedent(DETACHED) + f"exec {' '.join(stopped.TORCHRUN)} train.py\n")
    subprocess.run([*STOP, "bash", "train.sh"], check=False, timeout=120)
    assert [name for name in ("rank0", "rank1") if not gone(pid(folder, name))] == []
    assert not gone(pid(folder, "session"))
    assert not gone(pid(folder, "nohup"))


def test_a_shell_that_dies_of_term_leaves_no_program(folder: Path) -> None:
    (folder / "train.py").write_text(textwrap.dedent(HANGING))
    (folder / "train.sh").write_text(textwrap.dedent(DETACHED) + f"{sys.executable} train.py\necho never\n")
    subprocess.run([*STOP, "bash", "train.sh"], check=False, timeout=120)
    assert gone(pid(folder, "train"))
    assert not gone(pid(folder, "session"))
    assert not gone(pid(folder, "nohup"))


def test_a_job_that_saves_for_longer_than_any_grace_is_not_killed(folder: Path) -> None:
    """Without --grace nothing follows a signal that was passed on; the clock of a stop does not even run."""
    code = (
        "import signal, sys, time\n"
        "def save(*_):\n    time.sleep(4)\n    print('saved', flush=True)\n    sys.exit(0)\n"
        "signal.signal(15, save)\nprint('ready', flush=True)\ntime.sleep(60)"
    )
    job = subprocess.Popen([*CRASHCART, "--", *python(code)], stdout=subprocess.PIPE, cwd=folder)
    assert job.stdout is not None
    assert job.stdout.readline() == b"ready\n"
    job.terminate()
    assert job.stdout.read() == b"saved\n"
    assert job.wait(150) == 0
    assert "sent" not in [event["kind"] for event in stopped.events(folder, "sent")]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda number: number.name)
def test_what_a_shell_leaves_after_a_signal_to_its_group_is_what_it_leaves_bare(
    folder: Path, number: signal.Signals
) -> None:
    """A shell's background jobs ignore INT: they stay, as they do without us."""
    (folder / "train.sh").write_text(
        textwrap.dedent(DETACHED) + "sleep 600 & echo $! > pid-background\n: > ready\nsleep 600\n"
    )
    names = ("session", "nohup", "background")
    results = []
    for before in ([], [*CRASHCART, "--quiet", "--"]):
        (folder / "ready").unlink(missing_ok=True)
        job = subprocess.Popen([*before, "bash", "train.sh"], start_new_session=True, stdout=subprocess.DEVNULL)
        until((folder / "ready").exists)
        until(lambda: os.getsid(pid(folder, "session")) == pid(folder, "session"))
        os.killpg(job.pid, number)
        job.wait(150)
        time.sleep(0.5)  # the others of the group end when they get to run
        pids = {name: pid(folder, name) for name in names}
        results.append({name: gone(one) for name, one in pids.items()})
        for one in pids.values():
            with contextlib.suppress(OSError):
                os.kill(one, signal.SIGKILL)
    assert results[0] == results[1]
    assert not results[1]["session"]


def test_neither_keeper_nor_witness_outlives_the_run(folder: Path) -> None:
    """Ours are all gone when `run` returns: a batch system may take what is left for a part of the job."""
    for command in (("true",), ("sh", "-c", "kill -9 $$"), ("no-such-command",)):
        job = subprocess.Popen(
            [*CRASHCART, "--quiet", "--", *command], start_new_session=True, env={**os.environ, "TRACE": str(folder)}
        )
        job.wait(150)
        assert not marked(folder)


def marked(folder: Path) -> list[int]:
    """All processes that a test has started here, ours and those of the job."""
    entry = f"TRACE={folder}".encode()
    found = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):
            if entry in path.read_bytes().split(b"\0"):
                found.append(int(path.parent.name))
    return found


def test_the_witness_ends_with_the_supervisor_and_without_it(folder: Path) -> None:
    job = subprocess.Popen(
        [*CRASHCART, "--quiet", "--", "sh", "-c", "echo $$ > pid-job; sleep 600"],
        start_new_session=True,
        env={**os.environ, "TRACE": str(folder)},
    )
    until(lambda: (folder / "pid-job").exists() and (folder / "pid-job").read_text())
    first = pid(folder, "job")
    until(lambda: len(marked(folder)) == 6)  # supervisor, keeper, two witnesses, the shell, sleep
    job.kill()
    job.wait()
    until(lambda: len(marked(folder)) == 3)  # the keeper and the job
    os.killpg(first, signal.SIGKILL)
    until(lambda: not marked(folder))


def test_witnesses_that_were_stopped_are_not_left(folder: Path) -> None:
    code = "import os, time\nopen('pid-job', 'w').write(str(os.getpid()))\nwhile not os.path.exists('end'): time.sleep(0.02)"
    job = subprocess.Popen(
        [*CRASHCART, "--quiet", "--", *python(code)], start_new_session=True, env={**os.environ, "TRACE": str(folder)}
    )
    until(lambda: (folder / "pid-job").exists() and (folder / "pid-job").read_text())
    first = pid(folder, "job")
    witnesses = [one for one in tree_of(job.pid) if one not in {job.pid, first} and os.getpgid(one) in {job.pid, first}]
    assert len(witnesses) == 2
    for one in witnesses:
        os.kill(one, signal.SIGSTOP)
    (folder / "end").touch()
    assert job.wait(150) == 0
    until(lambda: not marked(folder), 60)
