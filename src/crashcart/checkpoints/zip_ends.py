"""Where a zip archive ends, and where its table of contents lies.

The end record stands last in the file, so its absence is the surest sign that a save was cut off. torch always writes a
zip64 end record and a locator before it, even for small files.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from crashcart.checkpoints.model import DamageError, Problem, in_words
from crashcart.checkpoints.zeros import zeros_at_end

if TYPE_CHECKING:
    from crashcart.checkpoints.spans import Span

_END: Final = struct.Struct("<4s4H2LH")
_END64: Final = struct.Struct("<4sQ2H2L4Q")
_LOCATOR: Final = struct.Struct("<4sLQL")
_COMMENT_BYTES: Final = 0xFFFF
# What miniz, which torch uses, writes as "version made by" and "version needed".
_MINIZ_VERSIONS: Final = (0x031E, 45)


@dataclass(frozen=True)
class Directory:
    """The table of contents; `usual_versions` is False when a zip64 end record is not of the kind that torch writes."""

    offset: int
    size_bytes: int
    count: int
    oddities: tuple[str, ...]
    usual_versions: bool


def has_end_record(span: Span) -> bool:
    """Tell whether the file ends as a zip archive does."""
    return _find_end(span) is not None


def directory_of(span: Span) -> Directory:
    """Find the table of contents; a file without one was cut off or overwritten."""
    end = _find_end(span)
    if end is None:
        raise DamageError(Problem("broken", _cut_off(span)))
    _, disk, first_disk, here, count, size, offset, comment = _END.unpack(span.at(end, _END.size))
    trailing = span.size - end - _END.size - comment
    oddities = [f"{in_words(trailing)} follow after the end of the archive"] if trailing else []
    large = _find_end64(span, end)
    if large is None:
        found = Directory(offset, size, count, tuple(oddities), usual_versions=True)
        return _checked(found, end, (disk, first_disk, here - count))
    start, fields = large
    _, length, made_by, needed, disk64, first_disk64, here64, count64, size64, offset64 = fields
    small = (count64 & 0xFFFF, size64 & 0xFFFFFFFF, offset64 & 0xFFFFFFFF)
    if any(mine not in {theirs, full} for mine, theirs, full in zip((count, size, offset), small, _FULL, strict=True)):
        oddities.append("the two end records differ")
    usual = (made_by, needed) == _MINIZ_VERSIONS and length == _END64.size - 12
    found = Directory(offset64, size64, count64, tuple(oddities), usual)
    return _checked(found, start, (disk, first_disk, here - count, disk64, first_disk64, here64 - count64))


_FULL: Final = (0xFFFF, 0xFFFFFFFF, 0xFFFFFFFF)


def _find_end(span: Span) -> int | None:
    begin = max(0, span.size - _END.size - _COMMENT_BYTES)
    tail = span.at(begin, span.size - begin)
    found = tail.rfind(b"PK\5\6", 0, max(0, len(tail) - _END.size + 4))
    return begin + found if found >= 0 else None


def _find_end64(span: Span, end: int) -> tuple[int, tuple[int, ...]] | None:
    if end < _LOCATOR.size:
        return None
    signature, disk, start, disks = _LOCATOR.unpack(span.at(end - _LOCATOR.size, _LOCATOR.size))
    if signature != b"PK\6\7":
        return None
    if start + _END64.size + _LOCATOR.size != end or disk != 0 or disks != 1:
        raise DamageError(Problem("broken", "the end records do not fit together"))
    fields = _END64.unpack(span.at(start, _END64.size))
    if fields[0] != b"PK\6\6":
        raise DamageError(Problem("broken", "the zip64 end record is damaged"))
    return start, fields


def _checked(directory: Directory, end: int, zeros: tuple[int, ...]) -> Directory:
    if any(zeros) or directory.offset + directory.size_bytes != end:
        raise DamageError(Problem("broken", "the end record and the table of contents do not fit together"))
    return directory


def _cut_off(span: Span) -> str:
    zeros = zeros_at_end(span)
    says = f"the file ends in the middle: no zip end record ({in_words(span.size)} on disk)"
    return f"{says}; its last {in_words(zeros)} are zeros" if zeros > 64 else says  # noqa: PLR2004  a page, not padding
