"""The last steps and scalars of a TensorBoard event file, read without TensorFlow.

The file is a row of records: length (8 bytes), checksum of the length (4), data, checksum of the data (4); the checksum
is CRC-32C, masked. The data are protobuf ``Event`` messages: field 1 wall time (double), 2 step (varint), 5 summary, in
which each field 1 is a value with 1 tag, 2 simple_value (float) or 8 tensor. A run that is killed leaves a half record
at the end, often after some seconds of silence: SummaryWriter flushes every 120 s. ::

    events.out.tfevents.1794726723.node1.4410.0
    18 00 00 00 00 00 00 00 | a3 7f 4b 22 | 09 <wall time> 1a 0d "brain.Event:2" | <crc>

Of a large file only the last 4 MiB are read: a length is found again by its checksum.
"""

from __future__ import annotations

import math
import os
import struct
from collections import deque
from functools import lru_cache
from typing import IO, TYPE_CHECKING

from crashcart.numbers import to_float
from crashcart.record import field, record
from crashcart.regular_files import open_regular

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Tail", "tfevents_last"]

MAX_READ = 4 << 20
MAX_RECORD = 1 << 20
MAX_TAGS = 500
MAX_TRIED = 100_000

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_LONGEST_VARINT = 10


@record(frozen=True)
class Tail:
    """The end of an event file.

    ``scalars`` holds the last values of each tag as (step, value), oldest first; ``ending`` says in words how the file
    ends where it does not end cleanly.
    """

    step: int | None = None
    wall_time: float | None = None
    scalars: dict[str, tuple[tuple[int, float], ...]] = field(default_factory=dict)
    records: int = 0
    ending: str = ""


def tfevents_last(path: str | os.PathLike[str], *, keep: int = 5) -> Tail:
    """Read the last step, its wall time, and the last values of every scalar; raises OSError like open."""
    kept: dict[str, deque[tuple[int, float]]] = {}
    step, wall_time, records = None, None, 0
    with open_regular(path) as file:
        framing = _Framing(file)
        for data in framing.records():
            records += 1
            when, at, values = _event(data)
            wall_time = when if when is not None else wall_time
            step = at if values else step
            for tag, value in values:
                if tag in kept or len(kept) < MAX_TAGS:
                    kept.setdefault(tag, deque(maxlen=keep)).append((at, value))
    return Tail(step, wall_time, {tag: tuple(values) for tag, values in kept.items()}, records, framing.ending)


class _Framing:
    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self.ending = ""

    def records(self) -> Iterator[bytes]:
        size = os.fstat(self._file.fileno()).st_size
        start = self._resume(size - MAX_READ) if size > 2 * MAX_READ else 0
        self._file.seek(start)
        while head := self._file.read(12):
            at = self._file.tell() - len(head)
            if len(head) < 12 or struct.unpack("<I", head[8:])[0] != _masked(head[:8]):  # noqa: PLR2004 - as above
                self.ending = f"cut off or damaged at byte {at} of {size}"
                return
            length = struct.unpack("<Q", head[:8])[0]
            if at + 12 + length + 4 > size:
                self.ending = f"cut off inside a record at byte {at} of {size}"
                return
            if length > MAX_RECORD:  # an image or a graph
                self._file.seek(at + 12 + length + 4)
                continue
            data, check = self._file.read(length), self._file.read(4)
            if len(check) < 4:  # noqa: PLR2004 - as above
                self.ending = f"cut off inside a record at byte {at} of {size}"
                return
            if struct.unpack("<I", check)[0] != _masked(data):
                self.ending = f"wrong checksum at byte {at} of {size}"
                return
            yield data

    def _resume(self, start: int) -> int:
        """Find the first place at or after ``start`` where a record begins."""
        self._file.seek(start)
        block = self._file.read(MAX_READ)
        at, tried = block.find(b"\0\0\0\0\0"), 0
        while at >= 0 and tried < MAX_TRIED:
            for head in range(max(0, at - 3), min(at, len(block) - 12) + 1):
                tried += 1
                if struct.unpack("<I", block[head + 8 : head + 12])[0] == _masked(block[head : head + 8]):
                    return start + head
            at = block.find(b"\0\0\0\0\0", at + 1)
        return start


def _event(data: bytes) -> tuple[float | None, int, list[tuple[str, float]]]:
    when, step, values = None, 0, []
    for number, kind, value in _fields(data):
        if number == 1 and kind == _FIXED64:
            when = struct.unpack("<d", value)[0]
        elif number == 2 and kind == _VARINT:  # noqa: PLR2004 - field numbers of the message
            step = int.from_bytes(value, "little")
        elif number == 5 and kind == _BYTES:  # noqa: PLR2004 - as above
            values += [found for inner, _, part in _fields(value) if inner == 1 and (found := _scalar(part))]
    return when, step if step < 1 << 63 else step - (1 << 64), values


def _scalar(data: bytes) -> tuple[str, float] | None:
    tag, number = "", math.nan
    found = False
    for field_number, kind, value in _fields(data):
        if field_number == 1 and kind == _BYTES:
            tag = value.decode("utf-8", "replace")[:200]
        elif field_number == 2 and kind == _FIXED32:  # noqa: PLR2004 - as above
            number, found = struct.unpack("<f", value)[0], True
        elif field_number == 8 and kind == _BYTES:  # noqa: PLR2004 - as above
            inner = _tensor(value)
            number, found = (inner, True) if inner is not None else (number, found)
    return (tag, number) if found and tag else None


def _tensor(data: bytes) -> float | None:
    """Read the value of a tensor that holds one float or double; TensorFlow 2 writes scalars in this way."""
    double, raw = False, b""
    for number, kind, value in _fields(data):
        if number == 1 and kind == _VARINT:
            double = int.from_bytes(value, "little") == 2  # noqa: PLR2004 - DT_DOUBLE
        elif number in {4, 5, 6}:
            raw = value
    if len(raw) != (8 if double else 4):
        return None
    return to_float(struct.unpack("<d" if double else "<f", raw)[0], finite=False)


def _fields(data: bytes) -> Iterator[tuple[int, int, bytes]]:
    """Fields of a protobuf message as (number, wire type, bytes); stops where the bytes make no sense."""
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        number, kind = key >> 3, key & 7
        if kind == _VARINT:
            value, at = _varint(data, at)
            yield number, kind, (value & 0xFFFFFFFFFFFFFFFF).to_bytes(8, "little")
            continue
        if kind == _BYTES:
            length, at = _varint(data, at)
        else:
            length = {_FIXED64: 8, _FIXED32: 4}.get(kind, -1)
        if length < 0 or at + length > len(data):
            return
        yield number, kind, data[at : at + length]
        at += length


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for index, byte in enumerate(data[at : at + _LONGEST_VARINT]):
        value |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:  # noqa: PLR2004 - the last byte has no high bit
            return value, at + index + 1
    return 0, len(data)


@lru_cache(maxsize=1)
def _table() -> tuple[int, ...]:
    table = []
    for byte in range(256):
        value = byte
        for _ in range(8):
            value = (value >> 1) ^ (0x82F63B78 if value & 1 else 0)
        table.append(value)
    return tuple(table)


def _masked(data: bytes) -> int:
    table, crc = _table(), 0xFFFFFFFF
    for byte in data:
        crc = table[(crc ^ byte) & 0xFF] ^ (crc >> 8)
    crc ^= 0xFFFFFFFF
    return (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF
