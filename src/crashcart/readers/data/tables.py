"""What is asked of every array, whatever file it lies in: its shape and size, whether a few rows are finite, the range of labels."""

from __future__ import annotations

import re
from typing import Any

__all__ = ["LABEL", "described", "spread"]

LABEL = re.compile(r"(?i)(?:^|[/_.])(?:labels?|targets?|class(?:_?ids?|es)?|y|category(?:_?ids?)?)$")
_ROWS = 8  # single rows, spread over the array
_ELEMENTS = 2_000_000
_LABELS = 4_000_000


def described(name: str, array: Any) -> dict[str, Any]:  # noqa: ANN401 - anything with shape, dtype and rows
    """An array by what its header says, with a look at a few rows."""
    import math

    shape: list[int] = list(array.shape)
    dtype = array.dtype
    found: dict[str, Any] = {"shape": shape, "dtype": str(dtype), "bytes": math.prod(shape) * dtype.itemsize}
    kind = getattr(dtype, "kind", "O")
    if kind == "f" and shape and 0 not in shape:
        found["nonfinite"] = _nonfinite(array, shape)
    if kind in "iu" and LABEL.search(name) and 0 < math.prod(shape) <= _LABELS:
        values = array[()] if not shape else array[:]
        found["low"], found["high"] = values.min().item(), values.max().item()
    return found


def _nonfinite(array: Any, shape: list[int]) -> list[int]:  # noqa: ANN401 - as above
    """The rows, of those looked at, that hold a value that is not finite."""
    import math

    import numpy as np

    row = math.prod(shape[1:])
    if row > _ELEMENTS:
        return []
    at = range(shape[0]) if math.prod(shape) <= _ELEMENTS else spread(shape[0], max(1, min(_ROWS, _ELEMENTS // max(1, row))))
    if len(at) == shape[0]:
        values = np.asarray(array[:], dtype=np.float64).reshape(shape[0], -1)
        rows: list[int] = np.flatnonzero(~np.isfinite(values).all(axis=1))[:5].tolist()
        return rows
    return [one for one in at if not np.isfinite(np.asarray(array[one], dtype=np.float64)).all()][:5]


def spread(count: int, wanted: int) -> list[int]:
    """So many numbers below a count, evenly, the first and the last among them."""
    if count <= wanted:
        return list(range(count))
    return sorted({number * (count - 1) // (wanted - 1) if wanted > 1 else 0 for number in range(wanted)})
