"""Compressed bytes, unpacked a bounded piece at a time: what a file says of itself decides neither memory nor time.

Two kilobytes of bz2 can hold gigabytes of one letter; xz and zstd say in their header how much memory the reader needs, up to
4 GB. Each format is unpacked incrementally, a header that asks for more memory than we give is refused with a sentence, and what
grows beyond anything that a program has logged is cut. Neither may what repeats itself keep the answer back: of gigabytes of one
line the first seconds' worth is unpacked.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Protocol

from crashcart.errors import CommandError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["DamagedDataError", "Readable", "decompressor_for", "unpacked"]

PIECE_BYTES = 512 << 10
# The dictionary of xz -9 and the window of zstd --ultra -21; with the rest of the process it stays below 150 MB.
_MEMORY_BYTES = 66 << 20
_WINDOW_BYTES = 64 << 20
_PACKED_BYTES = 32 << 10
# zstd unpacks all that it is given at once, at most 128 KiB for every 4 bytes.
_ZSTD_BYTES = 64
# gzip packs 1032 to 1 at best, and a log that says one thing again and again comes near that; more is no log.
_ALWAYS_BYTES = 64 << 20
_MOST_TIMES = 2000
# Logs pack 5 to 100 to 1 and are unpacked whole, as large as they are. What packs better says one thing again and again: of
# that a share of processor time is unpacked, and no more than can be looked through in seconds.
_USUAL_TIMES = 200
_REPETITIVE_BYTES = 768 << 20
_REPETITIVE_SECONDS = 2.0


class DamagedDataError(EOFError):
    """The compressed data end early, are damaged, or are cut by us."""


class Readable(Protocol):
    """Where compressed bytes come from."""

    def read(self, size: int, /) -> bytes:
        """At most so many bytes; none at the end."""


def decompressor_for(first: bytes) -> Callable[[], Any] | None:
    """What makes decompressors for data that begin like this; None where they are not compressed."""
    if first.startswith(b"\x1f\x8b"):
        return _gzip()
    if first.startswith(b"BZh"):
        import bz2

        return bz2.BZ2Decompressor
    if first.startswith(b"\xfd7zXZ\x00"):
        import lzma

        return lambda: lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=_MEMORY_BYTES)
    if first.startswith(b"\x28\xb5\x2f\xfd"):
        return _zstd()
    return None


def unpacked(stream: Readable, fresh: Callable[[], Any]) -> Iterator[bytes]:
    """The content in pieces; ``DamagedDataError`` behind the last piece that is whole."""
    machine, started = fresh(), False
    taken = given = 0
    spent = _Stopwatch()
    while packed := stream.read(_PACKED_BYTES):
        taken += len(packed)
        while packed:
            if machine.eof:
                if not packed.strip(b"\0"):
                    break
                machine = fresh()
            started = True
            for piece in spent.timed(_pieces(machine, packed)):
                given += len(piece)
                yield piece
                if given > _USUAL_TIMES * taken and (given > _REPETITIVE_BYTES or spent.seconds > _REPETITIVE_SECONDS):
                    raise DamagedDataError(
                        f"it unpacks to more than {_USUAL_TIMES} times its size: only its first {given >> 20} MB were read"
                    )
                if given > _ALWAYS_BYTES + _MOST_TIMES * taken:
                    raise DamagedDataError(f"it unpacks to more than {_MOST_TIMES} times its size, so the rest was not read")
            packed = machine.unused_data if machine.eof else b""
    if started and not machine.eof:
        raise DamagedDataError("the compressed file ends early")


class _Stopwatch:
    """Processor time that unpacking took, without that of whoever takes the pieces."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def timed(self, pieces: Iterator[bytes]) -> Iterator[bytes]:
        start = time.thread_time()
        for piece in pieces:
            self.seconds += time.thread_time() - start
            yield piece
            start = time.thread_time()
        self.seconds += time.thread_time() - start


def _pieces(machine: Any, packed: bytes) -> Iterator[bytes]:  # noqa: ANN401 - of zlib, bz2, lzma or zstandard
    while True:
        try:
            piece = machine.decompress(packed, PIECE_BYTES)
        except Exception as problem:  # each library has an error class of its own
            raise DamagedDataError(_reason(problem)) from problem
        if piece:
            yield piece
        packed = getattr(machine, "unconsumed_tail", b"")
        more = packed or not getattr(machine, "needs_input", len(piece) < PIECE_BYTES)
        if machine.eof or not more:
            return


def _reason(problem: Exception) -> str:
    says = str(problem)
    if isinstance(problem, MemoryError) or "limit" in says or "too much memory" in says or "requires too much" in says:
        return f"it needs more than {_WINDOW_BYTES >> 20} MB of memory to be unpacked: pipe its text into `crashcart why -`"
    return f"the compressed data is damaged: {says}"


def _gzip() -> Callable[[], Any]:
    try:
        from isal import isal_zlib
    except ImportError:
        import zlib

        return lambda: zlib.decompressobj(31)
    return lambda: isal_zlib.decompressobj(31)


def _zstd() -> Callable[[], Any]:
    try:
        import zstandard
    except ImportError:
        try:
            from compression import zstd  # type: ignore[import-not-found]
        except ImportError:
            raise CommandError(
                "This log is zstd-compressed: `pip install zstandard`, or `zstdcat LOG | crashcart why -`."
            ) from None
        options = {zstd.DecompressionParameter.window_log_max: _WINDOW_BYTES.bit_length() - 1}
        return lambda: zstd.ZstdDecompressor(options=options)
    return lambda: _Zstandard(zstandard.ZstdDecompressor(max_window_size=_WINDOW_BYTES).decompressobj())


class _Zstandard:
    """A decompressor of ``zstandard``, which knows no bound for what it gives: it gets little at a time."""

    def __init__(self, machine: Any) -> None:  # noqa: ANN401 - no stubs
        self._machine = machine
        self.unconsumed_tail = b""
        self.unused_data = b""
        self.eof = False

    def decompress(self, packed: bytes, most: int) -> bytes:
        given: list[bytes] = []
        size = at = 0
        while at < len(packed) and size < most and not self.eof:
            given.append(self._machine.decompress(packed[at : at + _ZSTD_BYTES]))
            size += len(given[-1])
            at += _ZSTD_BYTES
            self.eof = self._machine.eof
        rest = packed[at:]
        self.unused_data = self._machine.unused_data + rest if self.eof else b""
        self.unconsumed_tail = b"" if self.eof else rest
        return b"".join(given)
