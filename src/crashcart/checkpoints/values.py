"""A sample of the values of a checkpoint: weights that are NaN load well, and there is nothing to go on from.

The beginnings of up to 64 tensors are looked at, spread over the file. An infinity is no sign: masks are made of them.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from crashcart.checkpoints.model import Problem

if TYPE_CHECKING:
    from collections.abc import Sequence

    from crashcart.checkpoints.spans import Span

__all__ = ["FLOATS", "Floats", "nan_in"]

# How many bytes a value has, as what it is read, and the bits of infinity: without its sign a NaN is larger.
FLOATS: Final = {
    "F16": (2, "H", 0x7C00),
    "BF16": (2, "H", 0x7F80),
    "F32": (4, "I", 0x7F800000),
    "F64": (8, "Q", 0x7FF0000000000000),
}
_MOST_TENSORS: Final = 64
_MOST_BYTES: Final = 4096


@dataclass(frozen=True)
class Floats:
    """Where the values of one tensor lie in a file, little end first; `kind` is a name of ``FLOATS``."""

    name: str
    start: int
    size: int
    kind: str


def nan_in(span: Span, tensors: Sequence[Floats]) -> Problem | None:
    """Doubt a checkpoint of whose values a sample is NaN."""
    sample = tensors[:: -(-len(tensors) // _MOST_TENSORS) or 1]
    with_nan = [tensor.name for tensor in sample if _has_nan(span, tensor)]
    if not with_nan:
        return None
    sampled = "sampled " if len(sample) < len(tensors) else ""
    counted = f"{len(with_nan)} of {len(sample)} {sampled}tensors hold NaN"
    return Problem("doubtful", f"{counted}, the first is {with_nan[0]}: training cannot go on from these values")


def _has_nan(span: Span, tensor: Floats) -> bool:
    width, letter, limit = FLOATS[tensor.kind]
    count = min(tensor.size, _MOST_BYTES) // width
    without_sign = limit | (limit - 1)
    values = struct.unpack(f"<{count}{letter}", span.at(tensor.start, count * width))
    return any(value & without_sign > limit for value in values)
