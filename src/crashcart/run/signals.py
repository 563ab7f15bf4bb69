"""Signals that the supervisor gets, with their senders: taken by a thread, so that none is lost and nothing is interrupted."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from queue import SimpleQueue
from typing import TYPE_CHECKING

from crashcart.run.stopping import name_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

__all__ = ["Signals"]


class Signals:
    """The signals of one list; ``wake`` becomes readable when one has come, or when ``waker`` was written to."""

    def __init__(self, passed: Iterable[signal.Signals]) -> None:
        self._passed = tuple(passed)
        self._queue: SimpleQueue[tuple[int, int, str]] = SimpleQueue()
        self.wake, self.waker = os.pipe()
        self._thread: threading.Thread | None = None

    def block(self) -> None:
        """From here on they wait for us; before anything is forked."""
        signal.pthread_sigmask(signal.SIG_BLOCK, self._passed)

    def start(self) -> None:
        """Begin to take them, once."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._take, daemon=True)
            self._thread.start()

    def heard(self) -> Iterator[tuple[int, int, str]]:
        """Those that have come: number, sender, and what the sender was called."""
        while not self._queue.empty():
            yield self._queue.get()

    def _take(self) -> None:
        while True:
            came = signal.sigwaitinfo(self._passed)
            self._queue.put((came.si_signo, came.si_pid, name_of(came.si_pid)))  # at once: a sender may be short-lived
            with contextlib.suppress(OSError):
                os.write(self.waker, b"s")
