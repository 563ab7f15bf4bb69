"""Recordings written by hand: processes, and what happened to them."""

from __future__ import annotations

from typing import Any

from crashcart.case import Case
from crashcart.flight import Event, Flight, Process
from crashcart.stages import set_stages

START = 1_790_000_000.0
BASH = (1, 0, "shell", "bash run.sh")


class History:
    """A recording written by hand: processes, and what happened to them so many seconds after the start."""

    def __init__(self, code: int | None = 0, *, alive: bool = False) -> None:
        ending = {} if alive else {"code": code, "time": START + 100}
        self.flight = Flight(name="r", facts={"job": 1, "started": START}, ending=ending, alive=alive)
        self.process(*BASH, born=0)

    def process(  # noqa: PLR0913 - all that can be known of one
        self,
        pid: int,
        parent: int,
        role: str,
        command: str,
        *,
        born: float,
        rank: int | None = None,
        steps: int = 0,
        copy: bool = False,
    ) -> None:
        page = {"steps": float(steps)} if steps else {}
        known = Process(pid, role, rank, parent, command, START + born, page=page, copy=copy)
        known.reached = command.startswith("python")
        self.flight.processes[pid] = known

    def gone(self, pid: int, seconds: float, code: int | None = None, signal: str | None = None) -> None:
        self.flight.processes[pid].ended = START + seconds
        how: dict[str, Any] = {"code": code} if signal is None else {"signal": signal}
        self.flight.events.append(Event(START + seconds, "gone", {"pid": pid, **how}))

    def raised(self, pid: int, seconds: float, kind: str, message: str = "") -> None:
        details = {"type": kind, "message": message, "thread": "MainThread", "phase": "train"}
        self.flight.events.append(Event(START + seconds, "exception", details, pid, self.flight.processes[pid].rank))

    def ranks(
        self, launcher: int, born: float, *, first_pid: int, command: str = "python -u train.py", steps: int = 20
    ) -> None:
        """A launcher below the shell, and its two ranks."""
        self.process(launcher, 1, "launcher", f"torchrun {command.removeprefix('python -u ')}", born=born)
        for rank in (0, 1):
            self.process(first_pid + rank, launcher, "rank", command, born=born + 1, rank=rank, steps=steps)

    def case(self) -> Case:
        self.flight.events.sort(key=lambda event: event.time)
        set_stages(self.flight)
        return Case(flight=self.flight)
