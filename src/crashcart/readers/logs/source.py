"""Bytes of a log, whatever it is kept in: plain, gz, bz2, xz, zst, UTF-16, standard input, a file that still grows.

A source fills one buffer that is used again and again, so that a gigabyte costs no more memory than a megabyte. Damage is
not an error here: a compressed file that was cut short gives what it still holds, and ``note`` says what happened.
"""

from __future__ import annotations

import codecs
import os
import stat
import sys
from typing import IO, TYPE_CHECKING, Any

from crashcart.errors import CommandError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from queue import Queue

__all__ = ["Source", "open_source"]

_SNIFF = 4096
_PACKED = 32 << 10  # compressed bytes at a time: text that shrank a thousandfold still fits
_AHEAD = 4
_PATIENCE = 1.0
_ARCHIVES = (b"PK\x03\x04", b"\x80\x02", b"\x80\x04", b"\x89HDF", b"7z\xbc\xaf", b"\x7fELF", b"PAR1")
_PIPES = ("/dev/fd/", "/proc/self/fd/", "/dev/stdin")


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
        if self._stream is not sys.stdin.buffer:
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
            for piece in self._pieces():
                if self._closed:
                    return
                if piece:
                    self._ready.put(piece)
            self._ready.put(b"")
        except (EOFError, OSError) as problem:
            self._ready.put(problem)

    def _pieces(self) -> Iterator[bytes]:
        machine, started = self._fresh(), False
        while packed := self._stream.read(_PACKED):
            while packed:
                if machine.eof:
                    if not packed.strip(b"\0"):
                        break
                    machine = self._fresh()
                started = True
                try:
                    yield machine.decompress(packed)
                except Exception as problem:  # each library has an error class of its own
                    message = f"the compressed data is damaged: {problem}"
                    raise EOFError(message) from problem
                packed = machine.unused_data if machine.eof else b""
        if started and not machine.eof:
            message = "the compressed file ends early"
            raise EOFError(message)

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


def open_source(path: str) -> Source:
    """Open a log by path, or standard input for ``-``; raises ``CommandError`` with a sentence where that is impossible."""
    if path == "-":
        return _wrapped("standard input", sys.stdin.buffer, None)
    try:
        status = os.stat(path)
    except (OSError, ValueError) as problem:
        reason = getattr(problem, "strerror", None) or str(problem)
        raise CommandError(f"{path}: {reason}.") from None
    regular = stat.S_ISREG(status.st_mode)
    if not regular and not path.startswith(_PIPES):
        raise CommandError(f"{path} is not a file (a pipe or device): pipe its text into `crashcart why -` instead.")
    try:
        stream = open(path, "rb", buffering=0)  # noqa: SIM115 - closed by Source.close
    except OSError as problem:
        raise CommandError(f"{path}: {problem.strerror}.") from None
    return _wrapped(path, stream, status.st_size if regular else None)


def _wrapped(name: str, raw: Any, size: int | None) -> Source:  # noqa: ANN401 - FileIO or BufferedReader
    try:
        first = raw.read(_SNIFF) or b""
    except OSError as problem:
        raise CommandError(f"{name}: {problem.strerror}.") from None
    if first.startswith(_ARCHIVES):
        raise CommandError(f"{name} is an archive or a checkpoint, not a log: name its folder, or the log of the run.")
    stream: Any = _Resumed(first, raw)
    machine = _decompressor(first)
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


def _decompressor(first: bytes) -> Callable[[], Any] | None:
    if first.startswith(b"\x1f\x8b"):
        return _gzip_machine()
    if first.startswith(b"BZh"):
        import bz2

        return bz2.BZ2Decompressor
    if first.startswith(b"\xfd7zXZ\x00"):
        import lzma

        return lzma.LZMADecompressor
    if first.startswith(b"\x28\xb5\x2f\xfd"):
        return _zstd_machine()
    return None


def _gzip_machine() -> Callable[[], Any]:
    try:
        from isal import isal_zlib
    except ImportError:
        import zlib

        return lambda: zlib.decompressobj(31)
    return lambda: isal_zlib.decompressobj(31)


def _zstd_machine() -> Callable[[], Any]:
    try:
        import zstandard
    except ImportError:
        try:
            from compression import zstd  # type: ignore[import-not-found]
        except ImportError:
            raise CommandError(
                "This log is zstd-compressed: `pip install zstandard`, or `zstdcat LOG | crashcart why -`."
            ) from None
        machine: Callable[[], Any] = zstd.ZstdDecompressor
        return machine
    return lambda: zstandard.ZstdDecompressor().decompressobj()


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
