"""Our own errors inside somebody else's process: written down once for each hook, never raised, and the hook is off from then on.

What a signal handler of the program raises while one of our hooks happens to run is not ours: it is raised on.
"""

from __future__ import annotations

import sys

from . import page

TYPE_CHECKING = False  # importing typing would cost a third of our start-up
if TYPE_CHECKING:
    from types import CodeType, TracebackType
    from typing import Any

_failed: dict[str, Hook] = {}


class Hook:
    """One of our hooks; `on` is false once it has failed, in this process and in what it forks."""

    __slots__ = ("name", "on")

    def __init__(self, name: str) -> None:
        self.name = name
        self.on = True

    def failed(self) -> None:
        """Take note of the error that is being handled; to be called in the `except` of everything that runs in the job."""
        _, error, trace = sys.exc_info()
        if error is not None and _is_raised_by_signal_handler(trace):
            raise error
        self.on = False
        try:
            page.here.numbers[page.OWN_ERRORS] += 1
            if self.name not in _failed and len(_failed) < 100:
                _failed[self.name] = self
                _write(self.name, error, trace)
        except Exception:  # not even this may be raised
            pass


def ours(name: str) -> None:
    """The same for what runs only once, such as installing a hook."""
    Hook(name).failed()


def _write(name: str, error: BaseException | None, trace: TracebackType | None) -> None:
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    where = "" if trace is None else "%s:%d" % (trace.tb_frame.f_code.co_filename, trace.tb_lineno)
    from . import events

    events.write("error", place=name, type=type(error).__name__, message=str(error)[:500], where=where)


def _is_raised_by_signal_handler(trace: TracebackType | None) -> bool:
    try:
        codes = set()
        while trace is not None:
            codes.add(trace.tb_frame.f_code)
            trace = trace.tb_next
        return not codes.isdisjoint(_handlers())
    except Exception:
        return False


def _handlers() -> list[CodeType]:
    """The code of the program's signal handlers."""
    import _signal  # type: ignore[import-not-found] # without the enumerations of `signal`

    found = []
    for number in range(1, _signal.NSIG):
        try:
            handler: Any = _signal.getsignal(number)
        except (OSError, ValueError):
            continue
        if handler is None or isinstance(handler, int):
            continue
        handler = getattr(handler, "func", handler)  # a partial function
        if not hasattr(handler, "__code__") and not hasattr(handler, "__func__"):
            handler = getattr(type(handler), "__call__", None)  # noqa: B004 - an object that is called
        code = getattr(getattr(handler, "__func__", handler), "__code__", None)
        if code is not None:
            found.append(code)
    return found
