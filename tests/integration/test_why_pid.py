"""`crashcart why --pid`: jobs that were started without us and stand still, or do not, seen with and without py-spy."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

import pytest

from crashcart.readers.standing import spy
from crashcart.report.terminal import headline
from crashcart.verbs.why import why

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from crashcart.model import Diagnosis

    Start = Callable[..., subprocess.Popen[str]]

pytestmark = pytest.mark.processes

TORCHRUN = (sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--standalone")
PLAIN = (sys.executable,)
FLOOR = 5.0
LOOP = """
import os, sys, threading, time, torch
torch.manual_seed(0)
model = torch.nn.Linear(8, 8)
def ready():
    os.write(1, b"ready\\n")  # at once: what two ranks print unbuffered gets mixed
def step(x, seconds=0.02):
    optimizer.zero_grad()
    loss = model(x).pow(2).mean()
    loss.backward()
    optimizer.step()
    time.sleep(seconds)
    return loss.item()
"""
RANKS = (
    LOOP
    + """
import torch.distributed as dist
dist.init_process_group("gloo")
rank = dist.get_rank()
model = torch.nn.parallel.DistributedDataParallel(model)
"""
)
OPTIMIZER = "optimizer = torch.optim.SGD(model.parameters(), 0.01)\n"


def descendants(pid: int) -> list[int]:
    parents = {}
    for name in os.listdir("/proc"):
        with contextlib.suppress(OSError, ValueError), open(f"/proc/{int(name)}/stat") as file:
            parents[int(name)] = int(file.read().rpartition(")")[2].split()[1])
    found, todo = [], [pid]
    while todo:
        todo = [child for child, parent in parents.items() if parent in todo]
        found += todo
    return found


@pytest.fixture
def start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Start]:
    """Starts a program and waits until it has said that it is ready."""
    monkeypatch.setenv("CRASHCART_HANG_SECONDS", str(FLOOR))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    jobs: list[subprocess.Popen[str]] = []

    def begin(code: str, *launcher: str, times: int = 1) -> subprocess.Popen[str]:
        (tmp_path / "train.py").write_text(code)
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
        job = subprocess.Popen([*(launcher or PLAIN), "train.py"], cwd=tmp_path, text=True, **pipes)  # type: ignore[call-overload]
        jobs.append(job)
        for _ in range(times):
            assert any("ready" in line for line in job.stdout)
        time.sleep(1)
        return job  # type: ignore[no-any-return]

    yield begin
    for job in jobs:
        for pid in [*descendants(job.pid), job.pid]:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        # Not communicate(): a process that was not found above would hold the pipe, and the test, for good.
        for pipe in (job.stdin, job.stdout):
            with contextlib.suppress(OSError):
                pipe.close()  # type: ignore[union-attr]
        job.wait(150)


@pytest.fixture(params=["py-spy", "no py-spy"])
def spies(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    if request.param == "py-spy":
        if spy() is None:
            pytest.skip("py-spy is not installed")
        return True
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    assert spy() is None
    return False


SLEEPS = """
def wait_for_something():
    ready()
    time.sleep(3600)
for number in range(10000):
    step(torch.randn(4, 8))
    if number == 10 and rank == 1:
        wait_for_something()
"""
ASKS = SLEEPS.replace("time.sleep(3600)", "input('go on? ')")
LOADER = """
from torch.utils.data import DataLoader, Dataset
lock = threading.Lock()
class Images(Dataset):
    def __len__(self):
        return 400
    def __getitem__(self, index):
        if index == 60:
            decode_with_a_lock()
        return torch.randn(8)
def decode_with_a_lock():
    lock.acquire()
    ready()
    lock.acquire()
for batch in DataLoader(Images(), batch_size=4, num_workers=2):
    step(batch)
"""
TRACKER = """
import socket
server = socket.create_server(("127.0.0.1", 0))
held = []
def accept():
    while True:
        held.append(server.accept())
        ready()
threading.Thread(target=accept, daemon=True).start()
step(torch.randn(4, 8))
os.environ.update(WANDB_BASE_URL=f"http://127.0.0.1:{server.getsockname()[1]}", WANDB_API_KEY="0" * 40, WANDB_SILENT="true")
import wandb
wandb.init(project="robot")
"""
LOCKED = """
import fcntl
mine = open("cache.lock", "w")
if rank == 0:
    fcntl.flock(mine, fcntl.LOCK_EX)
for number in range(10000):
    step(torch.randn(4, 8))
    if number == 10 and rank == 1:
        ready()
        fcntl.flock(mine, fcntl.LOCK_EX)
"""


def told(diagnosis: Diagnosis) -> str:
    first = diagnosis.findings[0]
    return first.signs[0].says + " ".join(item.quote for item in first.signs[0].evidence)


@pytest.mark.sample(3)
@pytest.mark.parametrize(
    ("code", "answer", "words", "more"),
    [
        pytest.param(RANKS + OPTIMIZER + SLEEPS, ("distributed/slow-rank", 1), ("rank 1 sleeps", "rank 0 waits"),
                     ("wait_for_something", "_engine_run_backward"), id="sleeps"),
        pytest.param(RANKS + OPTIMIZER + ASKS, ("hang/lock-or-io", 1), ("rank 1 has waited", "keyboard input", "rank 0 waits"),
                     ("input('go on? ')",), id="asks"),
        pytest.param(RANKS + OPTIMIZER + LOCKED, ("hang/lock-or-io", 1), ("rank 1 has waited", "cache.lock"), ("train.py",), id="locked"),
        pytest.param(LOOP + OPTIMIZER + LOADER, ("hang/dataloader", 0), ("for its loader", "worker"), ("decode_with_a_lock",), id="loader"),
    ],
)  # fmt: skip
def test_who_keeps_a_job_and_by_what_is_told(
    start: Start, code: str, answer: tuple[str, int], words: tuple[str, ...], more: tuple[str, ...], *, spies: bool
) -> None:
    job = start(code, *(TORCHRUN if "dist." in code else PLAIN))
    diagnosis = why(pid=job.pid)
    first = diagnosis.findings[0]
    assert (first.cause, diagnosis.ending.first_rank) == answer
    assert (first.role, diagnosis.ending.state, diagnosis.run) == ("cause", "hung", None)
    assert all(word in told(diagnosis) for word in (*words, *(more if spies else ())))
    assert job.poll() is None


@pytest.mark.long
def test_the_same_is_told_from_a_rank_and_from_the_launcher(start: Start) -> None:
    job = start(RANKS + OPTIMIZER + SLEEPS, *TORCHRUN)
    ranks = [pid for pid in descendants(job.pid) if b"train.py" in open(f"/proc/{pid}/cmdline", "rb").read()]  # noqa: SIM115
    answers = {(one.findings[0].cause, one.ending.first_rank) for one in (why(pid=pid) for pid in (job.pid, *ranks))}
    assert answers == {("distributed/slow-rank", 1)}


def test_ranks_in_different_collectives(start: Start) -> None:
    if spy() is None:
        pytest.skip("py-spy is not installed")
    apart = """
step(torch.randn(4, 8))
ready()
if rank == 1:
    dist.barrier()
else:
    dist.all_reduce(torch.zeros(3, 3))
    dist.broadcast(torch.zeros(7), 1)
"""
    diagnosis = why(pid=start(RANKS + OPTIMIZER + apart, *TORCHRUN, times=2).pid)
    assert diagnosis.findings[0].cause == "distributed/desync"
    assert (diagnosis.ending.state, diagnosis.ending.first_rank) == ("hung", None)


@pytest.mark.sample(1)
def test_a_rank_that_was_stopped_is_named_and_goes_on_afterwards(start: Start, *, spies: bool) -> None:
    del spies
    code = RANKS + OPTIMIZER + "for number in range(10000):\n    step(torch.randn(4, 8))\n    number == 10 and ready()\n"
    job = start(code, *TORCHRUN, times=2)
    stopped = max(pid for pid in descendants(job.pid) if b"train.py" in open(f"/proc/{pid}/cmdline", "rb").read())  # noqa: SIM115
    os.kill(stopped, signal.SIGSTOP)
    try:
        diagnosis = why(pid=job.pid)
    finally:
        os.kill(stopped, signal.SIGCONT)
    first = diagnosis.findings[0]
    assert (first.cause, first.role, first.strength) == ("outside/stopped", "cause", "decisive")
    assert f"(pid {stopped}) has been stopped" in first.signs[0].says
    assert "kill -CONT" in first.fixes[0].why
    assert why(pid=job.pid).ending.state == "running"


def test_a_tracker_that_does_not_answer(start: Start) -> None:
    pytest.importorskip("wandb")
    if spy() is None:
        pytest.skip("py-spy is not installed")
    diagnosis = why(pid=start(LOOP + OPTIMIZER + TRACKER).pid)
    assert diagnosis.findings[0].cause == "tracker/blocked"
    assert "wandb.init" in told(diagnosis)


SPAWNED = """
import os, time, torch.distributed as dist, torch.multiprocessing as mp
def work(rank):
    dist.init_process_group("gloo", init_method="file://" + os.path.abspath("meeting"), rank=rank, world_size=2)
    dist.barrier()
    if rank == 0:
        print("ready", flush=True)
        time.sleep(3600)
    dist.barrier()
if __name__ == "__main__":
    mp.spawn(work, nprocs=2)
"""


@pytest.mark.sample(1)
def test_ranks_that_were_spawned_are_told_apart(start: Start, *, spies: bool) -> None:
    del spies
    diagnosis = why(pid=start(SPAWNED).pid)
    assert diagnosis.findings[0].cause == "distributed/slow-rank"
    assert (diagnosis.ending.state, diagnosis.ending.first_rank) == ("hung", 0)


@pytest.mark.long
def test_a_rank_that_waits_for_one_that_never_came(start: Start) -> None:
    if spy() is None:
        pytest.skip("py-spy is not installed")
    code = """
import os, torch.distributed as dist
print("ready", flush=True)
dist.init_process_group("gloo", init_method="file://" + os.path.abspath("meeting"), rank=0, world_size=2)
"""
    job = start(code, "env", "RANK=0", "WORLD_SIZE=2", sys.executable)
    diagnosis = why(pid=job.pid)
    assert diagnosis.findings[0].cause == "distributed/rendezvous"
    assert "for rank 1, not among these processes" in told(diagnosis)


@pytest.mark.long
def test_a_lock_without_a_stack_is_not_explained_but_told(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    job = start("import threading\nprint('ready', flush=True)\nthreading.Event().wait()\n")
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    diagnosis = why(pid=job.pid)
    assert (diagnosis.ending.state, diagnosis.findings[0].cause) == ("hung", "unknown/not-enough-evidence")
    assert "the process waits for a lock or another thread (futex)" in headline(diagnosis)
    assert any("py-spy is not installed" in gap.why for gap in diagnosis.not_looked)


SLOW = """
for number in range(10000):
    number == 1 and ready()
    step(torch.randn(4, 8), 2.5 if rank == 1 else 0.0)
"""
SLOW_DATA = """
from torch.utils.data import DataLoader, Dataset
class Images(Dataset):
    def __len__(self):
        return 400
    def __getitem__(self, index):
        time.sleep(2)
        return torch.randn(8)
for number, batch in enumerate(DataLoader(Images(), batch_size=1, num_workers=1)):
    step(batch)
    number == 1 and ready()
"""
ALONE = """
step(torch.randn(4, 8))
ready()
if rank == 0:
    while True:
        torch.randn(300, 300) @ torch.randn(300, 300)
dist.barrier()
"""
SPINS = "print('ready', flush=True)\nwhile True:\n    pass\n"
CHILD = "import subprocess, sys\nprint('ready', flush=True)\nsubprocess.run([sys.executable, '-c', 'while True: pass'])\n"


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    ("code", "launcher"),
    [
        pytest.param(RANKS + OPTIMIZER + SLOW, TORCHRUN, id="slow rank"),
        pytest.param(RANKS + OPTIMIZER + ALONE, TORCHRUN, id="one rank works, the other waits"),
        pytest.param(LOOP + OPTIMIZER + SLOW_DATA, PLAIN, id="slow loader"),
        pytest.param(SPINS, PLAIN, id="busy"),
        pytest.param(CHILD, PLAIN, id="waits for a program that works"),
    ],
)
def test_a_job_that_moves_is_told_as_moving(start: Start, code: str, launcher: tuple[str, ...], *, spies: bool) -> None:
    del spies
    diagnosis = why(pid=start(code, *launcher).pid)
    assert diagnosis.ending.state == "running"
    assert diagnosis.findings == ()
    assert headline(diagnosis).startswith("The job is making progress: ")


@pytest.mark.sample(1)
def test_a_program_that_asks_its_user_hangs_no_more_than_it_did(start: Start, *, spies: bool) -> None:
    del spies
    job = start("print('ready', flush=True)\nprint(input())\n")
    diagnosis = why(pid=job.pid)
    assert (diagnosis.ending.state, diagnosis.findings) == ("running", ())
    assert headline(diagnosis).startswith("The program waits for keyboard input")
    assert job.communicate("yes\n")[0] == "yes\n"


LOSSES = """
for number in range(200):
    loss = step(torch.randn(4, 8), 0.04)
    if rank == 0:
        print(f"{number} {loss!r}", flush=True)
    number == 5 and ready()
dist.destroy_process_group()
"""


def test_looking_changes_nothing(start: Start) -> None:
    """The same losses to the bit, and the same end, with somebody looking all the time."""
    endings = []
    for looks in (0, 2):
        job = start(RANKS + OPTIMIZER + LOSSES, *TORCHRUN, times=2)
        for _ in range(looks):
            assert why(pid=job.pid).ending.state == "running"
        out, _ = job.communicate(timeout=120)
        endings.append((job.returncode, [line for line in out.splitlines() if "ready" not in line][-150:]))
    assert endings[0] == endings[1]
    assert endings[0][0] == 0


def test_a_job_under_crashcart_run_is_told_with_its_recording(start: Start, tmp_path: Path) -> None:
    launcher = (sys.executable, "-m", "crashcart", "run", "--quiet", "--", sys.executable)
    code = LOOP + OPTIMIZER + "for number in range(50):\n    step(torch.randn(4, 8))\nready()\ntime.sleep(3600)\n"
    job = start(code, *launcher)
    (folder,) = (tmp_path / "crashcart_runs").glob("2*")
    trainer = json.loads((folder / "run.json").read_text())["job"]
    for pid in (job.pid, trainer):
        diagnosis = why(pid=pid)
        assert (diagnosis.run, diagnosis.ending.state) == (folder.name, "hung")
        assert diagnosis.ending.optimizer_steps == 50
        assert "time.sleep(3600)" in told(diagnosis)
    assert not (folder / "findings.json").exists()


@pytest.mark.long
def test_the_json_has_the_state_and_the_rank(start: Start) -> None:
    job = start(RANKS + OPTIMIZER + SLEEPS, *TORCHRUN)
    command = [sys.executable, "-m", "crashcart", "why", "--json", "--pid", str(job.pid)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    answer: dict[str, Any] = json.loads(done.stdout)
    assert (answer["subject"], answer["run"]) == (f"process {job.pid}", None)
    assert (answer["ending"]["state"], answer["ending"]["first_rank"]) == ("hung", 1)
    assert answer["findings"][0]["evidence"][0]["source"] == "live"
