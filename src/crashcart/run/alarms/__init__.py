"""What is noticed from numbers while a job runs: memory and disks that fill, values that are no numbers, time that is lost.

Each thing is said once, as an event in the record and one line for the user.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from crashcart.run.alarms.files import Disk, Handles
from crashcart.run.alarms.memory import CardMemory, HostMemory
from crashcart.run.alarms.training import Numerics, Starvation, Throttling

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.run.supervisor import Supervisor

__all__ = ["Alarms"]

_EVERY = 10.0  # seconds between two looks at trends


class Alarms:
    """Asks each watch, and says what it found, once for each kind."""

    def __init__(self, job: Supervisor) -> None:
        self.job = job
        self._said: set[str] = set()
        self._due = 0.0
        self._numerics = Numerics()
        self._watches = (HostMemory(), CardMemory(), Disk(), Handles(), Starvation(), Throttling())

    def look(self, tables: dict[str, list[list[float]]], events: list[dict[str, Any]]) -> None:
        """Judge what was just seen."""
        now = time.monotonic()
        pages = self.job.pages.ranks
        for kind, sentence in self._numerics.look(pages, events):
            self._say(kind, sentence)
        for watch in self._watches:
            watch.note(now, tables, pages, events)
        if now >= self._due:
            self._due = now + _EVERY
            for kind, sentence in self._judged(now):
                self._say(kind, sentence)

    def _judged(self, now: float) -> Iterator[tuple[str, str]]:
        for watch in self._watches:
            yield from watch.judge(now)

    def _say(self, kind: str, sentence: str) -> None:
        if kind not in self._said:
            self._said.add(kind)
            self.job.writer.event("alarm", alarm=kind, says=sentence)
            self.job.say(sentence)
