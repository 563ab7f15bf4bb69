"""The supervisor's side of the keeper: what it says, the channels it holds, and another one in its place when it was killed.

The supervisor holds a copy of everything that the keeper reads. So the job's processes never find the other end of a pipe or a
terminal closed: the next keeper goes on where the first one was.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import threading
import time
from typing import TYPE_CHECKING, Any

from crashcart.run.channels import Held
from crashcart.run.exit import read_exit, write_exit
from crashcart.run.keeper import Keeper
from crashcart.run.starting import Start, start_keeper

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Link"]

_MOST = 8  # descriptors in one message


class Link:
    """The keeper of one job; ``waker`` is written to when the job was collected here."""

    def __init__(self, start: Start, waker: int) -> None:
        self.start = start
        self.held = start.held
        started = start_keeper(start)
        self.keeper, self.problem = started.keeper, started.problem
        self.beside_us, self.beside_job = started.beside_us, started.beside_job
        self._outlived = started.outlived
        self.control: socket.socket | None = started.control
        self.job = 0
        self.collected: int | None = None
        self.typing = start.typing
        self._hung_up = False
        self._waker = waker
        self._collecting = False
        self._heard = b""
        self._received: list[int] = []

    @property
    def number(self) -> int | None:
        """What to wait on."""
        return self.control.fileno() if self.control is not None else None

    def say(self, word: bytes) -> None:
        """A letter for the keeper."""
        if self.control is not None:
            with contextlib.suppress(OSError):
                self.control.sendall(word)

    def end(self, wait_seconds: float) -> None:
        """The run is over: let the keeper go, and wait so long for its end; what outlives the job may keep it."""
        self.say(b"q")
        os.close(self._outlived)
        deadline = time.monotonic() + wait_seconds
        with contextlib.suppress(ChildProcessError):
            while not os.waitpid(self.keeper, os.WNOHANG)[0] and time.monotonic() < deadline:
                time.sleep(0.002)

    def hang_up(self) -> None:
        """The user's terminal was closed."""
        self._hung_up = True
        self.say(b"h")

    def let_type(self, *, allowed: bool) -> None:
        """Whether the user's keys go to the job from here on."""
        self.typing = allowed
        self.say(b"k" if allowed else b"n")

    def hear(self) -> Iterator[dict[str, Any]]:
        """What the keeper says that is not about its channels; nothing where it is gone."""
        try:
            words, received, _, _ = (
                socket.recv_fds(self.control, 4096, _MOST) if self.control is not None else (b"", [], 0, "")
            )
        except OSError:
            words, received = b"", []
        if not words:
            self._lose()
            return
        self._received += received
        self._heard += words
        *lines, self._heard = self._heard.split(b"\n")
        for line in lines:
            message: dict[str, Any] = json.loads(line)
            self.job = message.get("job", self.job)
            if "channel" in message and self._received:
                self.held[message["channel"]] = Held(self._received.pop(0), *message["held"])
            elif "closed" in message:
                self._let_go(message["closed"])
            else:
                if "status" in message and self.collected is not None:
                    message["status"] = self.collected
                yield message

    def collect(self) -> None:
        """The job, which is our child now, has ended: the keeper is to write its last words."""
        if self.collected is not None:
            self.say(b"e")

    def _let_go(self, number: int) -> None:
        held = self.held.pop(number, None)
        if held is not None and held.read != self.start.streams.master:
            os.close(held.read)

    def _lose(self) -> None:
        if self.control is not None:
            self.control.close()
        self.control = None
        with contextlib.suppress(ChildProcessError):
            os.waitpid(self.keeper, 0)

    def replace(self) -> bool:
        """Somebody killed the keeper: another takes over its channels, and the job, now our child, goes on."""
        if self.control is not None or not self.job:
            return False
        ours, theirs = socket.socketpair()
        self._heard = b""
        for descriptor in self._received:
            os.close(descriptor)
        self._received = []
        self.keeper = os.fork()
        if self.keeper == 0:
            with contextlib.suppress(BaseException):
                ours.close()
                self.beside_us.forget()
                self.beside_job.forget()
                os.setsid()
                Keeper(self.start._replace(typing=self.typing), theirs, self.held, self._outlived).take_over(self.job)
            os._exit(0)
        theirs.close()
        self.control = ours
        self.say(b"hw" if self._hung_up else b"w")  # the window may have changed meanwhile
        if not self._collecting:
            self._collecting = True
            threading.Thread(target=self._wait_for_job, daemon=True).start()
        self.collect()
        return True

    def _wait_for_job(self) -> None:
        try:
            _, status = os.waitpid(self.job, 0)
            write_exit(self.start.folder, status)
        except ChildProcessError:  # the keeper had collected it, and was killed before it could say so
            status = read_exit(self.start.folder)
        self.collected = status
        with contextlib.suppress(OSError):
            os.write(self._waker, b"c")
