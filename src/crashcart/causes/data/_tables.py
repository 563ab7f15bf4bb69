"""Tables of data files beside the places of the code that read them."""

from __future__ import annotations

import re

__all__ = ["fits"]


def fits(key: str, table: str) -> bool:
    """Whether the name that the code asks for (``#`` for what is put in later) is this table of the file."""
    wanted = key.strip("/")
    pattern = "".join(".*" if part == "#" else re.escape(part) for part in re.split("(#)", wanted))
    name = table.strip("/")
    return bool(wanted.strip("#/")) and bool(re.fullmatch(rf"(?:.*/)?{pattern}", name))
