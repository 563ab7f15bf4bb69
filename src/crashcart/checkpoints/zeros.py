"""Zeros at the end of a file, as a crash leaves them, told from zeros that were trained or initialised.

File systems enlarge a file before its data arrives. When the machine goes down between the two, the file has its full
length and ends in zeros, from the start of a page on. A zip shows this at once, its end record is gone. safetensors and
the old torch format have neither an end record nor a checksum, so only the place where the zeros begin can tell: a bias
that was never trained or the unused rows of an embedding begin with a tensor or with a row, a lost page rarely does.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from crashcart.checkpoints.model import Problem, in_words
from crashcart.checkpoints.spans import PIECE_BYTES, Span

if TYPE_CHECKING:
    from collections.abc import Sequence

_PAGE_BYTES: Final = 4096
# A trained value may be exactly zero; sixteen in a row are not by chance.
_FLOATS_IN_A_ROW: Final = 16
_SHORT_ROW: Final = 4
_LARGE_BYTES: Final = 1 << 20
_LOOK_BACK_BYTES: Final = 256 << 20


@dataclass(frozen=True)
class Region:
    """Where one tensor lies in the file; `row_bytes` is the length of one row of it."""

    name: str
    start: int
    end: int
    item_bytes: int
    row_bytes: int
    is_float: bool


def row_items(shape: Sequence[int]) -> int:
    """Count the items in one row; where a row is too short to mean anything, the tensor is one row."""
    row = math.prod(shape[1:])
    return row if len(shape) > 1 and row >= _SHORT_ROW else math.prod(shape)


def zeros_at_end(span: Span) -> int:
    """Count the zero bytes at the end; it looks back 256 MiB at most."""
    position = span.size
    floor = max(0, span.size - _LOOK_BACK_BYTES)
    while position > floor:
        begin = max(floor, position - PIECE_BYTES)
        kept = len(span.at(begin, position - begin).rstrip(b"\0"))
        if kept:
            return span.size - begin - kept
        position = begin
    return span.size - floor


def doubt(span: Span, regions: list[Region]) -> Problem | None:
    """Doubt a file whose last bytes are zeros that begin where a lost page would."""
    filled = [region for region in regions if region.end > region.start]
    begin = span.size - zeros_at_end(span) if filled else span.size
    holder = next((region for region in filled if region.end > begin), None)
    if holder is None:
        return None
    begin = max(begin, holder.start)
    begin += (holder.start - begin) % holder.item_bytes
    end = filled[-1].end
    if _innocent(begin, holder, filled[0].start, end):
        return None
    where = "from" if begin == holder.start else "from the middle of"
    says = f"the last {in_words(end - begin)} are all zeros, {where} {holder.name!r} on"
    return Problem("doubtful", f"{says}: the data may not have reached the disk")


def _innocent(begin: int, holder: Region, data_start: int, end: int) -> bool:
    zeros = end - begin
    if begin % _PAGE_BYTES == 0 and zeros >= _PAGE_BYTES:
        return False
    unusual_bytes = _FLOATS_IN_A_ROW * holder.item_bytes if holder.is_float else _PAGE_BYTES // 8
    to_next_row = -(begin - holder.start) % max(holder.row_bytes, 1)
    rows_unused = holder.end == end and to_next_row <= (0 if holder.is_float else unusual_bytes)
    if begin == holder.start or holder.end - begin < unusual_bytes or rows_unused:
        return zeros < _LARGE_BYTES or zeros * 2 < end - data_start
    return False
