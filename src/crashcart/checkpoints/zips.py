"""The layout of a zip archive, accounted for byte by byte.

Why not `zipfile`: it forgives. It skips junk before and after the archive, never compares the two headers of a member,
and reads past padding, so a damaged disk can go unseen. torch writes a strict layout, and every byte has a duty:

    PK34 header  name  extra: zip64, 'FB' + 'ZZZ...' up to a multiple of 64   data   PK78 crc, sizes
    ... next member, with no gap ...
    PK12 central directory: one entry a member, all attributes 0
    PK66 zip64 end   PK67 its locator   PK56 end record, the last bytes of the file

A file that was cut has no end record. What cannot hurt loading (padding, attributes) is an oddity, not damage: it shows
that bytes changed after they were written.
"""

from __future__ import annotations

import struct
import zlib
from collections import Counter
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Final

from crashcart.checkpoints.model import DamageError, Problem, in_words
from crashcart.checkpoints.spans import PIECE_BYTES, Span
from crashcart.checkpoints.zip_ends import Directory, directory_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


_ENTRY: Final = struct.Struct("<4s6H3L5H2L")
_HEADER: Final = struct.Struct("<4s5H3L2H")
_FIELD: Final = struct.Struct("<2H")
_HAS_DESCRIPTOR: Final = 0x8
_STORED, _DEFLATED = 0, 8
_ZIP64, _PADDING = 0x0001, 0x4246
_LARGE: Final = 0xFFFFFFFF
# A file of 60,000 tensors; they take a few seconds and 60 MB.
MAX_RECORDS: Final = 60_000
# Version made by, time, date, disk, internal and external attributes: torch writes zeros.
_TORCH_ATTRIBUTES: Final = (0,) * 6


@dataclass(frozen=True, slots=True)
class Member:
    """One record of the archive; `data` is the offset of its bytes."""

    name: str
    header: int
    data: int
    stored_bytes: int
    size_bytes: int
    crc: int
    method: int


@dataclass(frozen=True)
class Archive:
    """The members in the order of the file, and what is odd without being damage."""

    members: tuple[Member, ...]
    oddities: tuple[str, ...]

    @property
    def has_checksums(self) -> bool:
        """Whether checksums were written: torch.serialization.set_crc32_options(False) leaves them 0."""
        return any(member.crc for member in self.members) or not any(member.size_bytes for member in self.members)


@dataclass(frozen=True, slots=True)
class _Entry:
    name: bytes
    flags: int
    method: int
    crc: int
    stored_bytes: int
    size_bytes: int
    header: int
    extra_ids: frozenset[int]
    stamps: tuple[int, ...]
    attributes: tuple[int, ...]


def read_archive(span: Span) -> Archive:
    """Read the layout; what makes it unreadable raises DamageError."""
    directory = directory_of(span)
    entries = sorted(_entries(span, directory), key=lambda entry: entry.header)
    oddities = [*directory.oddities, *_odd_attributes(entries, directory)]
    if entries and entries[0].header:
        oddities.append(f"the archive begins after {in_words(entries[0].header)} that belong to nothing")
    followers = [entry.header for entry in entries[1:]] + [directory.offset]
    members = [_member(span, entry, follower, oddities) for entry, follower in zip(entries, followers, strict=False)]
    if len({member.name for member in members}) != len(members):
        raise DamageError(Problem("broken", "two records in it have the same name"))
    return Archive(tuple(members), tuple(dict.fromkeys(oddities)))


def _entries(span: Span, directory: Directory) -> list[_Entry]:
    if directory.count > MAX_RECORDS:
        raise DamageError(Problem("unknown", f"it has {directory.count} records, too many to look at"))
    data = span.at(directory.offset, directory.size_bytes)
    entries: list[_Entry] = []
    position = 0
    while position + _ENTRY.size <= len(data) and len(entries) < directory.count:
        entry, position = _entry(data, position)
        entries.append(entry)
    if position != len(data) or len(entries) != directory.count:
        raise DamageError(
            Problem("broken", f"the table of contents is damaged: {len(entries)} of {directory.count} records can be read")
        )
    return entries


def _entry(data: bytes, position: int) -> tuple[_Entry, int]:
    fields = _ENTRY.unpack_from(data, position)
    signature, made_by, needed, flags, method, time, date, crc, stored, size = fields[:10]
    name_bytes, extra_bytes, comment_bytes, disk, internal, external, header = fields[10:]
    begin = position + _ENTRY.size
    end = begin + name_bytes + extra_bytes + comment_bytes
    if signature != b"PK\1\2" or end > len(data):
        raise DamageError(Problem("broken", "the table of contents is damaged"))
    extra = _extra_fields(data[begin + name_bytes : begin + name_bytes + extra_bytes])
    size, stored, header = _large(extra.get(_ZIP64, b""), (size, stored, header))
    stamps = (needed, flags, method, time, date)
    attributes = (made_by, time, date, disk, internal, external)
    name = data[begin : begin + name_bytes]
    return _Entry(name, flags, method, crc, stored, size, header, frozenset(extra), stamps, attributes), end


def _extra_fields(extra: bytes) -> dict[int, bytes]:
    fields: dict[int, bytes] = {}
    position = 0
    while position + _FIELD.size <= len(extra):
        number, length = _FIELD.unpack_from(extra, position)
        position += _FIELD.size
        fields[number] = extra[position : position + length]
        position += length
    if position != len(extra):
        raise DamageError(Problem("broken", "the extra field of a record is damaged"))
    return fields


def _large(extra: bytes, values: tuple[int, int, int]) -> tuple[int, int, int]:
    longs = [number for (number,) in struct.iter_unpack("<Q", extra[: len(extra) // 8 * 8])]
    found = [longs.pop(0) if value == _LARGE and longs else value for value in values]
    return found[0], found[1], found[2]


def _odd_attributes(entries: list[_Entry], directory: Directory) -> list[str]:
    common = Counter(entry.attributes for entry in entries).most_common(1)
    if not common or common[0][0] != _TORCH_ATTRIBUTES:
        return []
    odd = [_shown(entry.name) for entry in entries if entry.attributes != _TORCH_ATTRIBUTES]
    ends = [] if directory.usual_versions else ["the end record was changed after it was written"]
    return [*(f"the attributes of {name} were changed after it was written" for name in odd), *ends]


def _member(span: Span, entry: _Entry, follower: int, oddities: list[str]) -> Member:
    shown = _shown(entry.name)
    fields = _HEADER.unpack(span.at(entry.header, _HEADER.size))
    signature, *stamps, crc, stored, size, name_bytes, extra_bytes = fields
    name_and_extra = span.at(entry.header + _HEADER.size, name_bytes + extra_bytes)
    if signature != b"PK\3\4" or name_and_extra[:name_bytes] != entry.name:
        raise DamageError(Problem("broken", f"record {shown} is not where the table of contents says"))
    if tuple(stamps) != entry.stamps:
        oddities.append(f"the two headers of {shown} differ")
    late = entry.flags & _HAS_DESCRIPTOR
    if not (late and not crc) and (crc != entry.crc or not {stored, size} <= {entry.stored_bytes, entry.size_bytes, _LARGE}):
        raise DamageError(Problem("broken", f"the two headers of {shown} name different sizes or checksums"))
    if late and not crc and (stored or size):
        oddities.append(f"the two headers of {shown} differ")
    oddities.extend(_odd_extra(_extra_fields(name_and_extra[name_bytes:]), entry))
    data = entry.header + _HEADER.size + name_bytes + extra_bytes
    _check_follower(span, entry, data + entry.stored_bytes, follower, oddities)
    if entry.method not in {_STORED, _DEFLATED} or (entry.method == _STORED and entry.stored_bytes != entry.size_bytes):
        raise DamageError(Problem("broken", f"record {shown} is stored in a way that torch does not write"))
    return Member(shown, entry.header, data, entry.stored_bytes, entry.size_bytes, entry.crc, entry.method)


def _odd_extra(extra: dict[int, bytes], entry: _Entry) -> list[str]:
    odd = bool(extra.get(_PADDING, b"").strip(b"Z")) or not extra.keys() <= {_PADDING, _ZIP64} | entry.extra_ids
    return [f"the padding before {_shown(entry.name)} was changed after it was written"] if odd else []


def _check_follower(span: Span, entry: _Entry, end: int, follower: int, oddities: list[str]) -> None:
    gap = follower - end
    if gap < 0:
        raise DamageError(Problem("broken", f"record {_shown(entry.name)} runs into the next one"))
    if gap == 0 and not entry.flags & _HAS_DESCRIPTOR:
        return
    short = struct.pack("<3L", entry.crc, entry.stored_bytes & _LARGE, entry.size_bytes & _LARGE)
    long = struct.pack("<LQQ", entry.crc, entry.stored_bytes, entry.size_bytes)
    expected = {short, long, b"PK\7\x08" + short, b"PK\7\x08" + long}
    if gap > max(map(len, expected)) or span.at(end, gap) not in expected:
        oddities.append(f"{in_words(gap)} after {_shown(entry.name)} are not what was written there")


def _shown(name: bytes) -> str:
    return name.decode("utf-8", "backslashreplace")


def crc_matches(span: Span, member: Member) -> bool:
    """Compute the checksum of a record, 1 MiB at a time."""
    crc = size = 0
    crc32 = _crc32()
    try:
        for piece in span.views(member.data, member.stored_bytes) if member.method == _STORED else _unpacked(span, member):
            crc = crc32(piece, crc)
            size += len(piece)
            if size > member.size_bytes:
                return False
    except zlib.error:
        return False
    return crc == member.crc and size == member.size_bytes


@cache
def _crc32() -> Callable[[bytes | memoryview, int], int]:
    """The extra ``fast`` has one that is four times as fast as the standard library's."""
    try:
        from isal.isal_zlib import crc32
    except ImportError:
        from zlib import crc32
    return crc32  # type: ignore[no-any-return, unused-ignore]


def _unpacked(span: Span, member: Member) -> Iterator[bytes]:
    unpack = zlib.decompressobj(-zlib.MAX_WBITS)
    for piece in span.pieces(member.data, member.stored_bytes):
        waiting = piece
        while waiting:
            yield unpack.decompress(waiting, PIECE_BYTES)
            waiting = unpack.unconsumed_tail
    yield unpack.unused_data or unpack.flush(PIECE_BYTES)
