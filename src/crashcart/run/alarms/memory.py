"""Memory that heads for its limit, on the host and on the cards: when it will be full, who grows, and in which phase."""

from __future__ import annotations

from math import isnan
from typing import TYPE_CHECKING, Any

from crashcart.recording.tables import CGROUP, GPU, HOST, PROCESS
from crashcart.run.alarms.trend import Series

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.run.pages import Page

__all__ = ["CardMemory", "HostMemory"]

_SOON = 45 * 60.0
_HALF = 0.5
_NEARLY = 0.95
_GIB = 1 << 30
_AVAILABLE, _TOTAL = HOST.index("memory_available"), HOST.index("memory_total")
_LIMIT, _ANON, _SHMEM, _OOMS = (CGROUP.index(name) for name in ("limit", "anon", "shmem", "oom_kill"))
_PID, _RSS, _PSS, _SHARED = (PROCESS.index(name) for name in ("pid", "rss", "pss", "shared"))
_INDEX, _USED, _CAPACITY, _OURS = (GPU.index(name) for name in ("index", "used", "total", "ours"))


class HostMemory:
    """The job's memory against its limit, or the machine's where there is none."""

    def __init__(self) -> None:
        self._used = Series()
        self._limit = float("inf")
        self._now = 0.0
        self._phases = _ByPhase()
        self._first: dict[int, float] = {}
        self._last: dict[int, float] = {}

    def note(self, now: float, tables: dict[str, list[list[float]]], pages: list[Page], _: list[dict[str, Any]]) -> None:
        """Take in what was just seen."""
        host = next(iter(tables.get("host", ())), None)
        group = next(iter(tables.get("cgroup", ())), None)
        if host is None:
            return
        limited = group is not None and group[_LIMIT] < host[_TOTAL]
        if limited and group is not None:
            self._limit, self._now = group[_LIMIT], group[_ANON] + (group[_SHMEM] if not isnan(group[_SHMEM]) else 0.0)
        else:
            self._limit, self._now = host[_TOTAL], host[_TOTAL] - host[_AVAILABLE]
        self._used.add(now, self._now)
        own = {int(row[_PID]): row[_RSS] - row[_SHARED] for row in tables.get("process", ()) if not isnan(row[_RSS])}
        for pid, value in own.items():
            self._first.setdefault(pid, value)
        self._last = own
        self._phases.note(pages, sum(own.values()))

    def judge(self, _now: float) -> Iterator[tuple[str, str]]:
        """A rise that ends at the limit, or the limit itself."""
        rise = self._used.rise()
        if rise is not None and self._now > _HALF * self._limit and rise.seconds_to(self._limit) < _SOON:
            minutes = rise.seconds_to(self._limit) / 60
            says = (
                f"host memory grows by {rise.slope * 60 / _GIB:.2f} GB a minute and will be full in about {minutes:.0f} min"
                f"{self._who()}{self._phases.words()}."
            )
            yield "host-memory", says
        elif self._now > _NEARLY * self._limit:
            yield "host-memory-full", f"host memory is nearly full: {self._now / _GIB:.1f} of {self._limit / _GIB:.1f} GB."

    def _who(self) -> str:
        grown = sorted(((value - self._first.get(pid, value), pid) for pid, value in self._last.items()), reverse=True)
        return f"; process {grown[0][1]} grew most" if grown and grown[0][0] > 0 else ""


class CardMemory:
    """What a rank's allocator holds, against its card."""

    def __init__(self) -> None:
        self._held: dict[int, Series] = {}
        self._capacity = 0.0
        self._phases = _ByPhase()

    def note(self, now: float, tables: dict[str, list[list[float]]], pages: list[Page], _: list[dict[str, Any]]) -> None:
        """Take in what was just seen."""
        rows = tables.get("gpu", ())
        self._capacity = min((row[_CAPACITY] for row in rows if not isnan(row[_CAPACITY])), default=0.0)
        for page in pages:
            self._held.setdefault(page.pid, Series()).add(now, page.get("allocated"))
        self._phases.note(pages, sum(page.get("allocated") for page in pages if not isnan(page.get("allocated"))))

    def judge(self, _now: float) -> Iterator[tuple[str, str]]:
        """A rise that ends at the card's size."""
        for pid, series in self._held.items():
            rise = series.rise() if self._capacity else None
            if rise is not None and rise.now > _HALF * self._capacity and rise.seconds_to(self._capacity) < _SOON:
                minutes = rise.seconds_to(self._capacity) / 60
                says = (
                    f"GPU memory of process {pid} grows by {rise.slope * 60 / _GIB:.2f} GB a minute and will be full in "
                    f"about {minutes:.0f} min{self._phases.words()}."
                )
                yield "gpu-memory", says
                return


class _ByPhase:
    """In which phase a number grows: "+1.7 GB in each evaluation, 0.0 in training"."""

    def __init__(self) -> None:
        self._phase = ""
        self._before = 0.0
        self._grown: dict[str, tuple[float, int]] = {}

    def note(self, pages: list[Page], value: float) -> None:
        """Add what was gained since the last look to the phase that was on."""
        phase = next((page.phase for page in pages if page.phase not in {"data", "collective", "tracker"}), self._phase)
        if self._phase:
            grown, times = self._grown.get(self._phase, (0.0, 0))
            self._grown[self._phase] = grown + value - self._before, times + (phase != self._phase)
        self._phase, self._before = phase, value

    def words(self) -> str:
        """The growth of each phase that matters."""
        told = [
            f"{grown / max(1, times) / _GIB:+.2f} GB per {phase}"
            for phase, (grown, times) in self._grown.items()
            if phase in {"train", "evaluate", "sample", "checkpoint"}
        ]
        return f" ({', '.join(told)})" if len(told) > 1 else ""
