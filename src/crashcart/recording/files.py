"""Small files of ours: read as far as they are whole, written as a whole or not at all."""

from __future__ import annotations

import contextlib
import json
import os
from typing import Any

from crashcart.numbers import json_int

__all__ = ["read_json", "write_json"]


def read_json(path: str) -> dict[str, Any]:
    """A small file of ours; nothing where it is missing or damaged."""
    try:
        with open(path, encoding="utf-8") as file:
            value = json.load(file, parse_int=json_int)
    except (OSError, ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def write_json(path: str, value: dict[str, Any]) -> None:
    """Replace a small file of ours as a whole, or leave it as it was."""
    with contextlib.suppress(OSError):
        with open(path + ".new", "w", encoding="utf-8", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
            json.dump(value, file, indent=1, default=str)
            file.write("\n")
        os.replace(path + ".new", path)
