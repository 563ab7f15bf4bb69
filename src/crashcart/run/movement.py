"""Which processes of a job do anything: use the processor, read or write; and when its logs last grew."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from crashcart.recording.tables import PROCESS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from crashcart.run.outside.process import Process

__all__ = ["Movement"]

_PID, _CPU, _READ, _WRITTEN = (PROCESS.index(name) for name in ("pid", "cpu", "read", "written"))
_IDLE = 0.05  # seconds of processor time between two looks that are nothing
_IDLE_BYTES = 1 << 16
_RECENT = 6.0
_SHARE = 1 / 3  # of the time since the last progress: who moved only at its beginning stands still now
_GENERATIONS = 3


class Movement:
    """When each process last moved, by the monotonic clock."""

    def __init__(self, logs: str | None = None) -> None:
        self._logs = logs
        self._used: dict[int, tuple[float, float]] = {}
        self._moved: dict[int, float] = {}
        self._size = -1
        self.logged = 0.0

    def note(self, rows: Iterable[list[float]], now: float) -> None:
        """Compare the rows of the process table with those of the look before."""
        seen = {}
        for row in rows:
            pid = int(row[_PID])
            bytes_moved = sum(value for value in (row[_READ], row[_WRITTEN]) if value == value)  # noqa: PLR0124 - NaN
            cpu, moved = self._used.get(pid, (-1.0, -1.0))
            if row[_CPU] - cpu > _IDLE or bytes_moved - moved > _IDLE_BYTES:
                self._moved[pid] = now
            seen[pid] = (row[_CPU], bytes_moved)
        self._used = seen
        size = self._log_size()
        if size != self._size:
            self._size, self.logged = size, now

    def moves(self, pids: Iterable[int], since: float, now: float) -> bool:
        """Whether any of them did something of late; ``since`` is when the job last made progress."""
        recent = max(_RECENT, (now - since) * _SHARE)
        return any(now - self._moved.get(pid, -recent) < recent for pid in pids)

    def _log_size(self) -> int:
        try:
            return sum(entry.stat().st_size for entry in os.scandir(self._logs or ""))
        except OSError:
            return -1

    @staticmethod
    def family(pid: int, tree: Mapping[int, Process]) -> set[int]:
        """A process and what it started."""
        found = {pid}
        for _ in range(_GENERATIONS):
            found |= {process.pid for process in tree.values() if process.parent_pid in found}
        return found
