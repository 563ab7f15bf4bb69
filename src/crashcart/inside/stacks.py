"""Stacks of all threads into a file when the supervisor asks by signal: works also while C code holds the interpreter.

The file handle is moved to a high number. A program that closes all handles and opens its own files gets low numbers, so a late
dump never lands in one of them.

Trainers that put back "all" signal handlers when they are done (Lightning) put back the default for our signal too, since Python knows
nothing of a handler that `faulthandler` has set. Then it is set again.
"""

from __future__ import annotations

import os

from . import layout, page

TYPE_CHECKING = False  # importing typing would cost a third of our start-up
if TYPE_CHECKING:
    from typing import Any

_HIGH = (1000, 999, 998, 250, 249, 248, 60, 59, 58, 30, 29)  # the first one that is free, below the limit of this process
_STANDARD = 2
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
        handle = _moved(handle)
        if handle <= _STANDARD:  # whoever writes to a stream that was closed would write there
            os.close(handle)
            return
        _state["handle"] = handle
        faulthandler.register(number, file=handle, all_threads=True, chain=False)
        if not faulthandler.is_enabled():  # a segmentation fault leaves its stack as well; the user's own choice stays
            faulthandler.enable(file=handle, all_threads=True)
            _keep_secret(faulthandler)
    page.put("signal", number)


def install(module: Any) -> None:
    """Answer the signal again after the program has set its default."""
    original = module.signal
    if hasattr(original, "_crashcart"):
        return

    def signal(signalnum: Any, handler: Any) -> Any:
        result = original(signalnum, handler)
        if type(handler) in (int, module.Handlers) and handler == 0 and _state["handle"] >= 0:  # SIG_DFL
            _answer_again(signalnum)
        return result

    signal.__doc__, signal.__module__, signal.__qualname__ = original.__doc__, original.__module__, original.__qualname__
    signal.__wrapped__ = original  # type: ignore[attr-defined]
    vars(signal)["_crashcart"] = True
    module.signal = signal


def _answer_again(number: Any) -> None:
    try:
        import faulthandler

        if str(int(number)) == os.environ.get(layout.SIGNAL):
            faulthandler.unregister(int(number))
            faulthandler.register(int(number), file=_state["handle"], all_threads=True, chain=False)
    except Exception:
        from .mistakes import ours

        ours("signal")


def _keep_secret(faulthandler: Any) -> None:
    """Say that it is off until the program switches it on: some programs ask first."""
    theirs = {"enabled": False}
    is_enabled, enable, disable = faulthandler.is_enabled, faulthandler.enable, faulthandler.disable

    def enable_for_program(*args: Any, **kwargs: Any) -> Any:
        enable(*args, **kwargs)
        theirs["enabled"] = True

    def disable_for_program() -> Any:
        was_enabled, theirs["enabled"] = theirs["enabled"], False
        disable()
        return was_enabled

    def is_enabled_by_program() -> Any:
        return theirs["enabled"] and is_enabled()

    for wrapper, original in (
        (enable_for_program, enable),
        (disable_for_program, disable),
        (is_enabled_by_program, is_enabled),
    ):
        wrapper.__name__ = wrapper.__qualname__ = original.__name__
        wrapper.__module__, wrapper.__doc__ = "faulthandler", original.__doc__
        setattr(faulthandler, original.__name__, wrapper)


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
