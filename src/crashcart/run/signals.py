"""Signals that the supervisor gets, and their way to the job: each reaches exactly those whom it would have reached without us.

A thread takes them, so that none is lost and nothing is interrupted, and passes them on, so that neither a slow disk nor a long
look delays them. The supervisor stands where the job's first process would stand, and the job has a process group of its own.
Two witnesses (``witness.py``) tell who else got a signal:

| got it                      | was sent to           | is passed on to            |
|-----------------------------|-----------------------|----------------------------|
| the supervisor alone        | the first process     | the job's first process    |
| and the witness beside us   | our process group     | the job's process group    |
| and the witness of the job  | everybody             | nobody: the job has it     |

Not passed on are: what the kernel tells us about ourselves (a timer, a limit), Ctrl-Z where a shell can resume us (the job is then
stopped with us), and the hang-up of a closed terminal, which a job under ``run`` survives on purpose. The first process of a
container (pid 1) gets only what it has a handler for; where that would have been the job, the job gets no more either.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, NamedTuple

from crashcart.run.suspending import can_be_resumed, disposition, group_members, parent_of
from crashcart.run.terminal import has_controlling_terminal

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.run.witness import Notice, Witness

__all__ = ["Arrival", "Delivery", "Signals", "Target", "signal_name"]

# KILL and STOP cannot be taken. CHLD, PIPE, TTIN and TTOU are about our own children, readers and terminal.
TAKEN = signal.valid_signals() - {
    signal.SIGKILL, signal.SIGSTOP, signal.SIGCHLD, signal.SIGPIPE, signal.SIGTTIN, signal.SIGTTOU,
}  # fmt: skip
_FROM_TERMINAL = {
    signal.SIGINT, signal.SIGQUIT, signal.SIGTSTP, signal.SIGHUP, signal.SIGCONT, signal.SIGWINCH,
}  # fmt: skip
_WITHIN_SECONDS = 0.2  # in which somebody who signals many processes has signalled them all
_SAME_SENDER_SECONDS = 10.0  # by which we may be later than a witness, where both name the same sender
_PATIENCE_SECONDS = 2.0  # for the answer of a witness
_INIT = 1


def signal_name(number: int) -> str:
    """``SIGTERM``; most real-time signals have numbers only."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _process_name(pid: int) -> str:
    """What a process calls itself; nothing where it is gone, the kernel, or outside our container."""
    try:
        with open(f"/proc/{pid}/comm", encoding="ascii", errors="replace") as file:
            return file.read().strip()
    except OSError:
        return ""


class Arrival(NamedTuple):
    """A signal that the supervisor got."""

    number: int
    sender: int
    sender_name: str
    by_kernel: bool
    moment: float  # CLOCK_MONOTONIC
    time: float


class Delivery(NamedTuple):
    """What was decided about an arrival: it went to ``process``, ``group`` or ``nobody``, and why to nobody."""

    arrival: Arrival
    to: str
    reason: str = ""


class Target(NamedTuple):
    """Where the signals of one job go, and who sees where they went."""

    job: int
    has_own_terminal: bool
    beside_us: Witness
    beside_job: Witness


class Signals:
    """All signals of this process; ``wake`` becomes readable when one has come, or when ``waker`` was written to."""

    def __init__(self) -> None:
        self.wake, self.waker = os.pipe()
        self.mask_before: set[Any] = set()  # as our caller left it, and as the job gets it
        self._queue: SimpleQueue[Arrival | Delivery] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._target: Target | None = None
        self._lock = threading.Lock()
        self._had_terminal = has_controlling_terminal()
        self._shells = _ancestors_in_session()

    def block(self) -> None:
        """From here on they wait for us; before anything is forked."""
        before = signal.pthread_sigmask(signal.SIG_BLOCK, TAKEN)
        if self._thread is None:
            self.mask_before = before

    def start(self, target: Target) -> None:
        """Begin to pass signals on to a job."""
        with self._lock:
            self._target = target
        if self._thread is None:
            self._thread = threading.Thread(target=self._take, name="signals", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """The job has ended: let its witnesses end too."""
        with self._lock:
            target, self._target = self._target, None
        if target is not None:
            target.beside_us.end()
            target.beside_job.end()

    def heard(self) -> Iterator[Arrival | Delivery]:
        """What has come, and what was done about it."""
        while not self._queue.empty():
            yield self._queue.get()

    def is_hang_up(self, arrival: Arrival) -> bool:
        """Whether it tells of a closed terminal: from the kernel, or from a shell above us that has lost its terminal too."""
        if arrival.number != signal.SIGHUP:
            return False
        return arrival.by_kernel or (
            arrival.sender in self._shells and self._had_terminal and not has_controlling_terminal()
        )

    def _take(self) -> None:
        undecided: list[Arrival] = []
        while True:
            wait_seconds = undecided[0].moment + _WITHIN_SECONDS - time.monotonic() if undecided else None
            if wait_seconds is None:
                info = signal.sigwaitinfo(TAKEN)
            elif wait_seconds <= 0:
                self._decide(undecided.pop(0))
                continue
            elif (found := signal.sigtimedwait(TAKEN, wait_seconds)) is None:
                continue
            else:
                info = found
            name = _process_name(info.si_pid)  # at once: a sender may be short-lived
            by_kernel = info.si_code > 0
            arrival = Arrival(info.si_signo, info.si_pid, name, by_kernel, time.monotonic(), time.time())
            self._tell(arrival)
            if not self._is_ours(arrival):
                undecided.append(arrival)

    def _is_ours(self, arrival: Arrival) -> bool:
        """Whether it is nothing for the job, or the supervisor's own loop deals with it."""
        if arrival.by_kernel and arrival.number not in _FROM_TERMINAL:
            return True
        if arrival.number == signal.SIGINT:  # a key that the job's own terminal has given it
            return arrival.sender == os.getpid()
        if arrival.number == signal.SIGWINCH:
            return arrival.by_kernel and self._target is not None and self._target.has_own_terminal
        return arrival.number == signal.SIGTSTP and can_be_resumed()

    def _decide(self, arrival: Arrival) -> None:
        with self._lock:
            delivery = self._deliver(arrival)
        self._tell(delivery)

    def _deliver(self, arrival: Arrival) -> Delivery:
        target = self._target
        if target is None:
            return Delivery(arrival, "nobody", "no job")
        target.beside_us.ask(_PATIENCE_SECONDS)
        target.beside_job.ask(_PATIENCE_SECONDS)
        group_has_it = _saw(target.beside_us, arrival)
        if _saw(target.beside_job, arrival):
            return Delivery(arrival, "nobody", "the job has it")
        if self.is_hang_up(arrival):
            return Delivery(arrival, "nobody", "closed terminal")
        spared = os.getpid() == _INIT and disposition(target.job, arrival.number) == "default"
        if group_has_it:
            _signal_group(target.job, arrival.number, spare_leader=spared)
            return Delivery(arrival, "group")
        if spared:
            return Delivery(arrival, "nobody", "pid 1 has no handler")
        with contextlib.suppress(OSError):
            os.kill(target.job, arrival.number)
        return Delivery(arrival, "process")

    def _tell(self, what: Arrival | Delivery) -> None:
        self._queue.put(what)
        with contextlib.suppress(OSError):
            os.write(self.waker, b"s")


def _signal_group(group: int, number: int, *, spare_leader: bool) -> None:
    if not spare_leader:
        with contextlib.suppress(OSError):
            os.killpg(group, number)
        return
    for pid in group_members(group):
        if pid != group:
            with contextlib.suppress(OSError):
                os.kill(pid, number)


def _saw(witness: Witness, arrival: Arrival) -> bool:
    """Whether a witness got the same signal; each of its notices stands for one arrival."""
    found = next((notice for notice in witness.notices if _is_same(notice, arrival)), None)
    if found is not None:
        witness.notices.remove(found)
    return found is not None


def _is_same(notice: Notice, arrival: Arrival) -> bool:
    if notice.number != arrival.number or notice.sender == os.getpid():
        return False
    same_sender = bool(notice.sender) and notice.sender == arrival.sender
    return notice.moment >= arrival.moment - (_SAME_SENDER_SECONDS if same_sender else _WITHIN_SECONDS)


def _ancestors_in_session() -> set[int]:
    """The shells that started us: a shell whose terminal is closed tells its jobs."""
    found: set[int] = set()
    with contextlib.suppress(OSError, ValueError, IndexError):
        pid = os.getppid()
        while pid > 0 and os.getsid(pid) == os.getsid(0):
            found.add(pid)
            pid = parent_of(pid)
    return found
