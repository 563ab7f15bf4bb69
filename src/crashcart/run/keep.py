"""A log that a full disk costs lines and nothing else, and the user's own stream that a slow reader costs nothing but time."""

from __future__ import annotations

import contextlib
import errno
import os
import queue
import select
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Kept", "Shown"]

_ROOM = 4 << 20  # bytes that wait for a slow reader before the job has to wait, as it would without us
_HELD = 256 << 10
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT)


class Kept:
    """A log file. What finds no room is counted, its end held in memory and written when there is room again."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.lost = 0  # since the last mark
        self.lost_in_all = 0
        self.size = 0  # bytes in the file
        self._held = b""
        self._file: int | None = None
        with contextlib.suppress(OSError):
            self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
            self.size = os.fstat(self._file).st_size

    def write(self, piece: bytes) -> None:
        """Append, whatever the disk says."""
        if self.lost:
            mark = f"\n[crashcart: {self.lost} bytes of this log were lost: the disk is full]\n".encode()
            if self._put(mark):
                self._hold(self._held + piece)
                return
            self.lost = 0
        self._hold(self._put(self._held + piece))

    def _put(self, piece: bytes) -> bytes:
        """Write; what is left where the disk refuses."""
        view = memoryview(piece)
        try:
            while view and self._file is not None:
                written = os.write(self._file, view)
                self.size += written
                view = view[written:]
        except OSError:
            return bytes(view)
        return bytes(view)

    def _hold(self, rest: bytes) -> None:
        self._lose(max(0, len(rest) - _HELD))
        self._held = rest[-_HELD:]

    def _lose(self, count: int) -> None:
        self.lost += count
        self.lost_in_all += count

    @property
    def full(self) -> bool:
        """Whether something waits for room."""
        return bool(self._held or self.lost)

    def settle(self, most: int) -> None:
        """The end: write the last words into the room that was freed for them, and no more than that."""
        if self.full:
            self._lose(max(0, len(self._held) - most))
            self._held = self._held[-most:] if most else b""
            self.write(b"")
            self._lose(len(self._held))
            self._held = b""

    def close(self) -> None:
        """Write what is still held, if there is room now."""
        if self._held:
            self.write(b"")
        if self._file is not None:
            os.close(self._file)
            self._file = None


class Shown:
    """The user's own stream, written by a thread: a terminal that was stopped must not stop the log."""

    def __init__(self, user: int, wake: Callable[[], None] = lambda: None) -> None:
        """``wake`` is called, in a thread, when the reader is found gone."""
        self.user = user
        self.broken = False  # a pipe whose reader has gone: without us the job would get to know
        self._wake = wake
        self._nameless = False
        with contextlib.suppress(OSError):
            self._nameless = os.readlink(f"/proc/self/fd/{user}").startswith("pipe:")
        self._handed = self._written = 0  # bytes; each has one writer, so that no lock is needed
        self._pieces: queue.Queue[bytes | None] = queue.Queue()
        self._gone = False
        self._thread = threading.Thread(target=self._write, daemon=True)
        self._thread.start()

    @property
    def has_room(self) -> bool:
        """Whether more may come; a reader that is far behind makes the job wait, as it would without us."""
        return self._gone or self._handed - self._written < _ROOM

    def write(self, piece: bytes) -> None:
        """Hand a piece over."""
        if not self._gone:
            self._handed += len(piece)
            self._pieces.put(piece)

    def _write(self) -> None:
        while (piece := self._pieces.get()) is not None:
            view = memoryview(piece)
            while view and not self._gone:
                view = view[self._put(view) :]
            self._written += len(piece)
            self._pieces.task_done()
        self._pieces.task_done()

    def _put(self, view: memoryview) -> int:
        try:
            return os.write(self.user, view)
        except BlockingIOError:
            select.select([], [self.user], [])
        except (BrokenPipeError, ConnectionResetError):
            self.break_off()
            self._wake()
        except OSError as problem:
            if (
                problem.errno in _NO_ROOM
            ):  # of the user's own file: what finds none is left out, what comes later may find some
                return len(view)
            self._gone = True  # the terminal; the log goes on
        return 0

    def break_off(self) -> None:
        """Nobody reads any more."""
        self.broken = self._gone = True

    @property
    def tells(self) -> bool:
        """Whether the kernel tells us at once when the reader goes: of a pipe without a name, to which none can come again."""
        return self._nameless and not self._gone

    def flush(self, seconds: float) -> None:
        """Wait until the user has everything, but not for ever."""
        waiter = threading.Thread(target=self._pieces.join, daemon=True)
        waiter.start()
        waiter.join(seconds)

    def close(self) -> None:
        """End the thread once it has written what it has."""
        self._pieces.put(None)
        self._thread.join(5)
