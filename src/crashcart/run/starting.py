"""Starts a job: the supervisor forks the keeper, and the keeper forks the job."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import os
import signal
import socket
import termios
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from crashcart.inside.layout import JOB
from crashcart.run.channels import Held
from crashcart.run.keeper import Keeper
from crashcart.run.witness import Witness, open_line, start_beside_job, start_beside_us

if TYPE_CHECKING:
    from collections.abc import Sequence
    from collections.abc import Set as AbstractSet

    from crashcart.run.output import Streams

__all__ = ["CANNOT_START", "Start", "Started", "exec_command", "start_keeper"]

CANNOT_START = {errno.ENOENT: 127, errno.EACCES: 126, errno.ENOEXEC: 126}  # as shells tell it

_IGNORED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2, signal.SIGPIPE)
_SUBREAPER = 36
_CHANGED_BY_PYTHON = (signal.SIGPIPE, signal.SIGXFSZ)  # ignored from its start, which no other program does


class Start(NamedTuple):
    """All that is needed to start a job."""

    folder: str
    command: Sequence[str]
    environment: dict[str, str]
    streams: Streams
    terminal_before: list[object] | None
    listener: socket.socket | None = None
    typing: bool = False  # whether the user's keys are the job's
    mask: AbstractSet[int] = frozenset()  # the signals that our caller had blocked

    @property
    def live(self) -> str:
        """The folder in which the job's processes write about themselves."""
        return self.environment.get(JOB, "")

    @property
    def held(self) -> dict[int, Held]:
        """The channels that a job begins with: its own streams."""
        return {number: Held(one.read, number) for number, one in enumerate(self.streams.outputs)}


class _BesideJob(NamedTuple):
    """What the job's witness needs: its line to the supervisor, and whom it looks at."""

    line: socket.socket
    supervisor: int
    beside_us: int | None


class Started(NamedTuple):
    """What start_keeper() has started; ``problem`` says why the command could not be."""

    keeper: int
    control: socket.socket
    beside_us: Witness
    beside_job: Witness
    outlived: int  # readable when the witness beside us has outlived the supervisor, or has ended
    problem: OSError | None


def start_keeper(start: Start) -> Started:
    """Start the witnesses and fork the keeper, which forks the job."""
    outlived, outlived_theirs = os.pipe()
    beside_us = start_beside_us(outlived_theirs)
    os.close(outlived_theirs)
    ours, theirs = socket.socketpair()
    witness_ours, witness_theirs = open_line()
    told, tell = os.pipe()
    supervisor = os.getpid()
    keeper = os.fork()
    if keeper == 0:
        beside_us.forget()
        witness_ours.close()
        ours.close()
        os.close(told)
        with contextlib.suppress(BaseException):  # nothing may run twice in a forked copy of the supervisor
            _be_keeper(start, theirs, tell, _BesideJob(witness_theirs, supervisor, beside_us.pid), outlived)
        os._exit(0)
    theirs.close()
    witness_theirs.close()
    os.close(tell)
    with open(told, "rb") as pipe:
        number = pipe.read()
    problem = OSError(int(number), os.strerror(int(number))) if number else None
    return Started(keeper, ours, beside_us, Witness(witness_ours), outlived, problem)


def _be_keeper(start: Start, control: socket.socket, tell: int, witness: _BesideJob, outlived: int) -> None:
    signals = {number: signal.getsignal(number) for number in _IGNORED}
    os.setsid()
    ctypes.CDLL(None).prctl(_SUBREAPER, 1, 0, 0, 0)
    for number in _IGNORED:
        signal.signal(number, signal.SIG_IGN)
    job = os.fork()
    if job == 0:
        _be_job(start, signals, tell, witness)
    os.close(tell)
    witness.line.close()
    for end in start.streams.job_ends:
        os.close(end)
    Keeper(start, control, start.held, outlived).run(job)


def _be_job(start: Start, signals: dict[signal.Signals, Any], tell: int, witness: _BesideJob) -> None:
    """Become the job: nothing of ours stays but the environment."""
    try:
        os.setsid()
        # Before there is a terminal that it would have a part in.
        start_beside_job(witness.line, witness.supervisor, witness.beside_us)
        if start.streams.slave is not None:
            with contextlib.suppress(OSError):
                fcntl.ioctl(start.streams.slave, termios.TIOCSCTTY, 0)
        for number, end in enumerate(start.streams.job):
            os.dup2(end, number, inheritable=True)
        for number, handler in signals.items():
            signal.signal(number, handler if handler is signal.SIG_IGN else signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, start.mask)
        exec_command(start.command, start.environment)
    except OSError as problem:
        os.write(tell, str(problem.errno or 1).encode())
    finally:
        os._exit(127)


def exec_command(command: Sequence[str], environment: dict[str, str]) -> NoReturn:
    """Become the user's command; raises ``OSError`` where it cannot be started."""
    for number in _CHANGED_BY_PYTHON:
        signal.signal(number, signal.SIG_DFL)
    os.execvpe(command[0], list(command), environment)  # noqa: S606 - the user's own command
