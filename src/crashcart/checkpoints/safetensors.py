"""safetensors files: a length, a JSON table, and the tensors side by side.

    8 bytes length   {"weight": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}, "__metadata__": {...}}  data

There is no checksum, yet the format leaves no slack: the tensors must lie without gap or overlap and end with the file.
A changed byte in the data cannot be seen; lost bytes can, and lost pages often (see `zeros`).
"""

from __future__ import annotations

import math
import struct
from typing import TYPE_CHECKING, Final, TypeGuard

from crashcart.checkpoints import values, zeros
from crashcart.checkpoints.model import DamageError, Look, Problem, in_words
from crashcart.checkpoints.spans import AT_ONCE_BYTES, Span
from crashcart.documents import json_weight, load_json

if TYPE_CHECKING:
    from collections.abc import Iterator

_LENGTH: Final = struct.Struct("<Q")
# The library refuses longer headers.
_HEADER_LIMIT_BYTES: Final = 100_000_000
_HEAVIEST_BYTES: Final = 64 << 20  # in memory: about 90,000 tensors
_BITS: Final = {
    "F4": 4,
    "F6_E2M3": 6,
    "F6_E3M2": 6,
    **dict.fromkeys(("BOOL", "U8", "I8", "F8_E5M2", "F8_E4M3", "F8_E8M0", "F8_E4M3FNUZ", "F8_E5M2FNUZ"), 8),
    **dict.fromkeys(("I16", "U16", "F16", "BF16"), 16),
    **dict.fromkeys(("I32", "U32", "F32"), 32),
    **dict.fromkeys(("I64", "U64", "F64", "C64"), 64),
}
_BEGIN_AND_END: Final = 2
_MOST_SIDES: Final = 64
_LARGEST_COUNT: Final = 1 << 63
_FLOATS: Final = frozenset({"F16", "BF16", "F32", "F64"})


def look_at_safetensors(span: Span) -> Look:
    """Check one safetensors file."""
    header, data_start = _header(span)
    header.pop("__metadata__", None)
    regions = sorted((_region(name, entry, data_start) for name, entry in header.items()), key=lambda r: (r.start, r.end))
    problems = list(_problems(span, regions, data_start))
    doubts = () if problems else (zeros.doubt(span, regions), values.nan_in(span, _floats(header, regions)))
    return Look("safetensors", (*problems, *filter(None, doubts)), keys=frozenset(header))


def _floats(header: dict[str, object], regions: list[zeros.Region]) -> list[values.Floats]:
    kinds = {name: entry["dtype"] for name, entry in header.items() if isinstance(entry, dict)}
    return [
        values.Floats(region.name, region.start, region.end - region.start, kind)
        for region in regions
        if (kind := kinds.get(region.name)) in values.FLOATS
    ]


def _header(span: Span) -> tuple[dict[str, object], int]:
    if span.size < _LENGTH.size:
        raise DamageError(Problem("broken", f"the file ends in its first 8 bytes ({in_words(span.size)} on disk)"))
    (length,) = _LENGTH.unpack(span.at(0, _LENGTH.size))
    if length > _HEADER_LIMIT_BYTES:
        raise DamageError(
            Problem("broken", "not safetensors, or its first 8 bytes are damaged: the header would be longer than allowed")
        )
    if _LENGTH.size + length > span.size:
        raise DamageError(Problem("broken", f"the file ends in the middle of its header ({in_words(span.size)} on disk)"))
    if length > AT_ONCE_BYTES:
        raise DamageError(Problem("unknown", f"its header of {in_words(length)} is more than is read at once"))
    text = b"".join(span.pieces(_LENGTH.size, length))
    if json_weight(text) > _HEAVIEST_BYTES:
        raise DamageError(Problem("unknown", f"its header of {in_words(length)} names too many tensors to look at"))
    try:
        header = load_json(text, most_bytes=_HEAVIEST_BYTES, object_pairs_hook=_no_repetition)
    except ValueError as error:
        raise DamageError(Problem("broken", "its header is not readable JSON")) from error
    if not isinstance(header, dict):
        raise DamageError(Problem("broken", "its header is not a table of tensors"))
    return header, _LENGTH.size + length


def _no_repetition(pairs: list[tuple[str, object]]) -> dict[str, object]:
    table = dict(pairs)
    if len(table) != len(pairs):
        message = "a name occurs twice"
        raise ValueError(message)
    return table


def _region(name: str, entry: object, data_start: int) -> zeros.Region:
    fields = entry if isinstance(entry, dict) else {}
    dtype, shape, offsets = fields.get("dtype"), fields.get("shape"), fields.get("data_offsets")
    if not isinstance(dtype, str) or not _are_counts(shape) or not _are_counts(offsets) or len(offsets) != _BEGIN_AND_END:
        raise DamageError(Problem("broken", f"its header describes {name!r} in a way that makes no sense"))
    bits = _BITS.get(dtype)
    if bits is None:
        raise DamageError(Problem("unknown", f"{name!r} has the dtype {dtype!r}, which is not known here"))
    begin, end = offsets
    if (end - begin) * 8 != math.prod(shape) * bits:
        raise DamageError(
            Problem("broken", f"{name!r} has {end - begin} bytes, which does not fit its shape {shape} and dtype {dtype}")
        )
    item_bytes = max(1, bits // 8)
    row_bytes = zeros.row_items(shape) * bits // 8
    return zeros.Region(name, data_start + begin, data_start + end, item_bytes, row_bytes, dtype in _FLOATS)


def _are_counts(values: object) -> TypeGuard[list[int]]:
    if not isinstance(values, list) or len(values) > _MOST_SIDES:
        return False
    return all(type(value) is int and 0 <= value < _LARGEST_COUNT for value in values)


def _problems(span: Span, regions: list[zeros.Region], data_start: int) -> Iterator[Problem]:
    position = data_start
    for region in regions:
        if region.start != position:
            yield Problem("broken", f"{region.name!r} does not begin where the tensor before it ends")
            return
        position = region.end
    if position > span.size:
        missing = in_words(position - span.size)
        yield Problem("broken", f"the file ends in the middle: {missing} are missing ({in_words(span.size)} on disk)")
    if position < span.size:
        yield Problem("broken", f"{in_words(span.size - position)} follow after the last tensor")
