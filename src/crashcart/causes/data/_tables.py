"""Tables of data files beside the places of the code that read them."""

from __future__ import annotations

__all__ = ["fits"]


def fits(key: str, table: str) -> bool:
    """Whether the name that the code asks for (``#`` for what is put in later) is this table of the file, below any group."""
    wanted, name = key.strip("/"), table.strip("/")
    if not wanted.strip("#/"):
        return False
    first, *rest = wanted.split("#")
    if not rest:
        return name == first or name.endswith(f"/{first}")
    starts = [0] if name.startswith(first) else []
    place = name.find(f"/{first}")
    starts += [place + 1] if place >= 0 else []
    return any(_follow(rest, name, start + len(first)) for start in starts)


def _follow(parts: list[str], name: str, place: int) -> bool:
    """Whether the parts stand one after another in the rest of the name, the last at its end: each at its first place."""
    *between, last = parts
    for part in between:
        found = name.find(part, place)
        if found < 0:
            return False
        place = found + len(part)
    return name.endswith(last) and len(name) - len(last) >= place
