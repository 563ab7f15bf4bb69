"""What crashcart raises, and what becomes of errors that are our own.

A cause, rule or reader that fails on one input must not hide the answer of the others: `our_errors` turns its error into one
line under "Not checked". Under the tests the same error is raised, in every process that a test starts, since the environment
variable `CRASHCART_DEBUG` is set there. A user sets it to see the traceback of what the one line tells.
"""

from __future__ import annotations

import os

__all__ = ["DEBUG", "CommandError", "Missing", "is_debugged", "our_errors", "place_of", "record_error"]

TYPE_CHECKING = False  # importing typing would cost a tenth of `--help`
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

DEBUG = "CRASHCART_DEBUG"  # 1: raise our own errors; a path: also append each traceback to that file
_OURS = os.path.dirname(os.path.abspath(__file__))


class CommandError(Exception):
    """A sentence for the user and an exit code; the command line prints it and never a traceback."""

    def __init__(self, sentence: str, exit_code: int = 2) -> None:
        super().__init__(sentence)
        self.exit_code = exit_code


class Missing(Exception):  # noqa: N818 - not an error: it ends one detector, and the report says what was missing
    """A cause asked for something that the case does not hold."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name


class our_errors:  # noqa: N801 - read as a phrase: with our_errors(...)
    """Pass over an error of our own in this block: ``note(what, why, how)`` takes the line for the user.

    ``CommandError`` and ``Missing`` are answers, not errors, and are raised on. What the machine refuses (``OSError``,
    ``MemoryError``) is no error of ours either: it is noted in its own words, under the tests too.
    """

    __slots__ = ("_note", "_what")

    def __init__(self, what: str, note: Callable[[str, str, str], None]) -> None:
        self._what = what
        self._note = note

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None) -> bool:
        if not isinstance(problem, Exception) or isinstance(problem, (CommandError, Missing)):
            return False
        if isinstance(problem, (OSError, MemoryError)):
            self._note(self._what, str(problem) or "there is not enough memory for it", "")
            return True
        if is_debugged():
            record_error(problem)
            return False
        self._note(
            self._what, f"internal error in crashcart: {place_of(problem)}", f"please report it; {DEBUG}=1 shows the details"
        )
        return True


def is_debugged() -> bool:
    """Whether our own errors are to be raised."""
    return bool(os.environ.get(DEBUG))


def record_error(problem: BaseException) -> None:
    """Append the traceback to the file that the variable names, once, so that no caller on the way can hide it."""
    path = os.environ.get(DEBUG, "")
    if os.sep not in path or getattr(problem, "crashcart_recorded", False):
        return
    import traceback

    problem.crashcart_recorded = True  # type: ignore[attr-defined]
    with open(path, "a", encoding="utf-8", errors="backslashreplace") as file:
        file.write("".join(traceback.format_exception(problem)))


def place_of(problem: BaseException) -> str:
    """The type of an error and the innermost line of ours that it went through: ``KeyError at causes/config/type.py:31``."""
    where = ""
    trace = problem.__traceback__
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        if file.startswith(_OURS):
            where = f" at {os.path.relpath(file, _OURS)}:{trace.tb_lineno}"
        trace = trace.tb_next
    return f"{type(problem).__name__}{where}"
