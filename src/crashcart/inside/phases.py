"""What the training thread is doing: a lasting phase (start-up, train, evaluate) and short ones on top of it.

Other threads do not count: a checkpoint that a background thread writes does not stop the training. The training thread is the
main thread until another one makes an optimizer step.

The page is read while it is written. So a phase is shown after the time since when it lasts, and that of the phase below only
after its name: whoever reads in between sees a phase that has just begun, never one that seems to last for hours.
"""

from __future__ import annotations

import time
from _thread import get_ident

from . import events, layout, page
from .mistakes import Hook

TYPE_CHECKING = False  # not from typing: see last_words
if TYPE_CHECKING:
    from typing import Any

START_UP, TRAIN, EVALUATE, SAMPLE, CHECKPOINT, DATA, COLLECTIVE, TRACKER, LOAD, COMPILE, EXIT = range(len(layout.PHASES))
_EVAL_BATCHES = page.at("eval_batches")
_BEATS, _PHASE, _SINCE, _PROGRESS = page.BEATS, page.PHASE, page.PHASE_SINCE, page.PROGRESS
NOT_ENTERED = (-1, 0.0)
_monotonic = time.monotonic
_here = page.here
_settling = Hook("end of an evaluation")


class _Now:
    __slots__ = ("batches", "lasting", "module", "since", "thread")

    def __init__(self) -> None:
        self.renew()

    def renew(self) -> None:
        """As at the start of a process."""
        self.lasting: int = START_UP
        self.since = _monotonic()
        self.batches = 0.0
        self.thread = get_ident()
        self.module: Any = None  # a weak reference to what was set to `eval()`


now = _Now()
page.after_fork.append(now.renew)
page.map_page()  # from here on something is counted


def enter(phase: int) -> tuple[int, float]:
    """Begin a short phase; what it gives back goes to `leave`."""
    here = _here
    numbers = here.numbers
    began = _monotonic()
    here.beats += 1
    numbers[_BEATS] = here.beats
    if get_ident() != now.thread:
        return (-1, began)
    if now.lasting == EVALUATE:
        settle()
    before = here.phase
    here.phase = phase
    here.since = numbers[_SINCE] = began
    numbers[_PHASE] = phase
    return (before, began)


def leave(mark: tuple[int, float]) -> float:
    """End a short phase and go back to the one before; gives the seconds it took."""
    ended = _monotonic()
    before = mark[0]
    if before >= 0:
        here = _here
        numbers = here.numbers
        if before <= EVALUATE:  # a lasting one may have changed in between
            here.phase = numbers[_PHASE] = now.lasting
            here.since = numbers[_SINCE] = now.since
        else:
            here.phase = numbers[_PHASE] = before
            here.since = numbers[_SINCE] = ended
        numbers[_PROGRESS] = ended
    return ended - mark[1]


def last(phase: int, by: str) -> None:
    """Change the lasting phase: `by` says what showed it."""
    before = now.lasting
    if before == phase or get_ident() != now.thread:
        return
    numbers = _here.numbers
    moment = _monotonic()
    batches, seconds = numbers[_EVAL_BATCHES] - now.batches, moment - now.since
    now.lasting, now.since, now.batches, now.module = phase, moment, numbers[_EVAL_BATCHES], None
    if _here.phase <= EVALUATE:
        _here.phase, _here.since = phase, moment
        numbers[_SINCE] = moment
        numbers[_PHASE] = phase
    numbers[_PROGRESS] = moment
    if before == EVALUATE:
        told(EVALUATE, "end", by=by, seconds=round(seconds, 3), batches=int(batches))
    elif phase == EVALUATE:
        told(EVALUATE, "begin", by=by)


def settle() -> None:
    """Notice that an evaluation is over: what was set to `eval()` is in training again.

    Nobody tells us when that happens: `train()` comes to every module of a model, before every step where a trainer does so,
    and a wrapper around it costs with each of them. So it is looked at when something else happens.
    """
    try:
        if now.lasting == EVALUATE and now.module is not None and _settling.on:
            module = now.module()
            if module is not None and module.training:
                last(TRAIN, "train()")
    except Exception:
        _settling.failed()


page.before_leaving.append(settle)


def told(phase: int, edge: str, **fields: object) -> None:
    """Write the begin or the end of a rare phase as an event."""
    events.write("phase", phase=layout.PHASES[phase], edge=edge, step=int(page.here.numbers[page.STEPS]), **fields)


def name() -> str:
    """The present phase in words."""
    settle()
    return layout.PHASES[page.here.phase]
