"""Stacks of all threads into a file when the supervisor asks by signal: works also while C code holds the interpreter.

The file handle is moved to a high number. A program that closes all handles and opens its own files gets low numbers, so a late
dump never lands in one of them.
"""

from __future__ import annotations

import os

from . import layout, page

_HIGH = range(1000, 980, -1)
_state = {"handle": -1}


def register() -> None:
    """Answer the signal, if the job has left it alone."""
    import _signal  # type: ignore[import-not-found] # without the enumerations of `signal`
    import faulthandler

    text = os.environ.get(layout.SIGNAL, "")
    if not text.isdigit():
        return
    number = int(text)
    if _state["handle"] < 0 and _signal.getsignal(number) != _signal.SIG_DFL:
        return
    handle = os.open(
        page.here.stem + ".stacks", os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600
    )
    if _state["handle"] >= 0:  # a child: the handler is there already and writes to this handle
        os.dup2(handle, _state["handle"], inheritable=False)
        os.close(handle)
    else:
        _state["handle"] = handle = _moved(handle)
        faulthandler.register(number, file=handle, all_threads=True, chain=False)
        if not faulthandler.is_enabled():  # a segmentation fault leaves its stack as well; the user's own choice stays
            faulthandler.enable(file=handle, all_threads=True)
    page.put("signal", number)


def _moved(handle: int) -> int:
    for number in _HIGH:
        try:
            os.fstat(number)
        except OSError:  # noqa: PERF203 - the first try does
            try:
                os.dup2(handle, number, inheritable=False)
            except OSError:  # above the limit of this process
                return handle
            os.close(handle)
            return number
    return handle
