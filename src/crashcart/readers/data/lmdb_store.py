"""LMDB: how many entries there are, and whether the first can be read; a cut file ends the reader by a bus error."""

from __future__ import annotations

import os
from typing import Any

__all__ = ["LIBRARY", "look"]

LIBRARY = "lmdb"


def look(path: str) -> dict[str, Any]:
    """Entries and the mean size of the first few."""
    import lmdb

    env = lmdb.open(path, readonly=True, lock=False, readahead=False, subdir=os.path.isdir(path), max_dbs=0)
    try:
        with env.begin() as transaction:
            rows = transaction.stat()["entries"]
            sizes = [len(value) for (_, value), _ in zip(transaction.cursor(), range(64), strict=False)]
            with transaction.cursor() as cursor:
                cursor.last()
    finally:
        env.close()
    return {"rows": rows, "entry_bytes": sum(sizes) // len(sizes) if sizes else 0}
