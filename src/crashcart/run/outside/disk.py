"""Room for the job's output: free bytes, free inodes, and what a quota leaves.

A file server that does not answer holds ``statvfs`` for minutes, so that the question is asked aside. A full tree of inodes and
a quota look like a full disk to the job while ``df`` shows plenty of room.
"""

from __future__ import annotations

import ctypes
import math
import os

from crashcart.run.outside.aside import Aside

__all__ = ["Disk"]

_EVERY = 5.0
_TOO_OLD = 60.0
_QUOTACTL_FD = 443  # the same number on every architecture, since Linux 5.14
_GET_QUOTA = 0x800007
_UNKNOWN = [math.nan] * 4


class Disk:
    """The file system of one folder: ``row`` gives free, total, inodes free, quota left."""

    def __init__(self, folder: str, *, patience: float = 1.0) -> None:
        self._folder = folder
        self._row = _UNKNOWN
        self._asked_at = self._answered_at = -math.inf
        self._has_quota = True
        self._aside: Aside[str, list[float]] = Aside(self._ask)
        self._aside.begin(folder)
        self._first_patience = patience

    def row(self, now: float, *, fresh: bool = False) -> list[float]:
        """The last answer; NaN when there has been none for a minute."""
        answer = self._aside.take(self._first_patience)
        self._first_patience = 0.0
        if fresh or now - self._asked_at >= _EVERY:
            self._asked_at = now
            self._aside.begin(self._folder)
            answer = (self._aside.take(0.1) if fresh else None) or answer
        if answer is not None:
            self._row, self._answered_at = answer, now
        return self._row if now - self._answered_at < _TOO_OLD else _UNKNOWN

    def close(self) -> None:
        """Ask no more."""
        self._aside.close()

    def _ask(self, folder: str) -> list[float]:
        try:
            found = os.statvfs(folder)
        except OSError:
            return _UNKNOWN
        inodes = float(found.f_favail) if found.f_files else math.nan  # some file systems do not count them
        return [float(found.f_bavail * found.f_frsize), float(found.f_blocks * found.f_frsize), inodes, self._quota(folder)]

    def _quota(self, folder: str) -> float:
        if not self._has_quota:
            return math.nan
        try:
            descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return math.nan
        try:
            left = [_left(descriptor, kind, number) for kind, number in enumerate((os.getuid(), os.getgid()))]
        finally:
            os.close(descriptor)
        known = [room for room in left if not math.isnan(room)]
        self._has_quota = bool(known)
        return min(known, default=math.nan)


class _Quota(ctypes.Structure):
    """``struct if_dqblk``; block limits count KiB, the space in use counts bytes."""

    _fields_ = (
        *(
            (name, ctypes.c_uint64)
            for name in ("hard", "soft", "used", "inode_hard", "inode_soft", "inodes", "time", "inode_time")
        ),
        ("valid", ctypes.c_uint32),
    )


def _left(descriptor: int, kind: int, number: int) -> float:
    """What the quota of a user (kind 0) or group (1) leaves; infinite where none is set, NaN where there are no quotas."""
    quota = _Quota()
    syscall = ctypes.CDLL(None).syscall
    arguments = (
        ctypes.c_long(_QUOTACTL_FD),
        ctypes.c_uint(descriptor),
        ctypes.c_uint(_GET_QUOTA << 8 | kind),
        ctypes.c_int(number),
    )
    if syscall(*arguments, ctypes.byref(quota)) != 0:
        return math.nan
    return max(0.0, quota.hard * 1024.0 - quota.used) if quota.hard else math.inf
