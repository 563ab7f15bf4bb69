"""How long the main thread of a process has not run, from the scheduler's own notes.

``se.exec_start`` of ``/proc/PID/sched`` is when the thread last ran, on the clock of the processor on which it ran. Those clocks
leave out interrupts and stolen time, each its own, so that they are compared with what our own thread reads on the same
processor. Where the kernel has no such file, or the processor is not ours to use, the time is not known.
"""

from __future__ import annotations

import math
import os

from crashcart.numbers import to_float, to_int
from crashcart.run.outside.files import once

__all__ = ["Clocks", "ran"]

_PROCESSOR = 36  # field of /proc/PID/stat behind the name


class Clocks:
    """The clocks of the processors, each read once."""

    def __init__(self) -> None:
        self._now: dict[int, float] = {}

    def idle(self, pid: int) -> float:
        """Seconds for which the main thread has not run."""
        last, processor = _exec_start(f"/proc/{pid}/sched"), _processor(pid)
        if math.isnan(last) or processor < 0:
            return math.nan
        if processor not in self._now:
            self._now[processor] = _on(processor)
        return max(0.0, self._now[processor] - last)


def ran(pid: int) -> tuple[float, int]:
    """Seconds that the main thread has run so far, and how often it was given a processor."""
    try:
        words = once(f"/proc/{pid}/task/{pid}/schedstat", 128).split()
        return to_int(words[0], 0) / 1e9, to_int(words[2], -1)
    except (OSError, IndexError):
        return math.nan, -1


def _on(processor: int) -> float:
    """The clock of one processor, now."""
    before = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, {processor})
        return _exec_start("/proc/thread-self/sched")
    except OSError:
        return math.nan
    finally:
        os.sched_setaffinity(0, before)


def _exec_start(path: str) -> float:
    try:
        text = once(path, 2048)
    except OSError:
        return math.nan
    # se.exec_start                                :      22121073.667771
    for line in text.splitlines():
        if line.startswith(b"se.exec_start"):
            return to_float(line.rpartition(b":")[2], math.nan) / 1000
    return math.nan


def _processor(pid: int) -> int:
    try:
        return to_int(once(f"/proc/{pid}/stat", 1024).rpartition(b")")[2].split()[_PROCESSOR], -1)
    except (OSError, IndexError):
        return -1
