"""How a job is stopped when the user or the scheduler asks for it: the signal itself first, then TERM, then KILL.

The signal goes where it would have gone without us. A process that writes a checkpoint gets the time for it; one that swallows
TERM (a hung job often does) is killed after the grace period, with its stacks taken first.
"""

from __future__ import annotations

import contextlib
import os
import signal
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

__all__ = ["Stopping", "name_of", "sent_to_all"]

_LONGEST = 10  # graces that a checkpoint may take
_WHOLE_JOB = ("slurmstepd",)  # who signals every process of a job, ours and the job's alike


def name_of(sender: int) -> str:
    """What the sender of a signal calls itself; nothing where it is gone, the kernel, or outside our container."""
    try:
        with open(f"/proc/{sender}/comm", encoding="ascii", errors="replace") as file:
            return file.read().strip()
    except OSError:
        return ""


def sent_to_all(name: str) -> bool:
    """Whether a signal came from somebody who sent it to the job's processes too: then it is not passed on twice."""
    return name in _WHOLE_JOB


class Stopping:
    """The stages of a stop; ``advance`` is asked each tick and sends what is due."""

    def __init__(self, job: int, grace: float, clock: Callable[[], float]) -> None:
        self.job = job
        self.grace = grace
        self.asked: str | None = None
        self.killed = False
        self._clock = clock
        self._stage = signal.SIGCONT  # nothing yet
        self._begun = self._since = 0.0

    def pass_on(self, number: signal.Signals, *, everybody_has_it: bool = False) -> None:
        """Give the job a signal that we got; INT and TERM begin a stop."""
        if not everybody_has_it:
            if number == signal.SIGINT:
                self._send_group(number)  # a terminal would have given it to the whole group
            else:
                self._send(self.job, number)
        if number in {signal.SIGINT, signal.SIGTERM} and self.asked is None:
            self.asked = number.name
            self._stage = number
            self._begun = self._since = self._clock()

    def advance(self, *, saving: bool, before_kill: Callable[[], Iterable[int]]) -> str | None:
        """Send the next signal when its time has come; what was sent. ``before_kill`` takes stacks and names everybody."""
        if self.asked is None or self.killed:
            return None
        now = self._clock()
        if now - self._since < self.grace or (saving and now - self._begun < _LONGEST * self.grace):
            return None
        self._since = now
        if self._stage == signal.SIGINT:
            self._stage = signal.SIGTERM
            self._send(self.job, signal.SIGTERM)
            return "SIGTERM"
        self.killed = True
        for pid in before_kill():
            self._send(pid, signal.SIGKILL)
        self._send_group(signal.SIGKILL)
        return "SIGKILL"

    @staticmethod
    def _send(pid: int, number: int) -> None:
        with contextlib.suppress(OSError):
            os.kill(pid, number)

    def _send_group(self, number: int) -> None:
        with contextlib.suppress(OSError):
            os.killpg(self.job, number)
