"""HDF5: the datasets of a file, through its own groups only.

Soft and external links are not followed (they may lead in a circle or to other files), and a file with endless groups is read
as far as a few hundred datasets.
"""

from __future__ import annotations

import math
from typing import Any

from crashcart.numbers import to_int
from crashcart.readers.data.tables import described

__all__ = ["LIBRARY", "look"]

LIBRARY = "h5py"

_MOST = 400
_DEEPEST = 8
_LARGEST_CHUNK = 32 << 20  # a chunk is unpacked as a whole


def look(path: str) -> dict[str, Any]:
    """Every dataset with its shape; opening fails where the file is cut short."""
    import h5py

    tables: dict[str, Any] = {}
    with h5py.File(path, "r") as file:
        waiting = [(file, "", 0)]
        while waiting and len(tables) < _MOST:
            group, above, deep = waiting.pop(0)
            for name in group:
                link = group.get(name, getlink=True)
                if not isinstance(link, h5py.HardLink) or len(tables) >= _MOST:
                    continue
                item = group[name]
                if isinstance(item, h5py.Dataset):
                    tables[f"{above}/{name}"] = _table(name, item)
                elif isinstance(item, h5py.Group) and deep < _DEEPEST:
                    waiting.append((item, f"{above}/{name}", deep + 1))
    return {"tables": tables, "whole": len(tables) < _MOST}


def _table(name: str, item: Any) -> dict[str, Any]:  # noqa: ANN401 - a dataset of h5py
    if item.shape is None:
        return {"shape": [], "bytes": 0}
    if item.chunks and math.prod(item.chunks) * item.dtype.itemsize > _LARGEST_CHUNK:
        shape = [to_int(size, 0) for size in item.shape]
        return {"shape": shape, "dtype": str(item.dtype), "bytes": math.prod(shape) * item.dtype.itemsize}
    return described(name, item)
