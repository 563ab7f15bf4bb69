"""What the program has printed and Python has not yet written: it is lost with the process unless somebody keeps it.

Standard output that is no terminal is written in blocks of 8 kB. A process that is killed takes the last block with it, and just
that one holds the step at which it died. Writing by lines instead would change what others see: the order of output and errors,
what is printed twice after a fork, where a closed pipe is noticed. So the stream stays as it is, and a copy of the last words is
kept in a mapped file: eight bytes that count all bytes so far, then a ring of them. The supervisor adds to the log of a process
that was killed what is in the ring and not in the log.
"""

from __future__ import annotations

import io
import sys
from time import monotonic

from . import layout, page
from .mistakes import Hook

TYPE_CHECKING = False  # importing typing would cost a third of our start-up
if TYPE_CHECKING:
    from typing import Any

_SHORT_SECONDS = 1.0  # a process that has not loaded ctypes yet, and may be a short one, need not load it for this
_hook = Hook("printed")
_write = io.TextIOWrapper.write


class _Printed:
    """The last words of this process."""

    __slots__ = ("count", "ring", "since", "tail")

    def __init__(self) -> None:
        self.renew()

    def renew(self) -> None:
        """As at the start of a process."""
        self.ring: Any = None
        self.tail = b""  # before there is a ring
        self.count = 0
        self.since = monotonic()

    def add(self, text: str) -> None:
        """Take in what was printed."""
        data = text[-layout.PRINTED :].encode("utf-8", "replace")[-layout.PRINTED :]
        if self.ring is None:
            self.tail = data = (self.tail + data)[-layout.PRINTED :]
            if not page.here.mapped and monotonic() < self.since + _SHORT_SECONDS:
                return
            self.ring, self.tail = page.map_file(page.here.stem + ".printed", 8 + layout.PRINTED), b""
        at = 8 + self.count % layout.PRINTED
        room = 8 + layout.PRINTED - at
        first = data[:room]
        self.ring[at : at + len(first)] = first
        rest = data[room:]
        if rest:
            self.ring[8 : 8 + len(rest)] = rest
        self.count += len(data)
        self.ring[:8] = self.count.to_bytes(8, "little")


printed = _Printed()


class TextIOWrapper(io.TextIOWrapper):
    """Standard output as it was, with a copy of what was printed."""

    def write(self, text: str) -> int:
        """Write, and keep a copy."""
        done = _write(self, text)
        if _hook.on:
            try:
                printed.add(text)
            except Exception:
                _hook.failed()
        return done


TextIOWrapper.__module__ = "_io"


def keep() -> None:
    """Put the stream in the place of standard output, where that is written in blocks; before the program has taken it anywhere."""
    stream: Any = sys.stdout
    if type(stream) is not io.TextIOWrapper or stream is not sys.__stdout__ or stream.line_buffering or stream.write_through:
        return
    encoding, errors, mode = stream.encoding, stream.errors, stream.mode
    copy: Any = TextIOWrapper(stream.detach(), encoding=encoding, errors=errors, newline="\n")
    copy.mode = mode
    sys.stdout = copy
    setattr(sys, "__stdout__", copy)  # noqa: B010 - a type checker takes it for final
    page.after_fork.append(printed.renew)
