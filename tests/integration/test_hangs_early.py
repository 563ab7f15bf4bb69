"""Hangs that are proven are announced early, by real programs; those that may go on are not. And what is said while one hangs."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from typing import TYPE_CHECKING, Any

import pytest
from recorded import TORCHRUN

from crashcart.errors import DEBUG
from crashcart.report.terminal import headline
from crashcart.verbs.why import why

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    Start = Callable[..., subprocess.Popen[bytes]]

pytest.importorskip("torch")

pytestmark = pytest.mark.processes
PATIENCE = 100.0
SECONDS = 24.0  # --hang-seconds: announced early after 6 s, else not before 24 s
LOOP = """
import os, queue, socket, sys, threading, time
import torch
rank = int(os.environ.get("RANK", "0"))
model = torch.nn.Linear(8, 8)
def steps(count):
    for _ in range(count):
        optimizer.zero_grad()
        model(torch.randn(4, 8)).pow(2).mean().backward()
        optimizer.step()
        time.sleep(0.05)
"""
SINGLE = LOOP + "optimizer = torch.optim.SGD(model.parameters(), 0.01)\n"
RANKS = (
    LOOP
    + """
import datetime
import torch.distributed as dist
dist.init_process_group("gloo")
model = torch.nn.parallel.DistributedDataParallel(model)
optimizer = torch.optim.SGD(model.parameters(), 0.01)
"""
)


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts a program under `crashcart run`; what is left of it is ended afterwards."""
    started: list[subprocess.Popen[bytes]] = []

    def begin(code: str, *launcher: str, flags: tuple[str, ...] = (), **more: str) -> subprocess.Popen[bytes]:
        (tmp_path / "train.py").write_text(textwrap.dedent(code))
        plain = {name: value for name, value in os.environ.items() if not name.startswith("CRASHCART_") or name == DEBUG}
        command = [sys.executable, "-m", "crashcart", "run", "--grace", "2", *flags, "--", *(launcher or (sys.executable,))]
        job = subprocess.Popen(
            [*command, "train.py"],
            cwd=tmp_path,
            env={**plain, "OMP_NUM_THREADS": "1", "CRASHCART_RUNS": str(tmp_path / "runs"), **more},
            stdin=subprocess.PIPE,
            stdout=(tmp_path / "said").open("w"),
            stderr=subprocess.STDOUT,
        )
        started.append(job)
        return job

    yield begin
    for job in started:
        for event in events(tmp_path, "process"):
            with contextlib.suppress(OSError):
                os.kill(event["pid"], signal.SIGKILL)
        with contextlib.suppress(OSError):
            job.stdin.close()  # type: ignore[union-attr]
        job.wait(PATIENCE)


def the_run(folder: Path) -> Path:
    (found,) = [path for path in (folder / "runs").iterdir() if path.is_dir()]
    return found


def events(folder: Path, kind: str) -> list[dict[str, Any]]:
    found = []
    for path in (folder / "runs").glob("*/recording/events.jsonl"):
        for line in path.read_text().splitlines():
            with contextlib.suppress(ValueError):
                found.append(json.loads(line))
    return [event for event in found if event["kind"] == kind]


def until(condition: Callable[[], Any], seconds: float = PATIENCE) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.1)


DEAD_CONSUMER = """
work = queue.Queue()
def consume():
    work.get()
    raise ValueError("a bad sample")
threading.Thread(target=consume, daemon=True, name="consumer").start()
steps(20)
work.put(1); work.put(2)
work.join()
"""
FULL_PIPE = """
import subprocess
steps(20)
subprocess.Popen([sys.executable, "-c", "print('x' * 1000000)"], stdout=subprocess.PIPE).wait()
"""
HELD_FILE = """
import fcntl, multiprocessing
def hold(ready, done):
    mine = open("held", "w")
    fcntl.flock(mine, fcntl.LOCK_EX)
    ready.set()
    done.recv()
ours, theirs = multiprocessing.Pipe()
ready = multiprocessing.Event()
multiprocessing.get_context("fork").Process(target=hold, args=(ready, theirs), daemon=True).start()
ready.wait()
steps(20)
fcntl.flock(open("held", "w"), fcntl.LOCK_EX)
"""
SLEEPS_FOR_GOOD = "steps(20)\ntime.sleep(36000)\n"
LOCKED_RANK = """
steps(20)
lock = threading.Lock()
lock.acquire()
if rank == 1:
    lock.acquire()
dist.barrier()
"""


@pytest.mark.sample(4)
@pytest.mark.parametrize(
    ("code", "launcher", "rank", "said"),
    [
        pytest.param(SINGLE + DEAD_CONSUMER, (), 0, ("Queue.join()", "hang/dead-thread"), id="a queue whose thread died"),
        pytest.param(RANKS + LOCKED_RANK, TORCHRUN, 1, ("a lock", "hang/lock-or-io"), id="a rank in a lock"),
        pytest.param(SINGLE + FULL_PIPE, (), 0, ("Popen.wait()", "hang/lock-or-io"), id="a pipe that nobody empties"),
        pytest.param(SINGLE + HELD_FILE, (), 0, ("a lock", "hang/lock-or-io"), id="a file lock that its own child holds"),
        pytest.param(SINGLE + SLEEPS_FOR_GOOD, (), 0, ("the end of a sleep", "hang/lock-or-io"), id="a sleep of hours"),
    ],
)
def test_a_wait_that_nothing_can_end_is_announced_early(
    start: Start, tmp_path: Path, code: str, launcher: tuple[str, ...], rank: int, said: tuple[str, str]
) -> None:
    start(code, *launcher, flags=("--hang-seconds", str(SECONDS)))
    until(lambda: events(tmp_path, "hang"))
    (hang,) = events(tmp_path, "hang")
    assert (hang["tier"], hang["rank"]) == ("early", rank)
    words, cause = said
    assert words in hang["waits"]
    assert hang["seconds"] < SECONDS - 4
    diagnosis = why(str(the_run(tmp_path)))
    assert diagnosis.findings[0].cause == cause
    assert headline(diagnosis).startswith("The run is stuck right now.")


def test_a_proven_hang_is_left_alone_until_the_longer_limit(start: Start, tmp_path: Path) -> None:
    """`--on-hang stop` acts at once only where what the job waits for has died."""
    start(
        SINGLE + "steps(20)\nlock = threading.Lock()\nlock.acquire()\nlock.acquire()\n",
        flags=("--hang-seconds", "16", "--on-hang", "stop"),
    ).wait(PATIENCE)
    (hang,) = events(tmp_path, "hang")
    (sent,) = events(tmp_path, "end")[:1]
    assert hang["tier"] == "early"
    assert sent["t"] - hang["t"] > 5


SLEEPS = "steps(20); time.sleep(SILENCE); steps(5)\n"
TIMER = "steps(20); done = threading.Event(); threading.Timer(SILENCE, done.set).start(); done.wait(); steps(5)\n"
REMOTE = """
data = queue.Queue()
def receive():
    connection = socket.create_connection(("127.0.0.1", int(os.environ["PORT"])))
    while True:
        data.put(connection.recv(100))
threading.Thread(target=receive, daemon=True).start()
steps(20); data.get(); steps(5)
"""
ASKS = "steps(20); input(); steps(5)\n"
HANDLER = """
import signal
gate = threading.Event()
signal.signal(signal.SIGUSR1, lambda *_: gate.set())
def open_gate():
    os.execvp("sh", ["sh", "-c", f"sleep SILENCE; kill -USR1 {os.getppid()}"])
steps(20)
os.fork() or open_gate()
gate.wait(); steps(5)
"""
SILENCE = 15.0  # longer than the early limit, shorter than the late one
LONG_PAUSE = "steps(20); time.sleep(40); steps(5)\n"  # longer than the late limit too


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    "code",
    [SLEEPS, TIMER, REMOTE, ASKS, HANDLER, LONG_PAUSE],
    ids=["sleeps", "timer", "remote actor", "input by a pipe", "a signal's handler", "a long pause"],
)
def test_who_may_yet_go_on_is_not_announced(start: Start, tmp_path: Path, code: str) -> None:
    import socket

    with socket.create_server(("127.0.0.1", 0)) as server:
        port = str(server.getsockname()[1])
        job = start(SINGLE + code.replace("SILENCE", str(SILENCE)), flags=("--hang-seconds", str(SECONDS)), PORT=port)
        connection = server.accept()[0] if "PORT" in code else None
        until(lambda: events(tmp_path, "stacks"))
        time.sleep(SILENCE - 5)
        if connection is not None:
            connection.send(b"an episode")
        job.stdin.write(b"yes\n")  # type: ignore[union-attr]
        job.stdin.flush()  # type: ignore[union-attr]
        assert job.wait(PATIENCE) == 0
    assert events(tmp_path, "hang") == []


def test_a_stopped_rank_is_called_stopped(start: Start, tmp_path: Path) -> None:
    code = "steps(40)\nopen(f'trains-{rank}', 'w').close()\nsteps(100000)\n"
    start(RANKS + code, *TORCHRUN, flags=("--hang-seconds", str(SECONDS)))
    until(lambda: len(list(tmp_path.glob("trains-*"))) == 2)  # both ranks
    ranks = {event["rank"]: event["pid"] for event in events(tmp_path, "process") if event["role"] == "rank"}
    os.kill(ranks[1], signal.SIGSTOP)
    until(lambda: events(tmp_path, "hang"))
    (hang,) = events(tmp_path, "hang")
    assert (hang["tier"], hang["rank"]) == ("early", 1)
    first = why(str(the_run(tmp_path))).findings[0]
    assert (first.cause, first.strength) == ("outside/stopped", "decisive")
    os.kill(ranks[1], signal.SIGCONT)
    until(lambda: events(tmp_path, "goes-on"))


@pytest.mark.long
def test_a_run_that_stands_still_is_said_to_before_the_alarm(
    start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the stacks that were taken; and `why --pid` has the hooks write theirs, without py-spy."""
    start(SINGLE + "steps(20)\nthreading.Event().wait(3600)\n", flags=("--hang-seconds", "300"))
    until(lambda: events(tmp_path, "stacks"))
    time.sleep(3)
    said = headline(why(str(the_run(tmp_path))))
    assert said.startswith("The run is stuck right now.")
    assert "train.py" in said
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    pid = next(event["pid"] for event in events(tmp_path, "process") if event["role"] == "rank")
    looked: list[float] = []
    diagnosis = why(pid=pid, looking=looked.append)
    assert looked
    assert not any(gap.what == "stacks" for gap in diagnosis.not_looked)
    assert "train.py" in headline(diagnosis)


SKIPS = """
loader = torch.utils.data.DataLoader(torch.randn(80, 8), batch_size=4)
for number, batch in enumerate(loader):
    loss = model(batch).pow(2).mean()
    if rank == 1 and number == 12:
        loss = loss * float("nan")
    if not torch.isfinite(loss):
        continue
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


@pytest.mark.sample(1)
@pytest.mark.parametrize("end", ["", "dist.barrier()\n"], ids=["leaves", "barrier"])
def test_a_batch_that_one_rank_skips_is_a_desync_with_counters(start: Start, tmp_path: Path, end: str) -> None:
    """The rank that skipped ends with 0, or waits in a barrier until the time-out; the other only notices."""
    head = RANKS.replace('"gloo"', '"gloo", timeout=datetime.timedelta(seconds=5)')
    start(head + SKIPS + end, *TORCHRUN).wait(PATIENCE)
    diagnosis = why(str(the_run(tmp_path)))
    first = diagnosis.findings[0]
    assert (first.cause, first.role, first.strength) == ("distributed/desync", "cause", "decisive")
    assert "19 backward passes" in first.signs[0].says
    assert "20 backward passes at train.py:" in first.signs[0].says
    assert diagnosis.ending.first_rank == 1
