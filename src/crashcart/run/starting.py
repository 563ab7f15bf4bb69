"""Starts a job: the supervisor forks the keeper, and the keeper forks the job."""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import signal
import socket
import termios
from typing import TYPE_CHECKING, Any, NamedTuple

from crashcart.inside.layout import JOB
from crashcart.run.channels import Held
from crashcart.run.keeper import Keeper

if TYPE_CHECKING:
    from collections.abc import Sequence

    from crashcart.run.output import Streams

__all__ = ["Start", "start_keeper"]

_IGNORED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2, signal.SIGPIPE)
_SUBREAPER = 36


class Start(NamedTuple):
    """All that is needed to start a job."""

    folder: str
    command: Sequence[str]
    environment: dict[str, str]
    streams: Streams
    terminal_before: list[object] | None
    listener: socket.socket | None = None
    typing: bool = False  # whether the user's keys are the job's

    @property
    def live(self) -> str:
        """The folder in which the job's processes write about themselves."""
        return self.environment.get(JOB, "")

    @property
    def held(self) -> dict[int, Held]:
        """The channels that a job begins with: its own streams."""
        return {number: Held(one.read, number) for number, one in enumerate(self.streams.outputs)}


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
    Keeper(start, control, start.held).run(job)


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
