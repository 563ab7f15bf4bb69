"""Where the job's standard streams go, so that it behaves as it would without us.

A stream that is a terminal becomes a pseudo-terminal (bars, colours, prompts and ``breakpoint()`` work); a file or a pipe
becomes a pipe; two streams that go to the same place stay one, so that their order is kept. Input that is no terminal is the
job's own.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import struct
import termios
from typing import NamedTuple

__all__ = ["Stream", "Streams", "copy_size", "open_streams"]

_WINDOW = struct.Struct("HHHH")


class Stream(NamedTuple):
    """One way out of the job: what we read from, the user's descriptor that gets it, and the name of its log."""

    read: int
    user: int
    log: str


class Streams(NamedTuple):
    """The job's three descriptors, what we read, and the pseudo-terminal where there is one."""

    job: tuple[int, int, int]
    outputs: tuple[Stream, ...]
    master: int | None
    slave: int | None
    keyboard: int | None  # the user's terminal, where its keys go to the job

    @property
    def job_ends(self) -> set[int]:
        """Our copies of what belongs to the job, to be closed once it has started."""
        return {end for end in self.job if end > 2}  # noqa: PLR2004 - the user's own three stay

    def place(self, number: int) -> int:
        """Which of the outputs the job's descriptor 1 or 2 is."""
        return next((place for place, one in enumerate(self.outputs) if one.user == number), 0)


def open_streams() -> Streams:
    """Pipes and pseudo-terminals that stand for the user's own streams."""
    terminals = [_terminal(number) for number in (1, 2)]
    master = slave = None
    if any(terminals):
        master, slave = pty.openpty()
        _like(1 if terminals[0] else 2, slave)
    ends: dict[int, int] = {}
    outputs: list[Stream] = []
    if master is not None and slave is not None:
        shown = 1 if terminals[0] else 2
        outputs.append(Stream(master, shown, "output.log"))
        ends.update({number: slave for number, is_terminal in zip((1, 2), terminals, strict=True) if is_terminal})
    if len(ends) == 0 and _same(1, 2):
        read, write = os.pipe()
        outputs.append(Stream(read, 1, "output.log"))
        ends = {1: write, 2: write}
    for number, log in ((1, "output.log"), (2, "errors.log")):
        if number not in ends:
            read, write = os.pipe()
            outputs.append(Stream(read, number, log))
            ends[number] = write
    keyboard = 0 if slave is not None and _terminal(0) else None
    stdin = slave if keyboard is not None and slave is not None else 0
    return Streams((stdin, ends[1], ends[2]), tuple(outputs), master, slave, keyboard)


def copy_size(terminal: int, master: int) -> None:
    """The size of the user's window for the job."""
    with contextlib.suppress(OSError):
        fcntl.ioctl(master, termios.TIOCSWINSZ, fcntl.ioctl(terminal, termios.TIOCGWINSZ, _WINDOW.pack(0, 0, 0, 0)))


def _like(terminal: int, slave: int) -> None:
    with contextlib.suppress(termios.error):
        termios.tcsetattr(slave, termios.TCSANOW, termios.tcgetattr(terminal))
    copy_size(terminal, slave)


def _terminal(number: int) -> bool:
    try:
        return os.isatty(number)
    except OSError:
        return False


def _same(one: int, other: int) -> bool:
    try:
        a, b = os.fstat(one), os.fstat(other)
    except OSError:
        return False
    return (a.st_dev, a.st_ino) == (b.st_dev, b.st_ino)
