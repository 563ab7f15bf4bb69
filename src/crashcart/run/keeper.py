"""A small process between the job and the world, as tmux's server is: it starts the job, keeps its log and collects its end.

The supervisor may be killed and its terminal closed; the keeper goes on until the job has said its last word, and writes how
it ended. It does nothing else, so that nothing can go wrong with it.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import json
import os
import select
import shutil
import signal
import socket
import termios
import time
from typing import TYPE_CHECKING, Any, NamedTuple

from crashcart.inside.layout import JOB
from crashcart.run.keep import Kept, Shown
from crashcart.run.output import copy_size, restore
from crashcart.run.pages import clean_event
from crashcart.run.status import decoded

if TYPE_CHECKING:
    from collections.abc import Sequence

    from crashcart.run.output import Streams

__all__ = ["Keeper", "Start", "start_keeper", "write_exit"]

_IGNORED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2, signal.SIGPIPE)
_PIECE = 1 << 16
_SUBREAPER = 36
_LAST_WORDS = 0.3  # seconds of silence after the job's end that end the wait for its last words
_SETTLE = 2.0


class Keeper:
    """The loop of the keeper process; ``folder`` is the run's, ``control`` the socket to the supervisor."""

    def __init__(self, folder: str, streams: Streams, control: socket.socket, terminal_before: list[object] | None) -> None:
        self.folder = folder
        self.streams = streams
        self.control: socket.socket | None = control
        self.before = terminal_before
        logs = {name: Kept(os.path.join(folder, "logs", name)) for name in {one.log for one in streams.outputs}}
        self.outputs = {one.read: (logs[one.log], Shown(one.user)) for one in streams.outputs}
        self.job = 0
        self.status: int | None = None
        self.ended = 0.0
        self.last_word = 0.0
        self._told = False
        self.alone = False  # the supervisor is gone without a good-bye
        self.live = ""

    def run(self, job: int) -> None:
        """Copy until the job has ended and nothing more comes."""
        self.job = job
        self._say({"job": job})
        wake, waker = os.pipe()
        os.set_blocking(waker, False)
        signal.set_wakeup_fd(waker)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        self._collect()
        while self.outputs or self.status is None:
            readable = self._wait(wake)
            if wake in readable:
                os.read(wake, 4096)
                self._collect()
            if self.control is not None and self.control.fileno() in readable:
                self._obey()
            if self.streams.keyboard is not None and self.streams.keyboard in readable:
                self._type()
            for read in [one for one in self.outputs if one in readable]:
                self._copy(read)
            self._finish()
        self._finish()
        for log, shown in self.outputs.values():
            shown.close()
            log.close()
        if self.alone and self.live:
            rescue(self.live, os.path.join(self.folder, "recording", "inside"))

    def _wait(self, wake: int) -> set[int]:
        watched = [read for read, (_, shown) in self.outputs.items() if shown.has_room]
        watched.append(wake)
        if self.control is not None:
            watched.append(self.control.fileno())
        if self.streams.keyboard is not None and self.status is None:
            watched.append(self.streams.keyboard)
        behind = any(not shown.has_room for _, shown in self.outputs.values())
        timeout = 0.05 if behind or (self.status is not None and not self._told) else None
        poll = select.poll()
        for one in watched:
            poll.register(one, select.POLLIN)
        return {number for number, _ in poll.poll(None if timeout is None else timeout * 1000)}

    def _copy(self, read: int) -> None:
        log, shown = self.outputs[read]
        try:
            piece = os.read(read, _PIECE)
        except OSError:  # EIO: nobody holds the other side of the pseudo-terminal any more
            piece = b""
        if not piece:
            del self.outputs[read]
            shown.close()
            log.close()
            return
        self.last_word = time.monotonic()
        log.write(piece)
        shown.write(piece)

    def _type(self) -> None:
        """The user's keys, to the job."""
        keyboard, master = self.streams.keyboard, self.streams.master
        try:
            keys = os.read(keyboard, 1024) if keyboard is not None else b""
        except OSError:
            keys = b""
        if keys and master is not None:
            with contextlib.suppress(OSError):
                os.write(master, keys)
        else:
            self.streams = self.streams._replace(keyboard=None)

    def _obey(self) -> None:
        """The supervisor speaks, or is gone: then the terminal is given back, and everything else goes on."""
        try:
            words = self.control.recv(64) if self.control is not None else b""
        except OSError:
            words = b""
        if b"w" in words and self.streams.master is not None and self.streams.keyboard is not None:
            copy_size(self.streams.keyboard, self.streams.master)
        if not words or b"q" in words:
            self.alone = not words
            if not words and self.streams.keyboard is not None:
                restore(self.streams.keyboard, self.before)
            self.streams = self.streams._replace(keyboard=None)
            if self.control is not None:
                self.control.close()
            self.control = None

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
                self.status = status
                self.ended = self.last_word = time.monotonic()
                write_exit(self.folder, status)

    def _finish(self) -> None:
        """Tell the supervisor once the last words are written; what outlives the job may go on writing."""
        if self.status is None or self._told:
            return
        now = time.monotonic()
        if not self.outputs or now - self.last_word > _LAST_WORDS or now - self.ended > _SETTLE:
            for _, shown in self.outputs.values():
                shown.flush(_SETTLE)
            self._told = True
            self._say({"status": self.status})

    def _say(self, message: dict[str, int]) -> None:
        if self.control is not None:
            with contextlib.suppress(OSError):
                self.control.sendall(json.dumps(message).encode() + b"\n")


def rescue(live: str, kept: str) -> None:
    """Keep what the job's processes said about themselves, and give the memory it lay in back."""
    with contextlib.suppress(OSError):
        os.makedirs(kept, mode=0o700, exist_ok=True)
        for name in os.listdir(live):
            if name.endswith(".events"):
                with contextlib.suppress(OSError), open(os.path.join(live, name), "rb") as file:
                    lines = [event for line in file if (event := clean_event(line)) is not None]
                    with open(os.path.join(kept, name), "wb") as out:
                        out.write(b"".join(json.dumps(event).encode() + b"\n" for event in lines))
        shutil.rmtree(live, ignore_errors=True)


def write_exit(folder: str, status: int) -> None:
    """How the job ended, for everybody who comes later."""
    code, name = decoded(status)
    told = {"code": code, "signal": name, "time": time.time()}
    with contextlib.suppress(OSError):
        path = os.path.join(folder, "exit.json")
        with open(path + ".new", "w", encoding="utf-8") as file:
            json.dump(told, file)
        os.replace(path + ".new", path)


class Start(NamedTuple):
    """All that is needed to start a job."""

    folder: str
    command: Sequence[str]
    environment: dict[str, str]
    streams: Streams
    terminal_before: list[object] | None


def start_keeper(start: Start) -> tuple[int, socket.socket, OSError | None]:
    """Fork the keeper, which forks the job; the keeper's pid, the socket to it, and why the command could not be started."""
    ours, theirs = socket.socketpair()
    told, tell = os.pipe()
    keeper = os.fork()
    if keeper == 0:
        ours.close()
        os.close(told)
        with contextlib.suppress(BaseException):  # nothing may run twice in a forked copy of the supervisor
            _be_keeper(start, theirs, tell)
        os._exit(0)
    theirs.close()
    os.close(tell)
    with open(told, "rb") as pipe:
        problem = pipe.read()
    return keeper, ours, OSError(int(problem), os.strerror(int(problem))) if problem else None


def _be_keeper(start: Start, control: socket.socket, tell: int) -> None:
    signals = {number: signal.getsignal(number) for number in _IGNORED}
    os.setsid()
    ctypes.CDLL(None).prctl(_SUBREAPER, 1, 0, 0, 0)
    for number in _IGNORED:
        signal.signal(number, signal.SIG_IGN)
    job = os.fork()
    if job == 0:
        _be_job(start, signals, tell)
    os.close(tell)
    for end in start.streams.job_ends:
        os.close(end)
    keeper = Keeper(start.folder, start.streams, control, start.terminal_before)
    keeper.live = start.environment.get(JOB, "")
    keeper.run(job)


def _be_job(start: Start, signals: dict[signal.Signals, Any], tell: int) -> None:
    """Become the job: nothing of ours stays but the environment."""
    try:
        os.setsid()
        if start.streams.slave is not None:
            with contextlib.suppress(OSError):
                fcntl.ioctl(start.streams.slave, termios.TIOCSCTTY, 0)
        for number, end in enumerate(start.streams.job):
            os.dup2(end, number, inheritable=True)
        for number, handler in signals.items():
            signal.signal(number, handler if handler is signal.SIG_IGN else signal.SIG_DFL)
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        os.execvpe(start.command[0], list(start.command), start.environment)  # noqa: S606 - the user's own command
    except OSError as problem:
        os.write(tell, str(problem.errno or 1).encode())
    finally:
        os._exit(127)
