"""Two small processes that notice to whom a signal was sent: one in our process group, one in the job's.

Whoever signals a job signals its first process (``kill PID``, ``docker stop``), its process group (Ctrl-C, ``timeout``) or every
process that belongs to it (Slurm's ``proctrack/linuxproc``, systemd). The supervisor stands where the first process would stand,
and the job has a session of its own: of the three kinds only the last one reaches the job by itself. The signal that the
supervisor gets does not say which kind it was. But a process beside it gets the second and the third kind too, and a process
beside the job only the third.

A witness is a fork without an exec. It blocks every signal, holds nothing open but a socket to the supervisor, and ends when
that is closed. It is no child of the job, whose ``wait`` must not find it, and has no part of the job's environment.

None of our processes shows the job's command in its own, so ``pkill -f train.py`` finds what it would find without us, and so does a
script that asks ``pgrep`` whether it runs already. The job's witness is not called crashcart either: whoever ends that by its name
(``pkill crashcart``) means the job.

STOP is the one signal that the supervisor cannot pass on: it is stopped itself. So the job's witness looks twice a second whether
the supervisor is stopped, and stops the job as it would have been. CONT can be passed on.

KILL of the supervisor alone leaves the job running, which is a promise of ours. But KILL of our whole process group (``timeout
-k``, Slurm's ``proctrack/pgid``) would have killed the job: the keeper sees it by the witness beside us, which tells it when it has
outlived the supervisor, and tells nothing when it was killed too.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import signal
import socket
import struct
import time
from collections import deque
from typing import NamedTuple

from crashcart.run.suspending import group_members, process_state

__all__ = ["Notice", "Witness", "open_line", "start_beside_job", "start_beside_us", "take_name"]

_MESSAGE = struct.Struct("=iid")  # signal, sender, CLOCK_MONOTONIC; or one of the following, and the witness's own pid
_HELLO, _ANSWER = -1, 0
_SIGNALFD_INFO = struct.Struct("=IiiI112x")  # signal, errno, code, pid, ...: struct signalfd_siginfo of 128 bytes
_SIGSET_BYTES = 128
_PR_SET_NAME = 15
_ARGUMENTS_BEGIN = 45  # the field of /proc/PID/stat, counted from the state
_MOST_NOTICES = 256
_LOOK_SECONDS = 0.5
_SUSPENDED, _RESUMED, _END = b"s", b"r", b"q"
_KILL_SECONDS = 0.2  # in which somebody who kills first us and then our group has done both
_END_SECONDS = 1.0  # for a witness to be gone


class Notice(NamedTuple):
    """A signal that a witness got."""

    number: int
    sender: int
    moment: float  # CLOCK_MONOTONIC


class Witness:
    """The supervisor's end of a witness; without a ``line`` it never sees anything."""

    def __init__(self, line: socket.socket | None, child: int | None = None) -> None:
        self._line = line
        self.pid = child
        self.notices: deque[Notice] = deque(maxlen=_MOST_NOTICES)

    def ask(self, patience_seconds: float) -> None:
        """Take all notices of signals that were sent up to now, however busy the machine is."""
        if self._line is None:
            return
        deadline = time.monotonic() + patience_seconds
        try:
            self._line.send(b"?")
            answered = False
            while not answered:
                self._line.settimeout(max(0.001, deadline - time.monotonic()))
                answered = self._take(self._line.recv(_MESSAGE.size))
        except TimeoutError:
            pass
        except OSError:  # somebody killed it
            self.forget()

    def _take(self, message: bytes) -> bool:
        """Keep a notice; true for the answer to a question."""
        if not message:
            raise ConnectionResetError
        notice = Notice(*_MESSAGE.unpack(message))
        if notice.number > 0:
            self.notices.append(notice)
        else:
            self.pid = notice.sender
        return notice.number == _ANSWER

    def suspend(self, *, suspended: bool) -> None:
        """Say that the supervisor is about to stop itself, having seen to the job; or that it goes on."""
        if self._line is not None:
            with contextlib.suppress(OSError):
                self._line.send(_SUSPENDED if suspended else _RESUMED)

    def forget(self) -> None:
        """Close our copy of the line."""
        if self._line is not None:
            self._line.close()
            self._line = None

    def end(self) -> None:
        """Let the witness end, and wait for it."""
        if self._line is not None:
            self._line.settimeout(_END_SECONDS)
            with contextlib.suppress(ConnectionError):
                self._line.send(_END)
                try:
                    while True:
                        self._take(self._line.recv(_MESSAGE.size))
                except TimeoutError:  # somebody stopped it
                    if self.pid is not None:
                        os.kill(self.pid, signal.SIGKILL)
        self.forget()
        if self.pid is not None:
            with contextlib.suppress(ChildProcessError):  # it is the keeper's, as long as that is there
                os.waitpid(self.pid, 0)


def open_line() -> tuple[socket.socket, socket.socket]:
    """The two ends of a line between the supervisor and a witness."""
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)


def start_beside_us(outlived: int) -> Witness:
    """Start a witness in our own process group; it writes to ``outlived`` when the supervisor has gone without it."""
    ours, theirs = open_line()
    try:
        child = os.fork()
    except OSError:  # no process may be started: the job will say so itself
        ours.close()
        theirs.close()
        return Witness(None)
    if child == 0:
        _be_witness(theirs, outlived=outlived)
    theirs.close()
    return Witness(ours, child)


def start_beside_job(line: socket.socket, supervisor: int, beside_us: int | None) -> None:
    """Start a witness in the caller's process group that is a grandchild: the caller will become the job."""
    stops = _Stops(os.getpid(), supervisor, beside_us)
    try:
        between = os.fork()
    except OSError:
        return
    if between == 0:
        with contextlib.suppress(OSError):
            witness = os.fork()
            if witness == 0:
                with contextlib.suppress(Exception):
                    take_name("witness")
                _be_witness(line, stops)
            line.send(_MESSAGE.pack(_HELLO, witness, 0.0))
        os._exit(0)
    os.waitpid(between, 0)


class _Stops:
    """Stops the job when the supervisor was stopped: its first process, or its group where our whole group was stopped."""

    def __init__(self, job: int, supervisor: int, beside_us: int | None) -> None:
        self._job = job
        self._supervisor = supervisor
        self._beside_us = beside_us
        self._seen_stopped = 0.0  # CLOCK_MONOTONIC of the look before, if it found the supervisor stopped
        self._done = False
        self.suspended = False

    def look(self) -> None:
        now = time.monotonic()
        if self.suspended or process_state(self._supervisor) != "T":
            self._seen_stopped, self._done = 0.0, False
            return
        # Everybody was stopped and is being continued, us first: not until a second look that comes soon after the first.
        if not self._done and now - self._seen_stopped < 4 * _LOOK_SECONDS:
            self._done = True
            group = self._beside_us is not None and process_state(self._beside_us) == "T"
            for pid in group_members(self._job) if group else [self._job]:
                if pid != os.getpid():
                    with contextlib.suppress(OSError):
                        os.kill(pid, signal.SIGSTOP)
        self._seen_stopped = now


def _be_witness(line: socket.socket, stops: _Stops | None = None, outlived: int | None = None) -> None:
    """Tell what arrives until nobody listens; never returns."""
    try:
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        _close_all_but({line.fileno(), outlived})
        os.chdir("/")
        signals = _open_signalfd()
        poll = select.poll()
        poll.register(signals, select.POLLIN)
        poll.register(line, select.POLLIN)
        while True:
            ready = {number for number, _ in poll.poll(_LOOK_SECONDS * 1000 if stops is not None else None)}
            if signals in ready:
                info = _SIGNALFD_INFO.unpack(os.read(signals, _SIGNALFD_INFO.size))
                line.send(_MESSAGE.pack(info[0], info[3], time.monotonic()), socket.MSG_DONTWAIT)
            elif line.fileno() in ready:  # only when every signal has been told
                words = line.recv(16)
                if not words:
                    if outlived is not None:
                        time.sleep(_KILL_SECONDS)
                        os.write(outlived, b"o")
                    break
                if words == _END:
                    break
                if words in {_SUSPENDED, _RESUMED} and stops is not None:
                    stops.suspended = words == _SUSPENDED
                else:
                    line.send(_MESSAGE.pack(_ANSWER, os.getpid(), 0.0))
            elif stops is not None:
                stops.look()
    except BaseException:  # noqa: BLE001, S110 - a fork of the supervisor must not go on as one
        pass
    finally:
        os._exit(0)


def _close_all_but(kept: set[int | None]) -> None:
    try:
        numbers = [int(name) for name in os.listdir("/proc/self/fd")]
    except OSError:
        numbers = list(range(256))
    for number in numbers:
        if number not in kept:
            with contextlib.suppress(OSError):
                os.close(number)


def _open_signalfd() -> int:
    libc = ctypes.CDLL(None, use_errno=True)
    every = ctypes.create_string_buffer(_SIGSET_BYTES)
    libc.sigfillset(every)
    number = int(libc.signalfd(-1, every, 0))
    if number < 0:
        raise OSError(ctypes.get_errno(), "signalfd")
    return number


def take_name(*words: str) -> None:
    """Show these words as our name and command line, as far as there is room."""
    libc = ctypes.CDLL(None)
    libc.prctl(_PR_SET_NAME, words[0].encode()[:15], 0, 0, 0)
    with open("/proc/self/cmdline", "rb") as file:
        room = len(file.read())
    with open("/proc/self/stat", "rb") as file:
        begin = int(file.read().rpartition(b")")[2].split()[_ARGUMENTS_BEGIN])
    line = b"\0".join(word.encode() for word in words)[: room - 1]
    if begin:
        ctypes.memmove(begin, line + bytes(room - len(line)), room)
