"""When each part of a log was printed: a line for the first piece of output after a moment in which none was noted.

    1795109732.737 0 output.log
    1795109733.912 1841 output.log

What begins at byte 1841 of ``output.log`` was printed at 33.912 or right after it, until the next line or the end of the moment. A
moment is five milliseconds at first and doubles as the file grows, so that a run of days needs a few megabytes.
"""

from __future__ import annotations

import bisect
import contextlib
import os
import time
from typing import TYPE_CHECKING, NamedTuple

from crashcart.numbers import to_count, to_float
from crashcart.recording.files import opened
from crashcart.regular_files import bounded_lines

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["PrintTimes", "Printed", "read_print_times"]

_FILE = "print_times"
_MOMENT = 0.005  # seconds
_LINES = 1 << 13  # after which the moment doubles
_MOST_DOUBLINGS = 14
_LONGEST_LINE, _LARGEST_FILE = 256, 8 << 20
_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
_PARTS = 3


class PrintTimes:
    """Writes the times of all logs of a run; a disk without room ends it."""

    def __init__(self, folder: str, clock: Callable[[], float] = time.time) -> None:
        self._folder = folder
        self._clock = clock
        self._noted: dict[str, float] = {}
        self._lines = 0
        self._file: int | None = None
        self._failed = False

    def note(self, log: str, size: int) -> None:
        """A log that has ``size`` bytes now gets more."""
        now = self._clock()
        if self._failed or 0 <= now - self._noted.get(log, 0.0) < _moment_at(self._lines):
            return
        self._noted[log] = now
        self._write(f"{now:.3f} {size} {log}\n".encode())

    def copied(self, source: str, log: str, shift: int) -> None:
        """What stands in one log was copied to another one, so many bytes behind its place there."""
        with contextlib.suppress(OSError), opened(self._folder, "recording", _FILE) as file:
            for line in [*bounded_lines(file, _LONGEST_LINE, _LARGEST_FILE)]:
                began, size, name = _parts_of(line)
                if name == source and size + shift >= 0:
                    self._write(f"{began:.3f} {size + shift} {log}\n".encode())

    def _write(self, line: bytes) -> None:
        self._lines += 1
        try:
            if self._file is None:
                self._file = os.open(os.path.join(self._folder, "recording", _FILE), _FLAGS, 0o600)
            self._failed = os.write(self._file, line) < len(line)
        except OSError:
            self._failed = True

    def close(self) -> None:
        """Nothing more will come."""
        if self._file is not None:
            with contextlib.suppress(OSError):
                os.close(self._file)
            self._file = None
        self._failed = True


class Printed(NamedTuple):
    """When the parts of one log were printed, by the bytes at which they begin."""

    offsets: list[int]
    times: list[tuple[float, float]]

    def at(self, offset: int) -> tuple[float, float] | None:
        """The earliest and the latest time at which what stands at a byte was printed."""
        place = bisect.bisect_right(self.offsets, offset) - 1
        return self.times[place] if place >= 0 else None


def read_print_times(folder: str) -> dict[str, Printed]:
    """The times of the logs of a run, by their names; none of a log whose lines do not follow each other."""
    noted: dict[str, list[tuple[int, float, float]]] = {}
    try:
        file = opened(folder, "recording", _FILE)
    except OSError:
        return {}
    with file:
        for number, line in enumerate(bounded_lines(file, _LONGEST_LINE, _LARGEST_FILE)):
            began, size, log = _parts_of(line)
            if log:
                noted.setdefault(log, []).append((size, began, _moment_at(number)))
    return {log: _printed(entries) for log, entries in noted.items() if entries == sorted(entries, key=_size_of)}


def _parts_of(line: bytes) -> tuple[float, int, str]:
    """Time, size and name of a line; no name of one that was not written as a whole."""
    parts = line.decode("utf-8", "replace").split(" ", _PARTS - 1)
    began, size = (to_float(parts[0]), to_count(parts[1])) if len(parts) == _PARTS else (None, None)
    if began is None or size is None or not line.endswith(b"\n"):
        return 0.0, 0, ""
    return began, size, parts[2].rstrip("\n")


def _size_of(entry: tuple[int, float, float]) -> int:
    return entry[0]


def _printed(entries: list[tuple[int, float, float]]) -> Printed:
    """Each part ends with its moment, or where the next one begins."""
    following = [began for _, began, _ in entries[1:]]
    ends = [
        min(after, began + moment) for (_, began, moment), after in zip(entries, [*following, float("inf")], strict=True)
    ]
    times = [(began, max(began, end)) for (_, began, _), end in zip(entries, ends, strict=True)]
    return Printed([size for size, _, _ in entries], times)


def _moment_at(lines: int) -> float:
    return _MOMENT * 2.0 ** min(lines // _LINES, _MOST_DOUBLINGS)
