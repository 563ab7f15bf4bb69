"""The job of a keeper that was killed, which is no child of the keeper that follows.

Where the supervisor, which would have collected it, was killed too, its end has to be seen from outside.
"""

from __future__ import annotations

import contextlib
import os
import select

from crashcart.run.status import status_of

__all__ = ["Adopted"]


class Adopted:
    """Somebody else's child; ``number`` is what to wait on, where the kernel has it (Linux 5.3)."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self.number: int | None = None
        with contextlib.suppress(OSError, AttributeError):
            self.number = os.pidfd_open(pid)

    def ended(self) -> bool:
        """Whether it is gone, or waits only for being collected."""
        if self.number is not None:
            poll = select.poll()  # not select, which refuses numbers from 1024 on
            poll.register(self.number, select.POLLIN)
            return bool(poll.poll(0))
        try:
            with open(f"/proc/{self._pid}/stat", "rb") as file:
                return file.read(1024).rpartition(b")")[2].split()[0] in (b"Z", b"X")
        except (OSError, IndexError):
            return True

    def status(self) -> int | None:
        """What a wait would give, where it can be known."""
        return status_of(self.number, self._pid)
