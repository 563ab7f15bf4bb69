"""Uncaught exceptions of threads, and the moment at which the interpreter begins to wait for them."""

from __future__ import annotations

from . import events, page
from .mistakes import Hook
from .uncaught import record, without_ours

TYPE_CHECKING = False  # typing is not loaded before the program wants it
if TYPE_CHECKING:
    from typing import Any

_hook = Hook("uncaught exception in a thread")


def install(threading: Any) -> None:
    """Stand in front of the hook of threads."""
    before = threading.excepthook

    def excepthook(args: Any) -> Any:
        try:
            if not issubclass(args.exc_type, SystemExit):
                record(args.exc_value, args.exc_traceback, getattr(args.thread, "name", "") or "thread")
                without_ours(args.exc_traceback)
        except Exception:
            _hook.failed()
        return before(args)

    if before is getattr(threading, "__excepthook__", None):
        threading.__excepthook__ = excepthook
    threading.excepthook = excepthook
    at_shutdown = getattr(threading, "_register_atexit", None)
    if at_shutdown is not None:
        at_shutdown(_leaving)


def _leaving() -> None:
    """The program has ended; threads that never do, and exit handlers that wait, come after this."""
    try:
        page.leaving()
        events.write("phase", phase="exit", edge="begin", step=int(page.here.numbers[page.STEPS]))
    except Exception:
        _hook.failed()
