"""Bytes of a log, whatever it is kept in: plain, gz, bz2, xz, zst, UTF-16, standard input, a file that still grows.

A source fills one buffer that is used again and again, so that a gigabyte costs no more memory than a megabyte. Damage is
not an error here: a compressed file that was cut short gives what it still holds, and ``note`` says what happened.
"""

from __future__ import annotations

import codecs
import sys
from typing import IO, TYPE_CHECKING, Any

from crashcart.decompression import decompressor_for, unpacked
from crashcart.errors import CommandError
from crashcart.regular_files import RefusedFileError, open_input, open_standard_input

if TYPE_CHECKING:
    from collections.abc import Callable
    from queue import Queue

__all__ = ["Source", "open_source"]

_SNIFF = 4096
_AHEAD = 4
_PATIENCE = 1.0
_MOSTLY = 0.95
_CONTROLS = bytes([*range(8), *range(14, 27), *range(28, 32), 127])  # not those of blanks, colours and bars
_ARCHIVES = (b"PK\x03\x04", b"\x80\x02", b"\x80\x04", b"\x89HDF", b"7z\xbc\xaf", b"\x7fELF", b"PAR1")


class Source:
    """A stream of bytes with a name, a size where it is known, and a note about what was wrong with it."""

    def __init__(self, name: str, stream: IO[bytes], size: int | None = None) -> None:
        self.name = name
        self.size = size
        self.note = ""
        self.consumed = 0
        self._stream = stream
        self._limit = size

    def fill(self, view: memoryview) -> int:
        """Read into the view; 0 at the end. What cannot be read ends the stream and is noted."""
        if self._limit is not None:
            view = view[: max(0, self._limit - self.consumed)]
        if not len(view):
            return 0
        try:
            count: int = self._stream.readinto(view) or 0  # type: ignore[attr-defined]
        except (OSError, EOFError) as problem:
            self.note = f"{self.name}: reading stopped early ({problem or type(problem).__name__})"
            return 0
        self.consumed += count
        return count

    def close(self) -> None:
        """Release the file."""
        if self._stream is not getattr(sys.stdin, "buffer", None):
            self._stream.close()


class _Decompressed:
    """Feeds a decompressor object; the pieces of damaged input before the damage are kept.

    A thread of its own inflates ahead while the pieces before are looked through: both let go of the interpreter.
    """

    def __init__(self, stream: IO[bytes], fresh: Callable[[], Any]) -> None:
        import queue
        from threading import Thread

        self._stream = stream
        self._fresh = fresh
        self._ready: Queue[bytes | EOFError | OSError] = queue.Queue(_AHEAD)
        self._pending = b""
        self._at = 0
        self._closed = False
        self._worker = Thread(target=self._inflate, daemon=True)
        self._worker.start()

    def readinto(self, view: memoryview) -> int:
        while self._at >= len(self._pending):
            piece = self._ready.get()
            if not isinstance(piece, bytes):
                self._ready.put(b"")
                raise piece
            if not piece:
                self._ready.put(b"")
                return 0
            self._pending, self._at = piece, 0
        count = min(len(view), len(self._pending) - self._at)
        view[:count] = memoryview(self._pending)[self._at : self._at + count]
        self._at += count
        return count

    def _inflate(self) -> None:
        try:
            for piece in unpacked(self._stream, self._fresh):
                if self._closed:
                    return
                if piece:
                    self._ready.put(piece)
            self._ready.put(b"")
        except (EOFError, OSError) as problem:
            self._ready.put(problem)
        except Exception as problem:  # noqa: BLE001 - whoever reads waits for an answer of this thread
            self._ready.put(EOFError(f"it cannot be decompressed ({problem!r})"))

    def close(self) -> None:
        self._closed = True
        while not self._ready.empty():  # a thread that waits for room sees that nobody reads on
            self._ready.get()
        self._worker.join(_PATIENCE)
        self._stream.close()


class _Transcoded:
    """UTF-16 and UTF-32 as UTF-8."""

    def __init__(self, stream: Any, encoding: str, first: bytes) -> None:  # noqa: ANN401 - anything with readinto
        self._stream = stream
        self._decoder = codecs.getincrementaldecoder(encoding)("replace")
        self._pending = self._decoder.decode(first).encode("utf-8", "replace")
        self._buffer = bytearray(1 << 16)

    def readinto(self, view: memoryview) -> int:
        while not self._pending:
            count = self._stream.readinto(memoryview(self._buffer))
            if not count:
                return 0
            self._pending = self._decoder.decode(bytes(self._buffer[:count])).encode("utf-8", "replace")
        count = min(len(view), len(self._pending))
        view[:count] = self._pending[:count]
        self._pending = self._pending[count:]
        return count

    def close(self) -> None:
        self._stream.close()


class _Resumed:
    """A stream whose first bytes were already taken to look at."""

    def __init__(self, first: bytes, stream: Any) -> None:  # noqa: ANN401 - anything with readinto
        self._first = first
        self._stream = stream

    def readinto(self, view: memoryview) -> int:
        if not self._first:
            read: int = self._stream.readinto(view) or 0
            return read
        count = min(len(view), len(self._first))
        view[:count] = self._first[:count]
        self._first = self._first[count:]
        return count

    def close(self) -> None:
        self._stream.close()


def open_source(path: str, *, no_links_below: str | None = None, text_only: bool = False) -> Source:
    """Open a log by path, or standard input for ``-``; raises ``CommandError`` with a sentence where that is impossible.

    With ``text_only`` that is also raised for a file that does not begin with text.
    """
    if path == "-":
        if sys.stdin is None:
            raise CommandError("Standard input is closed.")
        return _wrapped("standard input", *open_standard_input())
    try:
        stream, size = open_input(path, no_links_below=no_links_below)
    except OSError as problem:
        if not isinstance(problem, RefusedFileError):
            raise CommandError(f"{path}: {problem.strerror or problem}.") from None
        how = " Pipe its text into `crashcart why -` instead." if problem.reason.endswith("not a file") else ""
        raise CommandError(f"{problem}.{how}") from None
    try:
        return _wrapped(path, stream, size, text_only=text_only)
    except CommandError:
        stream.close()
        raise


def _wrapped(name: str, raw: Any, size: int | None, *, text_only: bool = False) -> Source:  # noqa: ANN401 - FileIO or BufferedReader
    try:
        first = raw.read(_SNIFF) or b""
    except OSError as problem:
        raise CommandError(f"{name}: {problem.strerror}.") from None
    if first.startswith(_ARCHIVES):
        raise CommandError(f"{name} is an archive or checkpoint, not a log: give its folder, or the log of the run.")
    stream: Any = _Resumed(first, raw)
    machine = decompressor_for(first)
    if machine is not None:
        raw.seek(0) if size is not None else None
        stream = _Decompressed(raw if size is not None else _Readable(stream), machine)  # type: ignore[arg-type]
        size = None
        beginning = bytearray(_SNIFF)
        source = Source(name, stream)
        first = bytes(beginning[: source.fill(memoryview(beginning))])
        stream = _Resumed(first, stream)
        note = source.note
    else:
        note = ""
    encoding = _wide_encoding(first)
    if text_only and encoding is None and not _is_text(first):
        raise CommandError(f"{name} is not a text file.")
    if encoding is not None:
        stream = _Transcoded(stream, encoding, b"")
        size = None
    result = Source(name, stream, size)
    result.note = note
    return result


class _Readable:
    """``read`` on top of ``readinto``, for a compressed standard input."""

    def __init__(self, stream: Any) -> None:  # noqa: ANN401 - anything with readinto
        self._stream = stream
        self._buffer = bytearray(1 << 18)

    def read(self, _size: int) -> bytes:
        count = self._stream.readinto(memoryview(self._buffer))
        return bytes(self._buffer[:count])

    def close(self) -> None:
        self._stream.close()


def _is_text(first: bytes) -> bool:
    """Whether there are next to no control characters, as in text of any encoding; a tenth of random bytes are."""
    return len(first.translate(None, _CONTROLS)) >= _MOSTLY * len(first)


def _wide_encoding(first: bytes) -> str | None:
    if first.startswith((b"\xff\xfe\x00\x00", b"\x00\x00\xfe\xff")):
        return "utf-32"
    if first.startswith((b"\xff\xfe", b"\xfe\xff")):
        return "utf-16"
    even, odd = first[0::2], first[1::2]
    if len(first) >= 8:  # noqa: PLR2004 - fewer bytes tell nothing
        if odd.count(0) > 0.4 * len(odd) and even.count(0) < 0.1 * len(even):
            return "utf-16-le"
        if even.count(0) > 0.4 * len(even) and odd.count(0) < 0.1 * len(odd):
            return "utf-16-be"
    return None
