"""Reading a file by offset, a bounded piece at a time, and never past its end.

Lengths in a damaged file are noise: a flipped bit asks for 2**62 bytes. Whatever is read goes through a `Span`,
which refuses what is not there and what does not fit in memory, so no reader needs to mistrust its own numbers.
"""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO, Final

from crashcart.checkpoints.model import DamageError, Problem, in_words
from crashcart.regular_files import open_regular

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PIECE_BYTES: Final = 1 << 20
AT_ONCE_BYTES: Final = 32 << 20
BUDGET_BYTES: Final = 4 << 30
_BECAME_SHORTER: Final = Problem("doubtful", "the file became shorter while it was read: it is being written now")


@dataclass(frozen=True)
class Span:
    """A stretch of an open file: the whole of it, or one slice of a `.distcp`."""

    file: BinaryIO
    start: int
    size: int

    def at(self, offset: int, count: int) -> bytes:
        """Read exactly `count` bytes."""
        if offset < 0 or count < 0 or offset + count > self.size:
            raise DamageError(
                Problem("broken", f"the file ends in the middle: byte {offset + count} is needed, but it has {self.size}")
            )
        if count > AT_ONCE_BYTES:
            raise DamageError(Problem("unknown", f"holds one piece of {in_words(count)}, more than is read at once"))
        self.file.seek(self.start + offset)
        found = self.file.read(count)
        if len(found) != count:
            raise DamageError(_BECAME_SHORTER)
        return found

    def pieces(self, offset: int, count: int) -> Iterator[bytes]:
        """Read `count` bytes, at most 1 MiB at a time."""
        for begin in range(offset, offset + count, PIECE_BYTES):
            yield self.at(begin, min(PIECE_BYTES, offset + count - begin))

    def views(self, offset: int, count: int) -> Iterator[memoryview]:
        """Read `count` bytes into one buffer, 1 MiB at a time: each view holds until the next one is asked for."""
        if offset < 0 or count < 0 or offset + count > self.size:
            self.at(offset, count)
        buffer = memoryview(bytearray(min(count, PIECE_BYTES)))
        self.file.seek(self.start + offset)
        for begin in range(0, count, PIECE_BYTES):
            view = buffer[: min(PIECE_BYTES, count - begin)]
            if self.file.readinto(view) != len(view):  # type: ignore[attr-defined]
                raise DamageError(_BECAME_SHORTER)
            yield view

    def part(self, offset: int, size: int) -> Span:
        """Narrow it to a stretch of itself."""
        if offset < 0 or size < 0 or offset + size > self.size:
            raise DamageError(
                Problem(
                    "broken",
                    f"the file ends in the middle: {in_words(self.size)} of {in_words(offset + size)} are there",
                )
            )
        return Span(self.file, self.start + offset, size)


@contextlib.contextmanager
def opened(path: Path) -> Iterator[Span]:
    """Open a file; what is no regular file is refused, since opening a pipe would wait for ever."""
    with open_regular(path) as file:
        yield Span(file, 0, os.fstat(file.fileno()).st_size)


@dataclass
class Budget:
    """How many bytes may still be read for checksums."""

    left_bytes: int = BUDGET_BYTES

    def take(self, size_bytes: int) -> bool:
        """Spend this much, or nothing when it is more than is left."""
        if size_bytes > self.left_bytes:
            return False
        self.left_bytes -= size_bytes
        return True
