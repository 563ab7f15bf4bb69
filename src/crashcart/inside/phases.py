"""What the training thread is doing: a lasting phase (start-up, train, evaluate) and short ones on top of it.

Other threads do not count: a checkpoint that a background thread writes does not stop the training. The training thread is the
main thread until another one makes an optimizer step.
"""

from __future__ import annotations

import time
from _struct import Struct
from _thread import get_ident

from . import events, layout, page

START_UP, TRAIN, EVALUATE, SAMPLE, CHECKPOINT, DATA, COLLECTIVE, TRACKER, LOAD, COMPILE, EXIT = range(len(layout.PHASES))
_EVAL_BATCHES = page.at("eval_batches")
_PROGRESS = page.PROGRESS
# beats, phase and phase_since stand side by side in the page: one call writes them.
show = Struct("3d").pack_into
_FROM = page.BEATS * 8
_monotonic = time.monotonic


class _Now:
    __slots__ = ("batches", "lasting", "since", "thread")

    def __init__(self) -> None:
        self.renew()

    def renew(self) -> None:
        """As at the start of a process."""
        self.lasting: int = START_UP
        self.since = _monotonic()
        self.batches = 0.0
        self.thread = get_ident()


now = _Now()
page.after_fork.append(now.renew)


def enter(phase: int) -> tuple[int, float]:
    """Begin a short phase; what it gives back goes to `leave`."""
    here = page.here
    began = _monotonic()
    here.beats += 1
    if get_ident() != now.thread:
        return (-1, began)
    before = here.phase
    here.phase = phase
    here.since = began
    show(here.mapping, _FROM, here.beats, phase, began)
    return (before, began)


def leave(mark: tuple[int, float]) -> float:
    """End a short phase and go back to the one before; gives the seconds it took."""
    ended = _monotonic()
    before = mark[0]
    if before >= 0:
        here = page.here
        if before <= EVALUATE:  # a lasting one may have changed in between
            here.phase = now.lasting
            here.since = now.since
        else:
            here.phase = before
            here.since = ended
        show(here.mapping, _FROM, here.beats, here.phase, here.since)
        here.numbers[_PROGRESS] = ended
    return ended - mark[1]


def last(phase: int, by: str) -> None:
    """Change the lasting phase: `by` says what showed it."""
    before = now.lasting
    if before == phase or get_ident() != now.thread:
        return
    numbers = page.here.numbers
    moment = _monotonic()
    batches, seconds = numbers[_EVAL_BATCHES] - now.batches, moment - now.since
    now.lasting, now.since, now.batches = phase, moment, numbers[_EVAL_BATCHES]
    if page.here.phase <= EVALUATE:
        page.here.phase, page.here.since = phase, moment
        show(page.here.mapping, _FROM, page.here.beats, phase, moment)
    numbers[_PROGRESS] = moment
    if before == EVALUATE:
        told(EVALUATE, "end", by=by, seconds=round(seconds, 3), batches=int(batches))
    elif phase == EVALUATE:
        told(EVALUATE, "begin", by=by)


def told(phase: int, edge: str, **fields: object) -> None:
    """Write the begin or the end of a rare phase as an event."""
    events.write("phase", phase=layout.PHASES[phase], edge=edge, step=int(page.here.numbers[page.STEPS]), **fields)


def name() -> str:
    """The present phase in words."""
    return layout.PHASES[page.here.phase]
