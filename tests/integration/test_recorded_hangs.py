"""Hangs, useless and slow runs under `crashcart run`: noticed while they last, and explained from the recording."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from typing import Any

import pytest

from crashcart.readers.flight import read_flight
from crashcart.verbs.why import why

CRASHCART = [sys.executable, "-m", "crashcart.cli", "run", "--quiet", "--on-hang", "stop", "--grace", "2", "--"]
FLOOR = 6.0
TORCHRUN = (sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--standalone")
LOOP = """
import os, sys, threading, time, torch
def step(model, optimizer, x, seconds=0.05):
    optimizer.zero_grad()
    loss = model(x).pow(2).mean()
    loss.backward()
    optimizer.step()
    time.sleep(seconds)
    return loss.detach()
model = torch.nn.Linear(8, 8)
"""
RANKS = (
    LOOP
    + """
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
dist.init_process_group("gloo")
rank = dist.get_rank()
model = DistributedDataParallel(model)
"""
)
OPTIMIZER = "\noptimizer = torch.optim.SGD(model.parameters(), 0.01)\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("CRASHCART_RUNS", raising=False)
    monkeypatch.setenv("CRASHCART_HANG_SECONDS", str(FLOOR))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    return tmp_path


def run(folder: Path, head: str, code: str, *launcher: str, **more: Any) -> subprocess.CompletedProcess[bytes]:
    (folder / "train.py").write_text(head + OPTIMIZER + textwrap.dedent(code))
    command = [*CRASHCART, *(launcher or (sys.executable,)), "train.py"]
    # A worker that is locked up outlives its job, and would keep a pipe open.
    done = subprocess.run(command, timeout=100, check=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **more)
    for one in events(folder, "end")[0]["left"] if len(list((folder / "crashcart_runs").glob("2*"))) == 1 else ():
        with contextlib.suppress(ProcessLookupError):
            os.kill(one["pid"], signal.SIGKILL)
    return done


def the_run(folder: Path) -> str:
    (found,) = [path for path in (folder / "crashcart_runs").iterdir() if path.is_dir()]
    return str(found)


def events(folder: Path, kind: str) -> list[dict[str, Any]]:
    lines = (Path(the_run(folder)) / "recording" / "events.jsonl").read_text().splitlines()
    return [event for line in lines if (event := json.loads(line))["kind"] == kind]


SLEEPS = """
def wait_for_something():
    time.sleep(3600)
for number in range(10000):
    step(model, optimizer, torch.randn(4, 8))
    if number == 40 and rank == ODD:
        wait_for_something()
"""
LOCKED = """
import fcntl
mine = open("cache.lock", "w")
if rank == 0:
    fcntl.flock(mine, fcntl.LOCK_EX)
for number in range(10000):
    step(model, optimizer, torch.randn(4, 8))
    if number == 40 and rank == 1:
        fcntl.flock(mine, fcntl.LOCK_EX)
"""
APART = """
for number in range(10000):
    step(model, optimizer, torch.randn(4, 8))
    if number == 40 and rank == 1:
        dist.barrier()
    elif number == 40:
        dist.all_reduce(torch.zeros(3, 3))
        dist.broadcast(torch.zeros(7), 1)
"""


@pytest.mark.parametrize(
    ("code", "cause", "rank", "words"),
    [
        (SLEEPS.replace("ODD", "0"), "distributed/slow-rank", 0, ("wait_for_something", "time.sleep", "rank 1 waits")),
        (SLEEPS.replace("ODD", "1"), "distributed/slow-rank", 1, ("wait_for_something", "time.sleep", "rank 0 waits")),
        (LOCKED, "hang/lock-or-io", 1, ("flock", "cache.lock")),
        (APART, "distributed/desync", None, ("rank 0 at train.py", "rank 1 at train.py", "all_reduce", "barrier")),
    ],
)
def test_the_rank_that_the_others_wait_for_is_named(
    folder: Path, code: str, cause: str, rank: int | None, words: tuple[str, ...]
) -> None:
    run(folder, RANKS, code, *TORCHRUN)
    (hang,) = events(folder, "hang")
    assert hang.get("rank") == rank
    diagnosis = why([the_run(folder)])
    first = diagnosis.findings[0]
    assert (first.cause, first.role, first.strength) == (cause, "cause", "decisive")
    assert (diagnosis.ending.state, diagnosis.ending.first_rank) == ("hung", rank)
    told = first.signs[0].says + " ".join(item.quote for item in first.signs[0].evidence)
    assert all(word in told for word in words)


def test_stacks_of_all_ranks_are_on_disk_soon_after_the_stop(folder: Path) -> None:
    run(folder, RANKS, SLEEPS.replace("ODD", "1"), *TORCHRUN)
    flight = read_flight(the_run(folder))
    stopped = next(event for event in flight.of_kind("hang")).details["since"]
    dump = flight.stacks[0]
    assert dump.time - stopped < 10
    assert {stood.rank for stood in dump.stood if stood.role == "rank"} == {0, 1}
    inner = {stood.rank: [frame.function for frame in stood.frames] for stood in dump.stood if stood.role == "rank"}
    assert inner[1][0] == "wait_for_something"
    assert "_engine_run_backward" in inner[0]


LOADER = """
from torch.utils.data import DataLoader, Dataset
lock = threading.Lock()
class Images(Dataset):
    def __len__(self):
        return 400
    def __getitem__(self, index):
        if index == 120:
            decode_with_a_lock()
        return torch.randn(8)
def decode_with_a_lock():
    lock.acquire()
    lock.acquire()
for batch in DataLoader(Images(), batch_size=4, num_workers=2):
    step(model, optimizer, batch)
"""
EXIT = """
threading.Thread(target=threading.Event().wait, name="writer").start()
for number in range(40):
    step(model, optimizer, torch.randn(4, 8))
print("training done")
"""
TRACKER = """
import socket
server = socket.create_server(("127.0.0.1", 0))
held = []
def accept():
    while True:
        held.append(server.accept())
threading.Thread(target=accept, daemon=True).start()
for number in range(40):
    step(model, optimizer, torch.randn(4, 8))
os.environ.update(WANDB_BASE_URL=f"http://127.0.0.1:{server.getsockname()[1]}", WANDB_API_KEY="0" * 40, WANDB_SILENT="true")
import wandb
wandb.init(project="robot")
"""


@pytest.mark.parametrize(
    ("code", "cause", "words"),
    [
        pytest.param(LOADER, "hang/dataloader", ("loader worker", "decode_with_a_lock", "train.py:"), id="loader"),
        pytest.param(EXIT, "hang/exit", ("_shutdown", "phase exit"), id="exit"),
        pytest.param(TRACKER, "tracker/blocked", ("of the tracker", "wandb.init"), id="tracker"),
    ],
)
def test_a_single_process_that_stands_still_is_explained(
    folder: Path, code: str, cause: str, words: tuple[str, ...]
) -> None:
    if "wandb" in code:
        pytest.importorskip("wandb")
    run(folder, LOOP, code)
    assert len(events(folder, "hang")) == 1
    first = why([the_run(folder)]).findings[0]
    assert (first.cause, first.role, first.strength) == (cause, "cause", "decisive")
    told = first.signs[0].says + " ".join(item.quote for item in first.signs[0].evidence)
    assert all(word in told for word in words)


SLOW = """
class Slow:
    def __reduce__(self):
        time.sleep(20 * 0.2)
        return (int, ())
for number in range(25):
    step(model, optimizer, torch.randn(4, 8), 0.2)
    if number == 12:
        torch.save({"model": model.state_dict(), "slow": Slow()}, "last.pt")
    if number == 18:
        model.eval()
        with torch.no_grad():
            time.sleep(50 * 0.2)
        model.train()
"""


def test_a_slow_checkpoint_and_a_slow_evaluation_are_no_hangs(folder: Path) -> None:
    """20 and 50 times as long as a step, asleep, and longer than the shortest time after which anything is called a hang."""
    assert run(folder, LOOP, SLOW).returncode == 0
    assert events(folder, "hang") == []
    assert [one.cause for one in why([the_run(folder)]).findings] == []


def test_waiting_at_a_prompt_is_no_hang(folder: Path) -> None:
    (folder / "train.py").write_text(LOOP + OPTIMIZER + "step(model, optimizer, torch.randn(4, 8))\ninput('go on? ')\n")
    pid, terminal = pty.fork()
    if pid == 0:
        os.execv(sys.executable, [*CRASHCART, sys.executable, "train.py"])  # noqa: S606 - no shell on purpose
    seen, end = b"", time.monotonic() + 60
    while b"go on?" not in seen:
        assert time.monotonic() < end
        seen += os.read(terminal, 4096)
    time.sleep(3 * FLOOR)
    os.write(terminal, b"yes\n")
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert events(folder, "hang") == []


def test_a_job_that_was_not_reached_is_judged_from_outside(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CRASHCART_HANG_SECONDS", "1")
    (folder / "train.py").write_text("import time\nprint('step 1', flush=True)\ntime.sleep(3600)\n")
    flags = [*CRASHCART[:-1], "--no-inject", "--"]
    subprocess.run([*flags, sys.executable, "train.py"], timeout=60, check=False, capture_output=True)
    (hang,) = events(folder, "hang")
    assert "nothing was written" in hang["why"]
    assert hang["call"] == "nanosleep"


NAN = """
for number in range(60):
    loss = step(model, optimizer, torch.randn(4, 8) * (float("nan") if number == 30 else 1.0))
    if number % 5 == 0:
        print(f"step {number} loss {SHOWN:.4f}", flush=True)
"""
EMPTY = """
from torch.utils.data import DataLoader
data = DataLoader(torch.randn(64, 8), batch_size=4)
validation = DataLoader(torch.randn(3, 8), batch_size=4, drop_last=True)
for epoch in range(3):
    model.train()
    for batch in data:
        step(model, optimizer, batch, 0.01)
    model.eval()
    with torch.no_grad():
        errors = [model(batch).pow(2).mean() for batch in validation]
    print(f"epoch {epoch} val_loss {sum(errors)}", flush=True)
"""
RESUME = """
def warm_up(number):
    return min(1.0, (number + 1) / 50)
schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, warm_up)
if os.path.exists("last.pt"):
    state = torch.load("last.pt")
    model.load_state_dict(state["model"])
    if RESTORES:
        optimizer.load_state_dict(state["optimizer"])
        schedule.load_state_dict(state["schedule"])
for number in range(60):
    step(model, optimizer, torch.randn(4, 8), 0.02)
    schedule.step()
torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "schedule": schedule.state_dict()}, "last.pt")
"""


@pytest.mark.parametrize("shown", ["float(loss)", "0.0 if loss != loss else float(loss)"])
def test_a_loss_that_is_no_number_is_told_with_its_step(folder: Path, shown: str) -> None:
    """Also where the log shows 0 instead."""
    assert run(folder, LOOP, NAN.replace("SHOWN", shown)).returncode == 0
    findings = why([the_run(folder)]).findings
    assert (findings[0].cause, findings[0].role) == ("numerics/diverged", "cause")
    assert any("from step 30 on" in sign.says for sign in findings[0].signs)
    masked = [one for one in findings if one.cause == "silent/masked-nan" and one.strength == "decisive"]
    assert bool(masked) == shown.startswith("0.0")


def test_a_sample_that_brings_nan_in_is_told_by_its_rank(folder: Path) -> None:
    code = """
    for number in range(120):
        bad = number == 80 and rank == 1
        step(model, optimizer, torch.randn(4, 8) * (float("nan") if bad else 1.0))
    dist.destroy_process_group()
    """
    run(folder, RANKS, code, *TORCHRUN)
    first = why([the_run(folder)]).findings[0]
    assert (first.cause, first.strength, first.signs[0].evidence[0].rank) == ("numerics/bad-data", "decisive", 1)


def test_an_evaluation_of_no_batch_is_told(folder: Path) -> None:
    assert run(folder, LOOP, EMPTY).returncode == 0
    first = why([the_run(folder)]).findings[0]
    assert (first.cause, first.role, first.strength) == ("silent/eval-empty", "cause", "decisive")
    assert "no batch in 3 evaluation(s)" in first.signs[0].says


@pytest.mark.parametrize("restores", [False, True])
def test_a_learning_rate_that_starts_anew_after_a_resume_is_told(folder: Path, *, restores: bool) -> None:
    for _ in range(2):
        assert run(folder, LOOP, RESUME.replace("RESTORES", str(restores))).returncode == 0
    last = max(path for path in (folder / "crashcart_runs").iterdir() if path.is_dir())
    findings = why([str(last)]).findings
    if restores:
        assert findings == ()
        return
    assert (findings[0].cause, findings[0].role, findings[0].strength) == ("silent/resume-state-lost", "cause", "decisive")
    assert "holds a learning rate of 0.01" in findings[0].signs[0].says
    assert "step 1 after it ran with 0.0002" in findings[0].signs[0].says


STARVED = """
from torch.utils.data import DataLoader, Dataset
class Slow(Dataset):
    def __len__(self):
        return 70
    def __getitem__(self, index):
        time.sleep(0.2)
        return torch.randn(8)
for batch in DataLoader(Slow(), batch_size=1):
    step(model, optimizer, batch, 0.02)
"""


def test_a_step_that_waits_for_its_data_is_told_without_blame(folder: Path) -> None:
    assert run(folder, LOOP, STARVED).returncode == 0
    first = why([the_run(folder)]).findings[0]
    assert (first.cause, first.role, first.strength) == ("slow/data", "contributing", "strong")
    assert "s for each batch" in first.signs[0].says


HEALTHY = """
from torch.utils.data import DataLoader
data = DataLoader(torch.randn(64, 8), batch_size=4, num_workers=2)
validation = DataLoader(torch.randn(8, 8), batch_size=4)
for epoch in range(3):
    model.train()
    for batch in data:
        loss = step(model, optimizer, batch)
    model.eval()
    with torch.no_grad():
        errors = [float(model(batch).pow(2).mean()) for batch in validation]
    print(f"epoch {epoch} loss {float(loss):.4f} val_loss {sum(errors) / len(errors):.4f}", flush=True)
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, f"{epoch}.pt")
"""


@pytest.mark.parametrize("ranks", [1, 2])
def test_in_a_healthy_run_nothing_is_found(folder: Path, ranks: int) -> None:
    more = "if True:\n    dist.barrier()\n    dist.destroy_process_group()\n" if ranks > 1 else ""
    done = run(folder, RANKS if ranks > 1 else LOOP, HEALTHY + more, *(TORCHRUN if ranks > 1 else ()))
    assert done.returncode == 0
    assert [one.cause for one in why([the_run(folder)]).findings] == []
    assert events(folder, "hang") == []


def test_a_job_that_hangs_is_started_again_where_that_was_asked_for(folder: Path) -> None:
    program = """
        import os, time, torch
        model = torch.nn.Linear(2, 2)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        first = not os.path.exists("seen")
        open("seen", "w").close()
        for step in range(60):
            model(torch.ones(1, 2)).sum().backward()
            optimizer.step()
            time.sleep(0.02)
            if first and step == 40:
                time.sleep(1000)
        print("finished")
    """
    (folder / "train.py").write_text(textwrap.dedent(program))
    command = [
        sys.executable,
        "-m",
        "crashcart",
        "run",
        "--on-hang",
        "restart",
        "--grace",
        "2",
        "--",
        sys.executable,
        "train.py",
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=90, check=False)
    assert (done.returncode, done.stdout) == (0, "finished\n")
    assert "started again (attempt 2)" in done.stderr
    assert len(list(folder.glob("crashcart_runs/*/run.json"))) == 2
    newest = max(folder.glob("crashcart_runs/*/run.json"))
    assert json.loads(newest.read_text())["attempt"] == 2
    assert any("an earlier attempt ended with" in note.quote for note in why([str(newest.parent)]).notes)
