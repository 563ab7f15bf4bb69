"""When each process of a job ended, to the millisecond: the kernel tells it, whatever the supervisor is busy with.

Who was first decides who is blamed, and the ranks of a job follow each other within milliseconds, while the supervisor looks
once a second and may be waiting for stacks for two. So a thread of its own waits for the descriptors of the processes
(``pidfd_open``, Linux 5.3, for every process of the same user) and writes each end down at once. An epoll gives them in the
order in which they came, also where the machine was too busy to run the thread in between. Where there are no such descriptors
nothing is written, and the look that misses the process has to do.
"""

from __future__ import annotations

import contextlib
import os
import resource
import select
import threading
import time
from typing import TYPE_CHECKING

from crashcart.run.status import how_it_ended

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Ends"]

_MOST = 256  # processes watched at a time
_SHARE = 4  # of the descriptors that we may open, under the limit that the job inherits


class Ends:
    """Tells ``tell(time, pid, how)`` of every end, once, in the order of ends; from a thread or from who calls ``take``."""

    def __init__(self, tell: Callable[[float, int, dict[str, int | str]], None]) -> None:
        self._tell = tell
        self._most = min(_MOST, resource.getrlimit(resource.RLIMIT_NOFILE)[0] // _SHARE)
        self._epoll = select.epoll()
        self._watched: dict[int, int] = {}  # pids by descriptor
        self._lock = threading.Lock()
        self._wake, self._waker = os.pipe()
        self._thread: threading.Thread | None = None

    def watch(self, pid: int, *, may_be_missed: bool = False) -> bool:
        """Wait for the end of a process; false where that cannot be done. Half of the room is kept for those that must be seen."""
        with self._lock:
            if pid in self._watched.values():
                return True
            if len(self._watched) >= (self._most // 2 if may_be_missed else self._most):
                return False
            try:
                descriptor = os.pidfd_open(pid)
            except (OSError, AttributeError):  # gone, no descriptor left, an older kernel, another system
                return False
            self._watched[descriptor] = pid
            self._epoll.register(descriptor, select.EPOLLIN)
        if self._thread is None:
            self._thread = threading.Thread(target=self._wait, name="ends", daemon=True)
            self._thread.start()
        return True

    def take(self) -> None:
        """Tell of those that have ended by now; for who cannot wait until the thread gets its turn."""
        with self._lock:
            for descriptor, _ in self._epoll.poll(0):
                moment = time.time()
                pid = self._watched.pop(descriptor)
                self._epoll.unregister(descriptor)
                with contextlib.suppress(Exception):  # the next one must be told all the same
                    self._tell(moment, pid, how_it_ended(descriptor, pid))
                os.close(descriptor)

    def close(self) -> None:
        """End the thread and let go of everything."""
        os.write(self._waker, b"q")
        if self._thread is not None:
            self._thread.join(5)
        with self._lock:
            for descriptor in self._watched:
                os.close(descriptor)
            self._watched.clear()
            self._epoll.close()
        os.close(self._wake)
        os.close(self._waker)

    def _wait(self) -> None:
        poll = select.poll()  # on the epoll, so that waiting takes nothing out of its order
        poll.register(self._epoll.fileno(), select.POLLIN)
        poll.register(self._wake, select.POLLIN)
        while not any(number == self._wake for number, _ in poll.poll()):
            self.take()
