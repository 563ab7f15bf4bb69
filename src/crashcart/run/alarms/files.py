"""Disks that fill and handles that run out."""

from __future__ import annotations

from math import isnan
from typing import TYPE_CHECKING, Any

from crashcart.recording.tables import HOST, PROCESS
from crashcart.run.alarms.trend import Series

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.run.pages import Page

__all__ = ["Disk", "Handles"]

_SOON = 45 * 60.0
_GIB = 1 << 30
_FREE, _INODES, _QUOTA = HOST.index("disk_free"), HOST.index("inodes_free"), HOST.index("quota_left")
_PID, _FILES = PROCESS.index("pid"), PROCESS.index("files")
_NEARLY = 0.8
_FEW_INODES = 1000


class Disk:
    """Room for two more checkpoints, and for the log."""

    def __init__(self) -> None:
        self._used = Series()
        self._free = self._inodes = float("nan")
        self._checkpoint = 0.0

    def note(self, now: float, tables: dict[str, list[list[float]]], _: list[Page], events: list[dict[str, Any]]) -> None:
        """Take in what was just seen."""
        host = next(iter(tables.get("host", ())), None)
        if host is not None:
            known = [value for value in (host[_FREE], host[_QUOTA]) if not isnan(value)]
            self._free = min(known, default=float("nan"))
            self._inodes = host[_INODES]
            self._used.add(now, -self._free)
        sizes = [event.get("bytes") for event in events if event.get("kind") == "checkpoint"]
        self._checkpoint = max([self._checkpoint, *(float(size) for size in sizes if isinstance(size, (int, float)))])

    def judge(self, _now: float) -> Iterator[tuple[str, str]]:
        """Too little room for what is known to come."""
        if self._checkpoint and self._free < 2 * self._checkpoint:
            yield (
                "disk",
                f"the disk has space for {self._free / self._checkpoint:.1f} more checkpoints ({self._free / _GIB:.1f} GB).",
            )
        elif 0 < self._inodes < _FEW_INODES:
            yield "disk", f"the file system has only {self._inodes:.0f} inodes left."
        else:
            rise = self._used.rise()
            if rise is not None and rise.seconds_to(0.0) < _SOON:
                yield "disk", f"the disk will be full in about {rise.seconds_to(0.0) / 60:.0f} min."


class Handles:
    """Open files of each process against its limit."""

    def __init__(self) -> None:
        self._most: tuple[float, int] = (0.0, 0)

    def note(self, _now: float, tables: dict[str, list[list[float]]], _: list[Page], __: list[dict[str, Any]]) -> None:
        """Take in what was just seen."""
        known = [(row[_FILES], int(row[_PID])) for row in tables.get("process", ()) if not isnan(row[_FILES])]
        self._most = max(known, default=(0.0, 0))

    def judge(self, _now: float) -> Iterator[tuple[str, str]]:
        """The process with most of them."""
        files, pid = self._most
        limit = _limit(pid) if pid else 0
        if limit and files > _NEARLY * limit:
            yield "files", f"process {pid} has {files:.0f} open files; its limit is {limit}."


def _limit(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/limits", encoding="ascii") as file:
            line = next(line for line in file if line.startswith("Max open files"))
        return int(line.split()[3])
    except (OSError, StopIteration, ValueError):
        return 0
