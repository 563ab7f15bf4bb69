"""JSON lines and CSV: the first and last lines, and how many there are where the file is not large."""

from __future__ import annotations

import csv
import io
import os
from itertools import islice
from typing import Any

from crashcart.documents import DocumentError, load_json
from crashcart.regular_files import open_regular

__all__ = ["LIBRARY", "look"]

LIBRARY = "csv"

_PIECE = 1 << 20
_COUNTED = 200 << 20
_LONGEST = 100_000  # csv takes no longer field


def look(path: str) -> dict[str, Any]:
    """Rows, where they were counted; a line of JSON that is none is a problem."""
    size = os.path.getsize(path)
    with open_regular(path) as file:
        head = file.read(_PIECE)
        file.seek(max(0, size - _PIECE))
        tail = file.read(_PIECE)
    if path.endswith(".jsonl"):
        _parsed(head.split(b"\n")[: 50 if size > _PIECE else None], whole=size <= _PIECE)
        last = [line for line in tail.split(b"\n") if line.strip()][-1:]
        if size > _PIECE and last and b"\n" in tail.rstrip(b"\n"):
            _parsed(last, whole=True)
    found: dict[str, Any] = {}
    if size <= _COUNTED:
        with open_regular(path) as file:
            pieces = islice(iter(lambda: file.read(_PIECE), b""), _COUNTED // _PIECE + 1)  # it may grow meanwhile
            rows = sum(piece.count(b"\n") for piece in pieces)
        rows += bool(tail) and not tail.endswith(b"\n")
        found["rows"] = max(0, rows - 1) if path.endswith((".csv", ".tsv")) and _has_head(head) else rows
    return found


def _parsed(lines: list[bytes], *, whole: bool) -> None:
    for number, line in enumerate(lines[: None if whole else -1], 1):
        if line.strip():
            try:
                load_json(line)
            except DocumentError:  # JSON, as far as we can tell
                continue
            except ValueError as problem:
                raise ValueError(f"line {number} is not valid JSON: {problem}") from None


def _has_head(head: bytes) -> bool:
    line = head[:_LONGEST].decode("utf-8", "replace").split("\n", 1)[0]
    first = next(csv.reader(io.StringIO(line)), [])
    return not any(word.replace(".", "", 1).isdigit() for word in first)
