"""The last step of a TensorBoard event file, read without TensorFlow.

The file is a row of records: length (8 bytes), checksum of the length (4), data, checksum of the data (4); the checksum
is CRC-32C, masked. The data are protobuf ``Event`` messages: field 1 wall time (double), 2 step (varint), 5 summary, in
which each field 1 is a value with 1 tag, 2 simple_value (float) or 8 tensor. A run that is killed leaves a half record
at the end, often after some seconds of silence: SummaryWriter flushes every 120 s. ::

    events.out.tfevents.1794726723.node1.4410.0
    18 00 00 00 00 00 00 00 | a3 7f 4b 22 | 09 <wall time> 1a 0d "brain.Event:2" | <crc>

Of a large file only the last 4 MiB are read: a length is found again by its checksum.
"""

from __future__ import annotations

import os
import struct
from functools import lru_cache
from typing import IO, TYPE_CHECKING

from crashcart.regular_files import open_regular

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["last_step"]

MAX_READ = 4 << 20
MAX_RECORD = 1 << 20
MAX_TRIED = 100_000

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_LONGEST_VARINT = 10


def last_step(path: str | os.PathLike[str]) -> int | None:
    """The last step for which a scalar was written; raises OSError like open."""
    last = None
    with open_regular(path) as file:
        for data in _records(file):
            step, has_scalar = _event(data)
            last = step if has_scalar else last
    return last


def _records(file: IO[bytes]) -> Iterator[bytes]:
    """What the records hold, up to the first that is cut off or damaged."""
    size = os.fstat(file.fileno()).st_size
    file.seek(_resume(file, size - MAX_READ) if size > 2 * MAX_READ else 0)
    while head := file.read(12):
        at = file.tell() - len(head)
        if len(head) < 12 or struct.unpack("<I", head[8:])[0] != _masked(head[:8]):  # noqa: PLR2004 - as above
            return
        length = struct.unpack("<Q", head[:8])[0]
        if at + 12 + length + 4 > size:
            return
        if length > MAX_RECORD:  # an image or a graph
            file.seek(at + 12 + length + 4)
            continue
        data, check = file.read(length), file.read(4)
        if len(check) < 4 or struct.unpack("<I", check)[0] != _masked(data):  # noqa: PLR2004 - as above
            return
        yield data


def _resume(file: IO[bytes], start: int) -> int:
    """Find the first place at or after ``start`` where a record begins."""
    file.seek(start)
    block = file.read(MAX_READ)
    at, tried = block.find(b"\0\0\0\0\0"), 0
    while at >= 0 and tried < MAX_TRIED:
        for head in range(max(0, at - 3), min(at, len(block) - 12) + 1):
            tried += 1
            if struct.unpack("<I", block[head + 8 : head + 12])[0] == _masked(block[head : head + 8]):
                return start + head
        at = block.find(b"\0\0\0\0\0", at + 1)
    return start


def _event(data: bytes) -> tuple[int, bool]:
    """The step of an event, and whether it holds a scalar."""
    step, has_scalar = 0, False
    for number, kind, value in _fields(data):
        if number == 2 and kind == _VARINT:  # noqa: PLR2004 - field numbers of the message
            step = int.from_bytes(value, "little")
        elif number == 5 and kind == _BYTES:  # noqa: PLR2004 - as above
            has_scalar |= any(inner == 1 and _is_scalar(part) for inner, _, part in _fields(value))
    return step if step < 1 << 63 else step - (1 << 64), has_scalar


def _is_scalar(data: bytes) -> bool:
    """Whether a value is one number: a float, or a tensor of one, as TensorFlow 2 writes it."""
    return any(
        (number == 2 and kind == _FIXED32) or (number == 8 and kind == _BYTES and _holds_one_number(value))  # noqa: PLR2004 - as above
        for number, kind, value in _fields(data)
    )


def _holds_one_number(data: bytes) -> bool:
    """Whether a tensor holds one float or double."""
    double, raw = False, b""
    for number, kind, value in _fields(data):
        if number == 1 and kind == _VARINT:
            double = int.from_bytes(value, "little") == 2  # noqa: PLR2004 - DT_DOUBLE
        elif number in {4, 5, 6}:
            raw = value
    return len(raw) == (8 if double else 4)


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
