"""Samples on disk: frames with a length and a checksum, one write each, so that a kill loses none that was acknowledged.

A sample is its two clocks and its tables of doubles, row by row. Damage costs the frame it hits: reading goes on at the next
one that is whole.
"""

from __future__ import annotations

import json
import struct
import zlib
from array import array
from typing import TYPE_CHECKING, Any, NamedTuple

from crashcart.documents import load_json

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Sample", "frame", "frames", "pack_header", "pack_sample", "unpack_sample"]

_MAGIC = b"\xc7\xa5"
_HEAD = struct.Struct("<2scII")
_CLOCKS = struct.Struct("<dd")
_TABLE = struct.Struct("<HHI")
_LARGEST = 8 << 20
_MOST_DAMAGE = 64 << 20  # bytes that are checked in vain before the rest is given up; each try counts as some
_ONE_TRY = 100

Rows = list[list[float]]


class Sample(NamedTuple):
    """What was seen in one moment: Unix time, monotonic time, and the rows of each table."""

    time: float
    monotonic: float
    tables: dict[str, Rows]


def frame(kind: bytes, payload: bytes) -> bytes:
    """Bytes that can be told from damage."""
    return _HEAD.pack(_MAGIC, kind, len(payload), zlib.crc32(payload)) + payload


def frames(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Kind and payload of each whole frame; what is damaged is stepped over."""
    at, view, in_vain = 0, memoryview(data), 0
    while (at := data.find(_MAGIC, at)) >= 0 and at + _HEAD.size <= len(data) and in_vain < _MOST_DAMAGE:
        _, kind, length, checksum = _HEAD.unpack_from(data, at)
        begin = at + _HEAD.size
        fits = length < _LARGEST and begin + length <= len(data)
        if fits and zlib.crc32(view[begin : begin + length]) == checksum:
            yield kind, data[begin : begin + length]
            at = begin + length
        else:
            in_vain += _ONE_TRY + (length if fits else 0)
            at += 1


def pack_header(columns: dict[str, tuple[str, ...]]) -> bytes:
    """The frame at the head of a file: which tables there are, and their columns."""
    return frame(b"H", json.dumps(columns).encode())


def pack_sample(sample: Sample, order: list[str]) -> bytes:
    """One sample as a frame; tables are numbered by their place in the header."""
    parts = [_CLOCKS.pack(sample.time, sample.monotonic)]
    for number, name in enumerate(order):
        rows = sample.tables.get(name)
        if rows:
            numbers = array("d")
            for row in rows:
                numbers.extend(row)
            parts += (_TABLE.pack(number, len(rows[0]), len(rows)), numbers.tobytes())
    return frame(b"S", b"".join(parts))


def unpack_sample(payload: bytes, order: list[str]) -> Sample:
    """The sample of a frame; tables that the header does not name are left out."""
    time, monotonic = _CLOCKS.unpack_from(payload)
    tables: dict[str, Rows] = {}
    at = _CLOCKS.size
    while at + _TABLE.size <= len(payload):
        number, width, count = _TABLE.unpack_from(payload, at)
        at += _TABLE.size
        numbers = array("d", payload[at : at + 8 * width * count])
        at += 8 * width * count
        if number < len(order) and width:
            tables[order[number]] = [list(numbers[start : start + width]) for start in range(0, len(numbers), width)]
    return Sample(time, monotonic, tables)


def header_of(payload: bytes) -> dict[str, Any]:
    """The columns of each table, in the order of their numbers."""
    columns = load_json(payload, most_bytes=1 << 20)
    return columns if isinstance(columns, dict) else {}
