"""A real terminal of 91 columns with a program on it: what it shows, and keys typed into it."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import select
import struct
import subprocess
import termios
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


class Terminal:
    """One program on a terminal, in a session of its own."""

    def __init__(self, command: Sequence[str]) -> None:
        self.master, slave = pty.openpty()
        self.resize(91)
        self.shown = b""
        self.program = subprocess.Popen(
            command,
            stdin=slave,
            stdout=slave,
            stderr=slave,
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),  # noqa: PLW1509 - as a login gives
        )
        os.close(slave)

    def resize(self, columns: int) -> None:
        """Make the window another width."""
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))

    def type(self, keys: bytes) -> None:
        """Press keys."""
        os.write(self.master, keys)

    def see(self, text: bytes, seconds: float = 40.0) -> bytes:
        """Wait until a text is shown that was not asked for before; what was shown up to its end."""
        end = time.monotonic() + seconds
        while text not in self.shown:
            left = end - time.monotonic()
            assert left > 0, f"{text!r} was not shown, but {self.shown!r}"
            if select.select([self.master], [], [], left)[0]:
                self.shown += os.read(self.master, 4096)
        before, _, self.shown = self.shown.partition(text)
        return before + text

    @property
    def echoes(self) -> bool:
        """Whether the terminal is as a shell leaves it: keys are shown and lines edited."""
        flags = termios.tcgetattr(self.master)[3]
        return bool(flags & termios.ECHO and flags & termios.ICANON)

    def close(self, seconds: float = 40.0) -> int:
        """Read to the end; the exit status of the program."""
        with contextlib.suppress(OSError):
            while select.select([self.master], [], [], seconds)[0] and (piece := os.read(self.master, 4096)):
                self.shown += piece
        code = self.program.wait(seconds)
        os.close(self.master)
        return code
