"""The memory group of the job: what it uses, what it may use, how often that was not enough.

A limit may sit on any folder above the job's own (a Slurm job above its step, a pod above its container), and what counts
against it is what that folder holds, so the figures are those of the folder with the tightest limit, the outermost where two are
equal. Kills are those of the job's own folder: the ones above count the neighbours' too. No limit is infinite; NaN means that
it could not be read. A machine may have v1 for one controller and v2 for another.
"""

from __future__ import annotations

import math
import os

from crashcart.readers.machine.groups import levels
from crashcart.run.outside.files import Kept, number_after, once, pressure, whole

__all__ = ["Cgroup"]

_LIMITS_EVERY = 10.0
# Seconds for which an answer is good enough, unless a process has just ended.
_EVERY = {"peak": 4.5, "pids": 4.5, "ooms": 1.9, "pressure": 1.9}
_V1 = {
    "current": "memory.usage_in_bytes",
    "limit": "memory.limit_in_bytes",
    "peak": "memory.max_usage_in_bytes",
    "anon": b"total_rss ",
    "file": b"total_cache ",
    "shmem": b"total_shmem ",
    "events": "memory.oom_control",
}
_V2 = {
    "current": "memory.current",
    "limit": "memory.max",
    "peak": "memory.peak",
    "anon": b"anon ",
    "file": b"file ",
    "shmem": b"shmem ",
    "events": "memory.events",
}


class Cgroup:
    """The CGROUP table's row for one process; ``version`` is 1, 2, or 0 where it is in no memory group."""

    def __init__(self, pid: int, *, root: str = "/") -> None:
        self.version, folders = levels(pid, "memory", root)
        names = _V1 if self.version == 1 else _V2
        self._names: dict[str, str] = {key: name for key, name in names.items() if isinstance(name, str)}
        self._keys: dict[str, bytes] = {key: name for key, name in names.items() if isinstance(name, bytes)}
        self._levels = [folder for folder in folders if os.path.exists(f"{folder}/{self._names['current']}")]
        self._pids_levels = [folder for folder in levels(pid, "pids", root)[1] if os.path.exists(f"{folder}/pids.current")]
        self.version = self.version if self._levels else 0
        self.folder = self._levels[0] if self._levels else ""
        self._kept: dict[str, Kept] = {}
        self._paths: dict[str, str] = {}
        self._limit = self._high = self._pids_limit = math.nan
        self._due = -math.inf

    def row(self, now: float, *, fresh: bool = False) -> list[float]:
        """Use, limits, kinds of memory, kills, pressure, processes, peak."""
        if fresh or now >= self._due:
            self._due = now + _LIMITS_EVERY
            self._find_limits()
        read = {key: kept.read(now, fresh=fresh) for key, kept in self._kept.items()}
        stat = read.get("stat", b"")
        inherited = number_after(stat, b"hierarchical_memory_limit ")  # v1 only; knows folders that a container does not see
        limit = min(self._limit, inherited) if 0 < inherited < 1 << 60 else self._limit
        return [
            whole(read.get("current", b"")),
            limit,
            self._high,
            *(number_after(stat, self._keys[key]) for key in ("anon", "file", "shmem")),
            number_after(read.get("ooms", b""), b"oom "),
            number_after(read.get("kills", b""), b"oom_kill "),
            pressure(read.get("pressure", b"")),
            whole(read.get("pids", b"")),
            self._pids_limit,
            whole(read.get("peak", b"")),
        ]

    def close(self) -> None:
        """Give the descriptors back."""
        for kept in self._kept.values():
            kept.close()

    def _find_limits(self) -> None:
        self._limit, tightest = _tightest(self._levels, self._names["limit"])
        self._high, _ = _tightest(self._levels, "memory.high")
        self._pids_limit, pids = _tightest(self._pids_levels, "pids.max")
        if self._levels:
            self._keep("current", f"{tightest}/{self._names['current']}")
            self._keep("stat", f"{tightest}/memory.stat")
            self._keep("peak", f"{tightest}/{self._names['peak']}")
            self._keep("ooms", f"{tightest}/{self._names['events']}")
            self._keep("kills", f"{self.folder}/{self._names['events']}")
            self._keep("pressure", f"{tightest}/memory.pressure")
        if self._pids_levels:
            self._keep("pids", f"{pids}/pids.current")

    def _keep(self, key: str, path: str) -> None:
        if self._paths.get(key) == path:
            return
        if key in self._kept:
            self._kept[key].close()
        self._paths[key] = path
        self._kept[key] = Kept(path, 1 << 14 if key == "stat" else 1024, every=_EVERY.get(key, 0.0))


def _tightest(folders: list[str], name: str) -> tuple[float, str]:
    """The smallest limit and its folder; the job's own folder where there is none."""
    limit, place = math.nan, folders[0] if folders else ""
    for folder in folders:
        try:
            own = whole(once(f"{folder}/{name}", 64))
        except OSError:
            continue
        if math.isnan(limit) or own <= limit:
            limit = own
            place = folder if own < math.inf else place
    return limit, place
