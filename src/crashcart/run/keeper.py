"""A small process between the job and the world, as tmux's server is: it starts the job, keeps its log and collects its end.

The supervisor may be killed and its terminal closed; the keeper goes on until the job has said its last word, and writes how
it ended. It does nothing else, so that nothing can go wrong with it.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
import time
from typing import TYPE_CHECKING

from crashcart.run.adopted import Adopted
from crashcart.run.channels import Channels, Held
from crashcart.run.exit import rescue, write_exit
from crashcart.run.output import copy_size
from crashcart.run.rank_output import identity, open_ends, read_request
from crashcart.run.terminal import restore, special_keys

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from crashcart.run.starting import Start

__all__ = ["Keeper"]

_LAST_WORDS = 0.3  # seconds of silence after the job's end that end the wait for its last words
_SETTLE = 2.0
_TOGETHER = 0.5  # seconds in which the processes of one group are gone that were killed together
_HANG_UP = 0.2  # seconds in which a closed terminal, which takes readers with it, is heard of


class Keeper:
    """The loop of the keeper process; ``held`` are the channels it begins with, ``control`` is the socket to the supervisor."""

    def __init__(self, start: Start, control: socket.socket, held: Mapping[int, Held], outlived: int) -> None:
        """``outlived`` tells whether the witness in the supervisor's group has outlived it."""
        self.start = start
        self.folder = start.folder
        self.streams = start.streams
        self.control: socket.socket | None = control
        control.setblocking(False)  # a supervisor that was stopped must not stop the job
        self._wake, self._waker = os.pipe()
        os.set_blocking(self._waker, False)
        self.channels = Channels(start.folder, start.streams, held, self._wake_up)
        self.hung_up = False  # the user's terminal was closed
        self._broken: dict[int, float] = {}  # since when nobody reads a stream
        self.job = 0
        self.status: int | None = None
        self.ended = 0.0
        self._told = False
        self.typing = start.typing
        self._asking: dict[int, socket.socket] = {}
        self.alone = False  # the supervisor is gone without a good-bye
        self._left_at = 0.0  # CLOCK_MONOTONIC of that
        self._outlived: int | None = outlived
        self._adopted: Adopted | None = None

    def take_over(self, job: int) -> None:
        """Go on for a keeper that was killed: the job is the supervisor's child now."""
        self._adopted = Adopted(job)
        self.run(job)

    def run(self, job: int) -> None:
        """Copy until the job has ended and nothing more comes."""
        self.job = job
        self._say({"job": job})
        signal.set_wakeup_fd(self._waker)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        self._collect()
        while self.channels.open or self.status is None:
            readable = self._wait()
            if self._wake in readable:
                os.read(self._wake, 4096)
                self._collect()
            self._hear(readable)
            self._copy(readable)
            self._break(readable)
            self._see_end()
            self._finish()
        self._finish()
        self.channels.close()
        if self.alone:
            rescue(self.start.live, os.path.join(self.folder, "recording", "inside"))

    def _wake_up(self) -> None:
        with contextlib.suppress(OSError):
            os.write(self._waker, b"b")

    def _wait(self) -> set[int]:
        waits = [self.channels.pass_late()]
        watched = [*self.channels.watched, self._wake, *self._asking]
        if self.control is not None:
            watched.append(self.control.fileno())
        if self.streams.keyboard is not None and self.typing and self.status is None:
            watched.append(self.streams.keyboard)
        if self.start.listener is not None:
            watched.append(self.start.listener.fileno())
        if self._outlived is not None:
            watched.append(self._outlived)
        if (orphan := self._orphaned) is not None:
            watched += [orphan.number] if orphan.number is not None else []
            waits.append(0.5 if orphan.number is None else None)
        if self.channels.behind or any(self._broken.values()) or (self.status is not None and not self._told):
            waits.append(0.05)
        timeout = min((wait for wait in waits if wait is not None), default=None)
        poll = select.poll()
        for one in watched:
            poll.register(one, select.POLLIN)
        for shown in self.channels.shown:
            if shown.tells:
                poll.register(shown.user, 0)  # that its reader is gone is told unasked
        return {number for number, _ in poll.poll(None if timeout is None else timeout * 1000 + 1)}

    def _hear(self, readable: set[int]) -> None:
        """The supervisor, the user's keys, and ranks that ask for a channel."""
        if self.control is not None and self.control.fileno() in readable:
            self._obey()
        if self.streams.keyboard is not None and self.streams.keyboard in readable:
            self._type()
        if self._outlived is not None and self._outlived in readable:
            self._see_group_end()
        for number in [number for number in self._asking if number in readable]:
            self._answer(self._asking.pop(number))
        if self.start.listener is not None and self.start.listener.fileno() in readable:
            with contextlib.suppress(OSError):
                asks, _ = self.start.listener.accept()
                asks.setblocking(False)
                self._asking[asks.fileno()] = asks

    def _copy(self, readable: Iterable[int]) -> None:
        for number in self.channels.copy(readable):
            self._say({"closed": number})

    def _break(self, ready: set[int]) -> None:
        """Let the job know that nobody reads on, as it would without us; not where the terminal was closed: then it goes on."""
        now = time.monotonic()
        for stream, shown in enumerate(self.channels.shown):
            if shown.user in ready and shown.tells:
                shown.break_off()
            if shown.broken and self.control is not None and not self.hung_up and self.status is None:
                since = self._broken.setdefault(stream, now)
                if since and now - since > _HANG_UP:
                    self._broken[stream] = 0.0
                    for number in self.channels.break_off(stream):
                        self._say({"closed": number})
                    self._say({"broken": shown.user})

    def _answer(self, line: socket.socket) -> None:
        """Give a rank its own channels, once the supervisor holds our ends of them too."""
        with contextlib.closing(line), contextlib.suppress(OSError):
            asked = read_request(line.recv(256), identity(self.start.environment), len(self.streams.outputs))
            if asked is None:
                return
            attempt = self.channels.attempt(asked.rank, asked.restarts)
            theirs = []
            try:
                for stream in asked.streams:
                    read, write = open_ends(self.streams, stream, self.start.terminal_before)
                    theirs.append(write)
                    number, held = self.channels.new(read, stream, asked.rank, attempt)
                    self._say({"channel": number, "held": held[1:]}, read)
                socket.send_fds(line, [b"1"], theirs)
            finally:
                for end in theirs:
                    os.close(end)

    def _type(self) -> None:
        """The user's keys, to the job."""
        keyboard, master = self.streams.keyboard, self.streams.master
        try:
            keys = os.read(keyboard, 1024) if keyboard is not None else b""
        except OSError:
            keys = b""
        if keys and master is not None:
            for name in special_keys(keys, master, self.job):
                self.typing = self.typing and name != "suspend"
                self._say({name: True})
            with contextlib.suppress(OSError):
                os.write(master, keys)
            self.channels.typed = time.monotonic()
        else:
            self.typing = False

    def _obey(self) -> None:
        """The supervisor speaks, or is gone: then the terminal is given back, and everything else goes on."""
        try:
            words = self.control.recv(64) if self.control is not None else b""
        except OSError:
            words = b""
        if b"n" in words or b"k" in words:
            self.typing = words.rfind(b"k") > words.rfind(b"n")
        self.hung_up = self.hung_up or b"h" in words
        if b"w" in words or b"k" in words:
            self._resize()
        if b"e" in words:  # the supervisor has collected the job: the keeper that started it was killed
            self._ended(0)
        if not words or b"q" in words:
            self.alone = not words
            self._left_at = time.monotonic()
            if self.alone and self.typing and self.streams.keyboard is not None:
                restore(self.streams.keyboard, self.start.terminal_before)
            elif self.alone:
                with contextlib.suppress(OSError):
                    os.killpg(self.job, signal.SIGCONT)  # whoever stopped it can no longer continue it
            self.typing = False
            if self.control is not None:
                self.control.close()
            self.control = None

    def _see_group_end(self) -> None:
        """Kill the job where the supervisor's whole process group was killed: the job would have been in it."""
        outlived, self._outlived = self._outlived, None
        if outlived is None:
            return
        killed = not os.read(outlived, 1)
        os.close(outlived)
        if not killed or self.status is not None:
            return
        if self.control is not None:  # which of the two is heard of first is chance
            poll = select.poll()
            poll.register(self.control, select.POLLIN)
            if poll.poll(_TOGETHER * 1000):
                self._obey()
        if self.alone and time.monotonic() - self._left_at < _TOGETHER:
            with contextlib.suppress(OSError):
                os.killpg(self.job, signal.SIGKILL)

    def _resize(self) -> None:
        terminal, master = self.streams.keyboard, self.streams.master
        if terminal is not None and master is not None:
            copy_size(terminal, master)
            for channel in self.channels.open.values():
                if self.streams.outputs[channel.held.stream].read == master != channel.held.read:
                    copy_size(terminal, channel.held.read)

    def _collect(self) -> None:
        """Wait for the job, and for whatever of it was left to us."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if not pid:
                return
            if pid == self.job:
                write_exit(self.folder, status)
                self._ended(status)

    @property
    def _orphaned(self) -> Adopted | None:
        """The job that neither we nor the supervisor, who is gone, can collect."""
        return self._adopted if self.control is None and self.status is None else None

    def _see_end(self) -> None:
        if self._orphaned is not None and self._orphaned.ended():
            status = self._orphaned.status()
            if status is not None:
                write_exit(self.folder, status)
            self._ended(status or 0)

    def _ended(self, status: int) -> None:
        self.status = status
        self.ended = self.channels.last_word = time.monotonic()

    def _finish(self) -> None:
        """Tell the supervisor once the last words are written; what outlives the job may go on writing."""
        if self.status is None or self._told:
            return
        now = time.monotonic()
        if not self.channels.open or now - self.channels.last_word > _LAST_WORDS or now - self.ended > _SETTLE:
            self.channels.flush(_SETTLE)
            self._told = True
            self._say({"status": self.status, "lost": self.channels.settle()})

    def _say(self, message: dict[str, object], descriptor: int | None = None) -> None:
        """A line for the supervisor; one that comes with a descriptor must reach it where there is one."""
        if self.control is None:
            return
        line = json.dumps(message).encode() + b"\n"
        if descriptor is not None:
            socket.send_fds(self.control, [line], [descriptor])
            return
        with contextlib.suppress(OSError):
            self.control.sendall(line)
