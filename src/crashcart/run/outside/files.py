"""Small files of /proc and /sys that are read every second through a descriptor that stays open.

Opening costs three times what reading does. Most of these files are made up by the kernel while one reads, and a few of them
(``/proc/stat``, ``/proc/vmstat``, ``memory.stat``) take a millisecond on a machine of 200 cores: such a file is read less often.
"""

from __future__ import annotations

import math
import os
import time

__all__ = ["Kept", "number_after", "once", "pressure", "whole"]

_DEAR = 100e-6  # seconds; below it a file is read whenever it is asked for
_SHARE = 5e-5  # of a core, the most that one dear file may cost
_LONGEST = 10.0


class Kept:
    """A file that stays open; what cannot be read is empty."""

    __slots__ = ("_before", "_descriptor", "_due", "_every", "_last", "_size")

    def __init__(self, path: str, size: int = 4096, *, every: float = 0.0) -> None:
        """``size`` is the most that is read, ``every`` the seconds for which an answer is good enough."""
        self._size = size
        self._every = every
        self._last = b""
        self._due = self._before = 0.0
        try:
            self._descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            self._descriptor = -1

    def read(self, now: float, *, fresh: bool = False) -> bytes:
        """The file as it is; as it was a few seconds ago where reading it is dear, unless ``fresh`` is asked for."""
        if self._descriptor < 0 or (now < self._due and not fresh):
            return self._last
        begin = time.perf_counter()
        try:
            self._last = os.pread(self._descriptor, self._size, 0)
        except OSError:
            self._last = b""
        spent = time.perf_counter() - begin
        dear = min(spent, self._before)  # twice in a row: once may only mean that we were put aside
        self._before = spent
        self._due = now + max(self._every, min(_LONGEST, dear / _SHARE) if dear > _DEAR else 0.0)
        return self._last

    def close(self) -> None:
        """Close it; from then on it reads as it last did."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def once(path: str, size: int = 4096) -> bytes:
    """The beginning of a file that is not kept open."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(descriptor, size)
    finally:
        os.close(descriptor)


def number_after(text: bytes, key: bytes, scale: float = 1.0) -> float:
    """The number in the line that begins with ``key``, times ``scale``."""
    at = 0 if text.startswith(key) else text.find(b"\n" + key) + 1
    if at == 0 and not text.startswith(key):
        return math.nan
    word = text[at + len(key) : at + len(key) + 40].split(None, 1)
    try:
        return int(word[0]) * scale
    except (IndexError, ValueError):
        return math.nan


def whole(text: bytes) -> float:
    """The number that is all there is in the file; ``max`` and what v1 writes for it are infinite."""
    text = text.strip()
    if text == b"max":
        return math.inf
    try:
        number = int(text)
    except ValueError:
        return math.nan
    return math.inf if number >= 1 << 60 else float(number)


def pressure(text: bytes) -> float:
    """The share of the last ten seconds in which some task waited."""
    # some avg10=12.31 avg60=3.07 avg300=0.66 total=38412907
    at = text.find(b"avg10=")
    if at < 0:
        return math.nan
    try:
        return float(text[at + 6 : at + 20].split(None, 1)[0]) / 100
    except (IndexError, ValueError):
        return math.nan
