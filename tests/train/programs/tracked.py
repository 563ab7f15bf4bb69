"""Small programs that log to a tracker in trouble, each run as `python tracked.py NAME FOLDER`."""

# ruff: noqa: T201 - they print what is compared
from __future__ import annotations

import os
import resource
import signal
import sys
import time
from pathlib import Path
from typing import Any

from crashcart.train import nonblocking

FOLDER = sys.argv[2] if len(sys.argv) > 2 else ""


class Tracker:
    """Takes rows, or does what a tracker should not."""

    def __init__(self, trouble: str = "") -> None:
        self.trouble = trouble
        self.rows: list[Any] = []

    def log(self, row: dict[str, Any], step: int | None = None) -> None:
        if self.trouble == "hangs":
            time.sleep(3600)
        if self.trouble == "slow":
            time.sleep(2)
            print("slow one took it", flush=True)
        if self.trouble == "leaves":
            sys.exit(5)
        self.rows.append((row, step))

    def finish(self) -> None:
        if self.trouble == "never ends":
            time.sleep(3600)


def train(tracker: Any, steps: int = 50) -> None:
    for step in range(steps):
        tracker.log({"loss": 1 / (step + 1)}, step=step)
        time.sleep(0.005)


def usual_wandb() -> None:
    """As everybody writes it, with a server that takes connections and never answers."""
    import wandb

    run = wandb.init(project="mute", dir=FOLDER)
    for step in range(50):
        run.log({"loss": 1 / (step + 1)})
    print("trained", flush=True)
    run.finish()


def our_wandb() -> None:
    import wandb as theirs

    wandb = nonblocking(theirs, FOLDER, call_seconds=2, exit_seconds=3)
    run = wandb.init(project="mute", dir=FOLDER, config={"rate": 1e-4})
    print("run", run.id, run.config.rate, os.fspath(run.dir) != "", flush=True)
    for step in range(50):
        run.log({"loss": 1 / (step + 1)})
        wandb.log({"depth": step}, commit=False)
    print("trained", flush=True)
    run.finish()


def hangs() -> None:
    train(nonblocking(Tracker("hangs"), FOLDER, call_seconds=0.5, exit_seconds=1))
    print("trained", flush=True)


def leaves() -> None:
    tracker = nonblocking(Tracker("leaves"), FOLDER)
    train(tracker)
    tracker.close()
    print("trained", tracker.counts["failed"], flush=True)


def never_ends() -> None:
    tracker = nonblocking(Tracker("never ends"), FOLDER, exit_seconds=1)
    train(tracker)
    tracker.finish()
    print("trained", tracker.counts["delivered"], flush=True)


def killed() -> None:
    train(nonblocking(Tracker(), FOLDER), 100)
    time.sleep(0.5)
    os.kill(os.getpid(), signal.SIGKILL)


def raises() -> None:
    train(nonblocking(Tracker(), FOLDER), 20)
    raise ValueError("the program's own error")


def ends_once() -> None:
    """Ended by the program, in vain: the end of the program does not wait for the same call again."""
    tracker = nonblocking(Tracker("hangs"), FOLDER, exit_seconds=4)
    train(tracker, 1)
    tracker.finish()
    print(time.monotonic(), flush=True)


def several_hang() -> None:
    """One limit for all of them, and one that answers slowly gets its time meanwhile."""
    trackers = [nonblocking(Tracker("hangs"), FOLDER, exit_seconds=4) for _ in range(3)]
    for tracker in trackers:
        train(tracker, 1)
    train(nonblocking(Tracker("slow"), FOLDER, exit_seconds=4), 1)
    print(time.monotonic(), flush=True)


def forked() -> None:
    """A worker of a data loader that logs."""
    tracker = nonblocking(Tracker(), FOLDER)
    train(tracker, 10)
    child = os.fork()
    train(tracker, 5)
    if child == 0:
        time.sleep(0.5)
        os._exit(0)
    os.waitpid(child, 0)
    tracker.close()
    print("parent delivered", tracker.counts["delivered"], flush=True)


def full() -> None:
    """The disk takes four kilobytes and no more."""
    inner = Tracker()
    tracker = nonblocking(inner, FOLDER)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
    train(tracker, 200)
    tracker.close()
    print("tracker has", len(inner.rows), flush=True)


def full_tensorboard(*, usual: bool = False) -> None:
    from torch.utils.tensorboard import SummaryWriter

    writer: Any = SummaryWriter(str(Path(FOLDER) / "board"), flush_secs=1)
    writer = writer if usual else nonblocking(writer, FOLDER, exit_seconds=3)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
    for step in range(400):
        writer.add_scalar("loss", 1 / (step + 1), step)
        time.sleep(0.005)
    writer.close()
    print("trained", flush=True)


def usual_tensorboard() -> None:
    full_tensorboard(usual=True)


if __name__ == "__main__":
    globals()[sys.argv[1]]()
