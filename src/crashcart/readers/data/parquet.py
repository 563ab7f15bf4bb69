"""Parquet: the footer (rows, columns), and the first group of rows where it is small."""

from __future__ import annotations

from typing import Any

from crashcart.readers.data.tables import LABEL

__all__ = ["LIBRARY", "look"]

LIBRARY = "pyarrow.parquet"

_SMALL = 64 << 20


def look(path: str) -> dict[str, Any]:
    """Rows and columns; the range of labels by the statistics in the footer."""
    import pyarrow.parquet as pq

    with pq.ParquetFile(path) as file:
        told = file.metadata
        tables: dict[str, Any] = {}
        for at, name in enumerate(told.schema.names):
            table: dict[str, Any] = {"shape": [told.num_rows], "dtype": str(told.schema.column(at).physical_type)}
            table["bytes"] = sum(
                told.row_group(one).column(at).total_uncompressed_size for one in range(told.num_row_groups)
            )
            seen = [told.row_group(one).column(at).statistics for one in range(told.num_row_groups)]
            if (
                LABEL.search(name)
                and seen
                and all(one is not None and one.has_min_max and isinstance(one.min, int) for one in seen)
            ):
                table["low"], table["high"] = min(one.min for one in seen), max(one.max for one in seen)
            tables[name] = table
        if told.num_row_groups and told.row_group(0).total_byte_size < _SMALL:
            file.read_row_group(0, use_threads=False)  # a damaged page shows only when it is read
    return {"tables": tables, "rows": told.num_rows}
