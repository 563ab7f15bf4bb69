"""Exceptions in processes that a program starts through multiprocessing: caught there, and never seen by the usual hook.

Whoever catches them makes text of them: `multiprocessing.process` prints them, `torch.multiprocessing.spawn` hands them to its
parent. So they are seen where that text is made, and no frame of ours stands in the child's stack.
"""

from __future__ import annotations

import sys

from .mistakes import Hook
from .uncaught import record

TYPE_CHECKING = False  # typing is not loaded before the program wants it
if TYPE_CHECKING:
    from typing import Any

_CATCHERS = ("/multiprocessing/process.py", "/multiprocessing/spawn.py")
_hook = Hook("exception in a child process")


def watch(traceback: Any) -> None:
    """Look at whoever asks for the text of an exception."""
    for name in ("print_exc", "format_exc"):
        setattr(traceback, name, _watched(getattr(traceback, name)))


def _watched(original: Any) -> Any:
    def text_of_exception(*args: Any, **kwargs: Any) -> Any:
        try:
            if _hook.on and sys._getframe(1).f_code.co_filename.endswith(_CATCHERS):
                error = sys.exc_info()[1]
                if isinstance(error, Exception):
                    record(error, error.__traceback__)
        except Exception:
            _hook.failed()
        return original(*args, **kwargs)

    text_of_exception.__name__ = text_of_exception.__qualname__ = original.__name__
    text_of_exception.__doc__, text_of_exception.__module__ = original.__doc__, original.__module__
    text_of_exception.__wrapped__ = original  # type: ignore[attr-defined] # so that its signature is found
    return text_of_exception
