"""One process as /proc shows it, through descriptors that stay open: they belong to this process even when its pid is reused.

The fields of ``stat`` after the name, counted from 0: state, parent, ..., 9 major faults, 11 and 12 user and system time,
17 threads, 19 start in clock ticks since boot, 23 where the program's code begins, 45 where its arguments begin. The last two
differ after every exec (addresses are random) and are the parent's after a mere fork: that is how one tells the two apart.
"""

from __future__ import annotations

import math
import os
from functools import lru_cache

from crashcart.redact import clean
from crashcart.run.outside.files import once
from crashcart.run.outside.roles import OTHER, stated_rank

__all__ = ["FILES", "Process"]

FILES = ("stat", "statm", "io", "wchan", "fd", "children")
_SIZES = (1024, 128, 256, 128, 0, 1 << 16)
_STAT, _FD, _CHILDREN = 0, 4, 5
_NOT_KEPT, _UNREADABLE = -1, -2
_LONGEST_COMMAND = 2000


class Process:
    """A process of the job; ``command`` is fit to be shown, ``fields`` are those of ``stat`` at the last look.

    ``still`` says that they were the same at the look before; the sampler keeps here what it need not read again.
    """

    __slots__ = (
        "_image", "_paths", "_raw", "arguments", "assumed", "comm", "command", "descriptors", "fields", "files", "files_at", "forked", "gone",
        "launches", "of_several", "parent", "parent_pid", "pid", "place", "rank", "role", "row", "row_at", "start", "stated", "still", "told",
        "trained",
    )  # fmt: skip

    def __init__(self, pid: int, *, proc: str = "/proc", keep: bool = True) -> None:
        """Raises ``OSError`` where there is no such process."""
        self.pid = pid
        self._paths = tuple(f"{proc}/{pid}/{f'task/{pid}/' if name == 'children' else ''}{name}" for name in FILES)
        self.descriptors = [_NOT_KEPT] * len(FILES)
        self.gone = False
        self.role = OTHER
        self.assumed = self.forked = self.trained = self.of_several = False
        self.launches = ""  # the role of a program that turned out to start the one that trains
        self.rank: int | None = None
        self.stated: int | None = None
        self.told: int | None = None
        self.parent: Process | None = None
        self.arguments: tuple[str, ...] = ()  # as given, secrets and all: only to find the role
        self.comm = self.command = ""
        self._image = self._raw = b""
        self.still = False
        self.row: list[float] = []
        self.row_at = 0.0
        self.files = math.nan
        self.files_at = -math.inf
        self.fields: list[bytes] = []
        self.place = (b"0", b"0")
        self.start = -1
        if keep:
            self.descriptors = [_opened(path) for path in self._paths]
        try:
            self._take(self.read(_STAT))
            self.start = int(self.fields[19])
            self.parent_pid = int(self.fields[1])
        except BaseException:
            self.close()
            raise

    @property
    def name(self) -> str:
        """What the files of this process in the live folder begin with."""
        return f"{self.pid}-{self.start}"

    def refresh(self) -> bool:
        """Read ``stat`` again; true where the process runs another program or has another name than before."""
        try:
            image = self._image
            self._take(self.read(_STAT))
            self.gone = int(self.fields[19]) != self.start
        except (ProcessLookupError, FileNotFoundError, IndexError, ValueError):
            self.gone = True
        except OSError:  # no descriptor left, say: it may well live
            return False
        return not self.gone and self._image != image

    def read(self, which: int) -> bytes:
        """One of ``FILES``, by index; raises ``OSError`` where it cannot be read."""
        descriptor = self.descriptors[which]
        if descriptor >= 0:
            return os.pread(descriptor, _SIZES[which], 0)
        if descriptor == _UNREADABLE:
            raise PermissionError
        return once(self._paths[which], _SIZES[which])

    def count_files(self, *, by_size: bool) -> int:
        """How many files are open; since Linux 6.2 the size of the folder says so, before that its entries must be counted."""
        if not by_size:
            return len(os.listdir(self._paths[_FD]))
        descriptor = self.descriptors[_FD]
        return (os.fstat(descriptor) if descriptor >= 0 else os.stat(self._paths[_FD])).st_size

    def children(self) -> list[int]:
        """The processes that the main thread started and that are still there."""
        try:
            raw = self.read(_CHILDREN)
        except OSError:
            return []
        return [int(word) for word in raw.split()] if raw else []

    def describe(self) -> None:
        """Read again what changes only with the program: arguments, rank, and whether this is a mere copy of its parent."""
        parent = self.parent
        folder = self._paths[_STAT][:-4]
        self.forked = parent is not None and self.place == parent.place != (b"0", b"0")
        try:
            raw = once(folder + "cmdline", 1 << 14)
            if parent is not None and self.forked:
                self.stated, self.of_several = parent.stated, parent.of_several
            else:
                self.stated, self.of_several = stated_rank(once(folder + "environ", 1 << 18))
        except OSError:
            return
        if raw:  # a process that has ended has none any more
            self.arguments = tuple(part.decode("utf-8", "replace") for part in raw.rstrip(b"\0").split(b"\0")[:8])
            self.command = _shown(raw)

    def close(self) -> None:
        """Give the descriptors back."""
        for index, descriptor in enumerate(self.descriptors):
            if descriptor >= 0:
                os.close(descriptor)
            self.descriptors[index] = _UNREADABLE

    def _take(self, raw: bytes) -> None:
        self.still = raw == self._raw
        if self.still:
            return
        self._raw = raw
        end = raw.rindex(b")")
        self.fields = fields = raw[end + 2 :].split()
        if fields[0] not in b"ZX":  # what has ended has neither program nor arguments
            self.place = (fields[23], fields[45])
            image = raw[raw.index(b"(") + 1 : end] + b" " + fields[45]
            if image != self._image:
                self._image = image
                self.comm = image.rpartition(b" ")[0].decode("utf-8", "replace")


def _opened(path: str) -> int:
    try:
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except PermissionError:
        return _UNREADABLE
    except OSError:
        return _NOT_KEPT


@lru_cache(maxsize=256)
def _shown(raw: bytes) -> str:
    text = clean(" ".join(part.decode("utf-8", "replace") for part in raw.rstrip(b"\0").split(b"\0")))
    return " ".join(text.split())[:_LONGEST_COMMAND]
