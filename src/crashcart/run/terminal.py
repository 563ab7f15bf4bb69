"""The user's terminal while a job runs: its keys are the job's as long as we are in the foreground, and it is given back as it was."""

from __future__ import annotations

import contextlib
import errno
import os
import termios
import tty

__all__ = ["Terminal", "has_controlling_terminal", "is_from_terminal", "restore", "special_keys"]

_LETTERS = {"suspend": termios.VSUSP, "interrupt": termios.VINTR}


class Terminal:
    """The terminal on a descriptor, or none."""

    def __init__(self, number: int | None) -> None:
        self.number = number
        self.modes: list[object] | None = None  # as they were when we came
        self._before: list[object] | None = None
        if number is not None:
            with contextlib.suppress(termios.error, OSError):
                self.modes = list(termios.tcgetattr(number))

    @property
    def taken(self) -> bool:
        """Whether every key goes through to the job."""
        return self._before is not None

    def take(self) -> bool:
        """Let every key through, where we may: a job in the background of a shell may not."""
        if self.number is None or self._before is not None or not _is_foreground(self.number):
            return False
        with contextlib.suppress(termios.error, OSError):
            before = list(termios.tcgetattr(self.number))
            tty.setraw(self.number, termios.TCSADRAIN)
            self._before = before
        return self._before is not None

    def give_back(self) -> None:
        """As it was before."""
        before, self._before = self._before, None
        if self.number is not None:
            restore(self.number, before)


def restore(terminal: int, before: list[object] | None) -> None:
    """Give a terminal its modes."""
    if before is not None:
        with contextlib.suppress(termios.error, OSError):
            termios.tcsetattr(terminal, termios.TCSADRAIN, before)  # type: ignore[arg-type]


def _is_foreground(terminal: int) -> bool:
    try:
        return os.tcgetpgrp(terminal) == os.getpgrp()
    except OSError as problem:
        return problem.errno == errno.ENOTTY  # not the terminal of our session: everybody may read it


def special_keys(keys: bytes, master: int, job: int) -> list[str]:
    """Which of the keys are signals to the job, as its terminal is set now; a shell in the job deals with its own Ctrl-Z."""
    try:
        modes = termios.tcgetattr(master)
        own = os.tcgetpgrp(master) == job
    except (termios.error, OSError):
        return []
    if not modes[3] & termios.ISIG:
        return []
    found = [name for name, letter in _LETTERS.items() if modes[6][letter] in keys and modes[6][letter] != b"\0"]
    return [name for name in found if name != "suspend" or own]


def has_controlling_terminal() -> bool:
    """Whether our session has a terminal; one that was closed is none."""
    try:
        os.close(os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY | os.O_CLOEXEC))
    except OSError:
        return False
    return True


def is_from_terminal(sender: int) -> bool:
    """Whether an interrupt came from the keyboard: from the kernel, while our terminal has us in the foreground."""
    if sender:
        return False
    with contextlib.suppress(OSError):
        handle = os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY | os.O_CLOEXEC)
        try:
            return _is_foreground(handle)
        finally:
            os.close(handle)
    return False
