"""The uncaught exception: where, and the shapes of what it met; then the program's own hook as before.

A program that puts its own hook in the place of ours is asked again at exit: the interpreter keeps the last exception.
"""

from __future__ import annotations

import sys

from . import our_frames, page
from .mistakes import Hook

TYPE_CHECKING = False  # importing typing would cost a third of our start-up
if TYPE_CHECKING:
    from types import TracebackType

_recorded: list[int] = []
_hook = Hook("uncaught exception")


def watch() -> None:
    """Stand in front of the hook that is there, and look once more at exit."""
    import atexit

    before = sys.excepthook

    def excepthook(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        record(error, trace)
        before(kind, error, without_ours(trace))

    if before is sys.__excepthook__:  # some programs ask whether somebody has put another hook there
        sys.__excepthook__ = excepthook
    sys.excepthook = excepthook
    atexit.register(_at_exit)
    page.after_fork.append(_recorded.clear)


def record(error: BaseException, trace: TracebackType | None, thread: str = "") -> None:
    """Write the event, once for each exception; never raises."""
    try:
        if error is None or id(error) in _recorded:
            return
        _recorded.append(id(error))
        from . import last_words

        last_words.write(error, trace, thread)
    except Exception:
        _hook.failed()


def without_ours(trace: TracebackType | None) -> TracebackType | None:
    """The same traceback without the frames of our wrappers: it is shown as it would be without us."""
    try:
        first = trace
        while first is not None and first.tb_next is not None and _is_ours(first):
            first = first.tb_next
        at = first
        while at is not None and at.tb_next is not None:
            if _is_ours(at.tb_next):
                at.tb_next = at.tb_next.tb_next
            else:
                at = at.tb_next
    except Exception:
        _hook.failed()
        return trace
    return first


def _is_ours(trace: TracebackType) -> bool:
    return our_frames.is_ours(trace.tb_frame.f_code)


def _at_exit() -> None:
    try:
        from . import events

        error = getattr(sys, "last_exc", None) or getattr(sys, "last_value", None)
        if error is not None:
            record(error, error.__traceback__)
        page.leaving()
        events.write("exit", step=int(page.here.numbers[page.STEPS]))
    except Exception:
        _hook.failed()
