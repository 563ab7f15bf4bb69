"""The whole machine: memory, swap, shared memory, processors, load, kills for lack of memory, pressure."""

from __future__ import annotations

import math
import os

from crashcart.run.outside.files import Kept, number_after, pressure

__all__ = ["Host"]

_NAN = math.nan


class Host:
    """The first ten columns of the HOST table; shares are between 0 and 1."""

    def __init__(self, *, proc: str = "/proc", shm: str = "/dev/shm") -> None:  # noqa: S108 - the mount, no file of ours
        self._meminfo = Kept(f"{proc}/meminfo")
        self._stat = Kept(f"{proc}/stat", 256)
        self._load = Kept(f"{proc}/loadavg", 128, every=4.5)
        self._vmstat = Kept(f"{proc}/vmstat", 1 << 14, every=4.5)  # after a death it is read at once
        self._memory_pressure = Kept(
            f"{proc}/pressure/memory", 256, every=1.9
        )  # the kernel reckons it anew every two seconds
        self._io_pressure = Kept(f"{proc}/pressure/io", 256, every=1.9)
        self._shm = shm
        self._ticks = (0, 0)
        self._busy = _NAN

    def row(self, now: float, *, fresh: bool = False) -> list[float]:
        """Memory total and available, swap used, shm used and free, CPU busy, load, OOM kills, pressure of memory and IO."""
        memory = self._meminfo.read(now, fresh=fresh)
        swap = number_after(memory, b"SwapTotal:", 1024.0) - number_after(memory, b"SwapFree:", 1024.0)
        return [
            number_after(memory, b"MemTotal:", 1024.0),
            number_after(memory, b"MemAvailable:", 1024.0),
            swap,
            *self._shared(),
            self._cpu(self._stat.read(now, fresh=fresh)),
            _first(self._load.read(now)),
            number_after(self._vmstat.read(now, fresh=fresh), b"oom_kill "),
            pressure(self._memory_pressure.read(now)),
            pressure(self._io_pressure.read(now)),
        ]

    def close(self) -> None:
        """Give the descriptors back."""
        for kept in (self._meminfo, self._stat, self._load, self._vmstat, self._memory_pressure, self._io_pressure):
            kept.close()

    def _shared(self) -> tuple[float, float]:
        try:
            found = os.statvfs(self._shm)
        except OSError:
            return _NAN, _NAN
        return float((found.f_blocks - found.f_bfree) * found.f_frsize), float(found.f_bavail * found.f_frsize)

    def _cpu(self, stat: bytes) -> float:
        # cpu  user nice system idle iowait irq softirq steal guest guest_nice: guest time is already in user time
        words = stat.split(b"\n", 1)[0].split()[1:9]
        try:
            ticks = [int(word) for word in words]
            idle, total = ticks[3] + ticks[4], sum(ticks)
        except (ValueError, IndexError):
            return _NAN
        passed = total - self._ticks[1]
        if passed > 0:
            self._busy = 1 - (idle - self._ticks[0]) / passed if self._ticks[1] else _NAN
            self._ticks = idle, total
        return self._busy


def _first(text: bytes) -> float:
    try:
        return float(text.split(None, 1)[0])
    except (IndexError, ValueError):
        return _NAN
