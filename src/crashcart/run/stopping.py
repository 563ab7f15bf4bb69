"""How a job is stopped: nobody is killed who would not have been killed without us, unless the user asked for it.

A signal from the user or the scheduler is passed on (``signals.py``) and nothing follows: a job that needs a minute to save its
checkpoint has it. With ``--grace SECONDS`` a job that was interrupted gets TERM after that time, and one that does not end on TERM
is killed, with its stacks taken first. ``--on-hang stop`` and ``restart`` begin with TERM to the first process, so that a
launcher can end its ranks in order.

Where we ended the job, we also end what is left of it: a launcher that was killed cannot end its ranks, and a shell that dies of
TERM leaves its programs behind. What left the job's session on purpose (``setsid``, a daemon, tmux) or ignores a hang-up
(``nohup``) is left alone.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from typing import TYPE_CHECKING

from crashcart.run.suspending import disposition

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from crashcart.run.outside.process import Process

__all__ = ["GRACE_SECONDS", "Stopping", "end_leftovers", "is_attached"]

GRACE_SECONDS = 30.0  # after a hang, where the user has not said it
_LONGEST = 10  # graces that a checkpoint may take
_SESSION = 3  # the field of /proc/PID/stat, counted from the state
_PARTS = (
    "rank",
    "launcher",
    "loader worker",
    "tracker",
)  # a part of the job in any session: some launchers give each rank its own
_POLL_SECONDS = 0.05


class Stopping:
    """The stages of a stop; ``advance`` is called each tick and sends what is due."""

    def __init__(self, job: int, grace: float | None, clock: Callable[[], float]) -> None:
        """``grace`` is None where the user has not given one."""
        self.job = job
        self.grace = grace
        self.asked: str | None = None
        self.by_us = False  # whether a signal of ours, not one that was passed on, ended the job
        self.killed = False
        self._clock = clock
        self._stage = signal.SIGCONT  # nothing yet
        self._begun = self._since = 0.0

    def ask(self, number: int) -> None:
        """The job was asked to end, by somebody else: INT and TERM begin a stop."""
        if number in {signal.SIGINT, signal.SIGTERM} and self.asked is None:
            self._stage = signal.Signals(number)
            self.asked = self._stage.name
            self._begun = self._since = self._clock()

    def stop(self) -> None:
        """Ask the job to end."""
        self.grace = GRACE_SECONDS if self.grace is None else self.grace
        self.by_us = True
        self._send(self.job, signal.SIGTERM)
        self.ask(signal.SIGTERM)

    def advance(self, *, saving: bool, before_kill: Callable[[], Iterable[int]]) -> str | None:
        """Send the next signal when its time has come; what was sent. ``before_kill`` takes stacks and names everybody."""
        if self.asked is None or self.killed or self.grace is None:
            return None
        now = self._clock()
        if now - self._since < self.grace or (saving and now - self._begun < _LONGEST * self.grace):
            return None
        self._since = now
        self.by_us = True
        if self._stage == signal.SIGINT:
            self._stage = signal.SIGTERM
            self._send(self.job, signal.SIGTERM)
            return "SIGTERM"
        self.killed = True
        for pid in before_kill():
            self._send(pid, signal.SIGKILL)
        return "SIGKILL"

    @staticmethod
    def _send(pid: int, number: int) -> None:
        with contextlib.suppress(OSError):
            os.kill(pid, number)


def is_attached(process: Process, job: int, *, hang_ups_reach_job: bool) -> bool:
    """Whether a process runs and belongs to the job still, rather than having left it on purpose.

    ``hang_ups_reach_job`` is false under ``nohup crashcart run``, where every process of the job ignores hang-ups.
    """
    if process.gone or process.fields[0] == b"Z":
        return False
    if process.role in _PARTS and not process.assumed:
        return True
    if int(process.fields[_SESSION]) != job:
        return False
    return not hang_ups_reach_job or disposition(process.pid, signal.SIGHUP) != "ignored"


def end_leftovers(find: Callable[[], list[int]], grace: float) -> list[tuple[str, list[int]]]:
    """End what a stopped job has left: TERM, the grace period, KILL. ``find`` gives those that are still there; what was sent."""
    sent = []
    for number, wait_seconds in ((signal.SIGTERM, grace), (signal.SIGKILL, 1.0)):
        left = find()
        if not left:
            break
        for pid in left:
            with contextlib.suppress(OSError):
                os.kill(pid, number)
        sent.append((number.name, left))
        deadline = time.monotonic() + wait_seconds
        while find() and time.monotonic() < deadline:
            time.sleep(_POLL_SECONDS)
    return sent
