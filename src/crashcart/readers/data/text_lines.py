"""JSON lines and CSV: the first and last lines, and how many there are where the file is not large."""

from __future__ import annotations

import csv
import io
import json
import os
from typing import Any

__all__ = ["look"]

_PIECE = 1 << 20
_COUNTED = 200 << 20


def look(path: str) -> dict[str, Any]:
    """Rows, where they were counted; a line of JSON that is none is a problem."""
    size = os.path.getsize(path)
    with open(path, "rb") as file:
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
        with open(path, "rb") as file:
            rows = sum(piece.count(b"\n") for piece in iter(lambda: file.read(_PIECE), b""))
        rows += bool(tail) and not tail.endswith(b"\n")
        found["rows"] = max(0, rows - 1) if path.endswith((".csv", ".tsv")) and _has_head(head) else rows
    return found


def _parsed(lines: list[bytes], *, whole: bool) -> None:
    for number, line in enumerate(lines[: None if whole else -1], 1):
        if line.strip():
            try:
                json.loads(line)
            except ValueError as problem:
                raise ValueError(f"a line of it is no JSON ({number}): {problem}") from None


def _has_head(head: bytes) -> bool:
    first = next(csv.reader(io.StringIO(head.decode("utf-8", "replace").split("\n", 1)[0])), [])
    return not any(word.replace(".", "", 1).isdigit() for word in first)
