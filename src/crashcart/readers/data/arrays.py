"""NumPy files by their headers: a .npy that is shorter than its header says, the members of an .npz; nothing is unpickled."""

from __future__ import annotations

import math
import os
import zipfile
from typing import IO, Any

from crashcart.readers.data.tables import described
from crashcart.regular_files import open_regular

__all__ = ["LIBRARY", "look"]

LIBRARY = "numpy"

_MOST = 200
_INFLATED = 48 << 20
_HEADER = 100_000


def look(path: str) -> dict[str, Any]:
    """One array, or those of an archive."""
    return _archive(path) if path.endswith(".npz") else _single(path)


def _single(path: str) -> dict[str, Any]:
    import numpy as np

    with open_regular(path) as file:
        shape, dtype = _header(file)
        begin = file.tell()
    if dtype.hasobject:
        return {"not_looked": "it holds pickled objects"}
    wanted = begin + math.prod(shape) * dtype.itemsize
    size = os.path.getsize(path)
    if size < wanted:
        raise EOFError(f"the header promises {wanted} bytes, the file has {size}")
    if not shape or 0 in shape:
        return {"tables": {"": {"shape": list(shape), "dtype": str(dtype), "bytes": 0}}}
    return {
        "tables": {
            "": described(os.path.splitext(os.path.basename(path))[0], np.load(path, mmap_mode="r", allow_pickle=False))
        }
    }


def _archive(path: str) -> dict[str, Any]:
    import numpy as np

    tables: dict[str, Any] = {}
    with zipfile.ZipFile(path) as archive:
        for member in archive.infolist()[:_MOST]:
            name = member.filename.removesuffix(".npy")
            with archive.open(member) as file:
                shape, dtype = _header(file)
                table = {
                    "shape": list(shape),
                    "dtype": str(dtype),
                    "bytes": math.prod(shape) * dtype.itemsize,
                }
                if dtype.hasobject or table["bytes"] > member.file_size:
                    tables[name] = table
                    continue
            if 0 < table["bytes"] <= _INFLATED and 0 not in shape:
                with archive.open(member) as file:
                    table = described(name, np.lib.format.read_array(file, allow_pickle=False))
            tables[name] = table
    return {"tables": tables}


def _header(file: IO[bytes]) -> tuple[tuple[int, ...], Any]:
    import numpy as np

    version = np.lib.format.read_magic(file)
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, _, dtype = read(file, max_header_size=_HEADER)
    return shape, dtype
