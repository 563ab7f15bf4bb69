"""Hangs under `crashcart run`: noticed while they last, and explained from the recording."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
import textwrap
import time
from typing import TYPE_CHECKING

import pytest
from stopped import CRASHCART, FLOOR, LOOP, OPTIMIZER, RANKS, TORCHRUN, events, prepared, run, the_run

from crashcart.readers.flight import read_flight
from crashcart.verbs.why import why

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.processes


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return prepared(tmp_path, monkeypatch)


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


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    ("code", "cause", "rank", "words"),
    [
        (SLEEPS.replace("ODD", "0"), "distributed/slow-rank", 0, ("wait_for_something", "time.sleep", "rank 1 waits")),
        (SLEEPS.replace("ODD", "1"), "distributed/slow-rank", 1, ("wait_for_something", "time.sleep", "rank 0 waits")),
        (LOCKED, "hang/lock-or-io", 1, ("flock", "cache.lock")),
        (APART, "distributed/desync", None, ("rank 0 in all_reduce at train.py", "rank 1 in barrier at train.py")),
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


@pytest.mark.long
def test_stacks_of_all_ranks_are_on_disk_soon_after_the_stop(folder: Path) -> None:
    run(folder, RANKS, SLEEPS.replace("ODD", "1"), *TORCHRUN)
    flight = read_flight(the_run(folder))
    stopped = next(event for event in flight.of_kind("hang")).details["since"]
    dump = next(dump for dump in flight.stacks if dump.time >= stopped)  # a slow start may have had stacks of its own
    assert dump.time - stopped < 30
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


@pytest.mark.sample(2)
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


@pytest.mark.long
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
    assert "restarting it (attempt 2)" in done.stderr
    assert len(list(folder.glob("crashcart_runs/*/run.json"))) == 2
    newest = max(folder.glob("crashcart_runs/*/run.json"))
    assert json.loads(newest.read_text())["attempt"] == 2
    assert any("an earlier attempt ended with" in note.quote for note in why([str(newest.parent)]).notes)
