"""How long a piece of work may take, so that no input keeps the answer back.

Readers, rules and causes get shares of processor time; what does not end in its share is left out, and the answer says so. It is the
processor time of the thread and not the clock that counts: a busy machine must not cost an answer.

Time is noticed in two ways. Loops ask (``check``). And where the command line has said so (``interrupting``), a timer interrupts
whatever runs in the main thread, also a regular expression. As a library, in other threads and in `crashcart run` only loops ask.
An answer has a time for all of its parts ``together``: every share is cut to what is left of it, and no further job begins when its
time or its memory is used up (``is_spent``). So many jobs, or many parts that each need all of their share, end like one.
The timer does nothing while no share is being used, so that files are never half written. What neither asks nor can be interrupted,
as code in C that holds the interpreter, is tried in a child first (``ends_in_time``).
"""

from __future__ import annotations

import os
import time
from _thread import _local  # threading itself takes longer to import than all of this
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

from crashcart.errors import CommandError, our_errors
from crashcart.numbers import to_count

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = [
    "ANSWER_SECONDS",
    "Allowance",
    "OutOfTime",
    "TookTooLongError",
    "attempt",
    "check",
    "ends_in_time",
    "grown_bytes",
    "guarded",
    "interrupting",
    "is_spent",
    "limited",
    "note_memory",
    "resident_bytes",
    "spent",
    "together",
    "too_long",
]

Result = TypeVar("Result")
_TICK_SECONDS = 0.05
_GRACE_SECONDS = 0.5
_LEAST_SECONDS = 0.02  # of a part that begins when the time of all together is up
_LATE_SECONDS = 0.1
ANSWER_SECONDS = 4.2  # of processor time for reading and judging jobs, whatever was named; what is left out is said
_MOST_GROWN = 64 << 20  # bytes that all parts may have taken when another begins


class OutOfTime(BaseException):
    """Raised in the midst of work whose time is up; no handler for errors must stop it on its way."""

    def __init__(self, limit: _Limit) -> None:
        super().__init__(too_long(limit.seconds))
        self.limit = limit


class _Limit:
    """When a piece of work must have ended, in processor time of its thread."""

    __slots__ = ("ends", "seconds")

    def __init__(self, seconds: float) -> None:
        self.seconds = _left_of(seconds)
        self.ends = spent() + self.seconds


class _Running(_local):
    """The limits of what runs now in this thread, the widest first, and the time of children that worked for it."""

    def __init__(self) -> None:
        self.limits: list[_Limit] = []
        self.children_seconds = 0.0
        self.next_look = 0.0  # before this moment no limit can be reached: a thread has no more processor time than passes
        self.bytes_before = 0
        self.all_end: float | None = None  # of all parts together
        self.all_bytes = 0  # before the first of them


_running = _Running()


def spent() -> float:
    """Processor time of this thread so far, and of the children that worked for it."""
    return time.thread_time() + _running.children_seconds


@contextmanager
def together(seconds: float) -> Iterator[None]:
    """All parts of this piece of work have so much time together, and never more than the piece that it is a part of."""
    before = _running.all_end, _running.all_bytes
    end = spent() + seconds
    _running.all_end = end if before[0] is None else min(end, before[0])
    _running.all_bytes = resident_bytes()
    try:
        yield
    finally:
        _running.all_end, _running.all_bytes = before


def is_spent() -> bool:
    """Whether the time or the memory for all parts together is used up, so that no further one should begin."""
    if _running.all_end is None:
        return False
    return spent() > _running.all_end - _LATE_SECONDS or resident_bytes() - _running.all_bytes > _MOST_GROWN


def _left_of(seconds: float) -> float:
    """A share, as far as the time of all together allows."""
    return seconds if _running.all_end is None else min(seconds, max(_LEAST_SECONDS, _running.all_end - spent()))


def check() -> None:
    """Raise ``OutOfTime`` where the time of the work around this call is up; loops over what comes from outside call it."""
    limits = _running.limits
    if limits and time.monotonic() >= _running.next_look:
        now = spent()
        for limit in limits:
            if now > limit.ends:
                limit.ends = now + _GRACE_SECONDS  # the way out must not be interrupted again
                raise OutOfTime(limit)
        _running.next_look = time.monotonic() + min(limit.ends for limit in limits) - now


def attempt(task: Callable[[], Result], seconds: float, otherwise: Result) -> tuple[Result, bool]:
    """What the task returns, and whether it ended in that many seconds; ``otherwise`` where it did not."""
    limit = _Limit(seconds)
    limits = _running.limits
    before = len(limits)
    try:
        limits.append(limit)
        _running.next_look = 0.0
        result = task()
        del limits[before:]
    except OutOfTime as late:
        del limits[before:]
        if late.limit is not limit:
            raise
        return otherwise, False
    except BaseException:
        del limits[before:]
        raise
    return result, True


class Allowance:
    """Seconds for many tasks: each gets a share, and all together no more than the whole."""

    def __init__(self, seconds: float, share: float) -> None:
        self.left = seconds
        self.share = share

    def attempt(self, task: Callable[[], Result], otherwise: Result) -> tuple[Result, bool]:
        """As ``attempt``, with what is left."""
        if self.left <= 0:
            return otherwise, False
        start = spent()
        try:
            return attempt(task, min(self.share, self.left), otherwise)
        finally:
            self.left -= spent() - start


class TookTooLongError(CommandError):
    """An input that was not read to its end; the rest of the answer does not depend on it."""


def limited(task: Callable[[], Result], seconds: float, what: str = "reading it") -> Result:
    """What the task returns; ``TookTooLongError`` where its time was up."""
    results: list[Result] = []
    _, in_time = attempt(lambda: results.append(task()), seconds, None)
    if not in_time:
        raise TookTooLongError(f"{what} {too_long(seconds)}")
    return results[0]


def guarded(
    what: str,
    note: Callable[[str, str, str], None],
    task: Callable[[], Result],
    seconds: float | Allowance,
    otherwise: Result,
) -> Result:
    """What the task returns; where it fails or takes too long, ``note`` takes a line for the user and ``otherwise`` is returned."""
    allowance = seconds if isinstance(seconds, Allowance) else Allowance(seconds, seconds)
    with our_errors(what, note):
        share = min(allowance.share, allowance.left)
        is_cut = _left_of(share) < share / 2
        result, in_time = allowance.attempt(task, otherwise)
        if not in_time:
            note(what, too_long(share) if share > 0 and not is_cut else "the other parts took too long", "")
        return result
    return otherwise


def ends_in_time(task: Callable[[], object], seconds: float) -> bool:
    """Whether a task without effects ends in so much processor time: a child tries it, and the kernel ends the child if not.

    Its errors count as an end. Where there can be no child, the task is taken to end.
    """
    import signal

    try:
        child = os.fork()
    except OSError:
        return True
    if not child:
        try:
            signal.signal(signal.SIGVTALRM, signal.SIG_DFL)
            signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
            task()
        finally:
            os._exit(0)
    _, status, used = os.wait4(child, 0)
    _running.children_seconds += used.ru_utime + used.ru_stime
    _running.next_look = 0.0
    return not os.WIFSIGNALED(status)


def too_long(seconds: float) -> str:
    """Why something was not checked."""
    return f"took longer than {seconds:.2g} s"


@contextmanager
def interrupting() -> Iterator[None]:
    """Let a timer end work that does not ask; elsewhere than in the main thread this changes nothing."""
    import signal

    try:
        previous = signal.signal(signal.SIGPROF, lambda _number, _frame: check())
    except ValueError:
        yield
        return
    signal.setitimer(signal.ITIMER_PROF, _TICK_SECONDS, _TICK_SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, previous or signal.SIG_DFL)


def note_memory() -> None:
    """A call of ours begins: ``grown_bytes`` counts from here."""
    _running.bytes_before = resident_bytes()


def grown_bytes() -> int:
    """How much memory was taken since the call began; 0 outside any."""
    return resident_bytes() - _running.bytes_before if _running.bytes_before else 0


def resident_bytes() -> int:
    """How much memory this process takes now; 0 where the kernel does not say."""
    try:
        with open("/proc/self/statm", "rb") as file:
            pages = to_count(file.read().split()[1].decode())
    except (OSError, IndexError, UnicodeDecodeError):
        return 0
    return (pages or 0) * os.sysconf("SC_PAGE_SIZE")
