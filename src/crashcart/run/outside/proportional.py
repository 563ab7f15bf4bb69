"""Proportional memory (PSS): what a process holds when pages that it shares are divided among those that share them.

The kernel walks the page tables for it: 27 ms for 4 GiB, and with 2 GiB shared by 20 forked processes two thirds of a core at
one reading a second. So there is a budget, and one process after the other, those that waited longest first.
"""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING

from crashcart.run.outside.aside import Aside
from crashcart.run.outside.files import number_after, once

if TYPE_CHECKING:
    from collections.abc import Iterable

    from crashcart.run.outside.process import Process

__all__ = ["Proportional"]

_BUDGET = 0.005  # of a core
_EVERY = 15.0
_AT_ONCE = 0.005  # seconds of CPU; a batch ends with the process that passes it

Key = tuple[int, int]


class Proportional:
    """Readings that come in by and by; each is given out once."""

    def __init__(self, budget: float = _BUDGET, *, proc: str = "/proc") -> None:
        self.spent = 0.0
        self._budget = budget
        self._proc = proc
        self._read_at: dict[Key, float] = {}
        self._next = 0.0
        self._aside: Aside[list[Key], tuple[dict[Key, float], float]] = Aside(self._read)

    def take(self, processes: Iterable[Process], now: float, patience: float = 0.0) -> dict[Key, float]:
        """What was read since the last call, by pid and start time; and ask for more if the budget has room."""
        answer = self._aside.take(patience)
        values: dict[Key, float] = {}
        if answer is not None:
            values, spent = answer
            self.spent += spent
            self._read_at.update(dict.fromkeys(values, now))
            self._next = now + spent / self._budget
        if now >= self._next and not self._aside.busy:
            self._begin(processes, now)
        return values

    def close(self) -> None:
        """Read no more."""
        self._aside.close()

    def _begin(self, processes: Iterable[Process], now: float) -> None:
        before = self._read_at
        keys = [(process.pid, process.start) for process in processes if process.fields[0] not in b"ZX"]
        self._read_at = {key: before[key] for key in keys if key in before}
        due = [key for key in keys if now - before.get(key, -math.inf) >= _EVERY]
        if due:
            self._aside.begin(sorted(due, key=lambda key: before.get(key, -math.inf)))

    def _read(self, keys: list[Key]) -> tuple[dict[Key, float], float]:
        begin = time.thread_time()
        values: dict[Key, float] = {}
        for key in keys:
            try:
                values[key] = number_after(once(f"{self._proc}/{key[0]}/smaps_rollup", 2048), b"Pss:", 1024.0)
            except OSError:
                values[key] = math.nan
            if time.thread_time() - begin > _AT_ONCE:
                break
        return values, time.thread_time() - begin
