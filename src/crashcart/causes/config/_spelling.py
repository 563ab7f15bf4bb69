"""Numbers as people write them, and as every YAML loader reads them."""

from __future__ import annotations

from crashcart.cause import compiled
from crashcart.numbers import to_float, to_int

__all__ = ["ODD", "as_number", "as_plain"]

# Made of digits and what stands between them; a plain number is told apart before.
ODD = r"[+-]?[\d(][\d\s.,:%/*eE+()_-]*"
_THOUSANDS = r"[+-]?\d{1,3}(?:[,_ ]\d{3})+"
_TIME = r"\d+(?::[0-5]?\d){1,2}"
_TUPLE = r"\(([^()]*)\)"
_RATIO = r"(\d[\d.]*)\s*(/|\*\*)\s*(-?\d[\d.]*)"
_LARGEST = 1e15


def as_number(text: str) -> str:
    """A number that YAML 1.1, JSON and TOML all read as one: ``1e4`` as ``1.0e+4``, ``08`` as ``8``, ``+.5`` as ``0.5``."""
    mantissa, mark, exponent = text.lstrip("+-").replace("_", "").lower().partition("e")
    whole, point, fraction = mantissa.partition(".")
    number = ("-" if text.startswith("-") else "") + (whole.lstrip("0") or "0")
    if point or mark:
        number += f".{fraction or '0'}"
    return f"{number}e{exponent if exponent[0] in '+-' else '+' + exponent}" if mark else number


def as_plain(text: str) -> str | None:
    """``1,000`` as ``1000``, ``10%`` as ``0.1``, ``00:30:00`` as ``1800``, ``(1, 2)`` as ``[1, 2]``; None where unsure."""
    if compiled(_THOUSANDS).fullmatch(text):
        return text.replace(",", "").replace("_", "").replace(" ", "")
    if compiled(_TIME).fullmatch(text):
        parts = [to_int(one, 0) for one in text.split(":")]
        seconds = 0
        for part in parts:
            seconds = seconds * 60 + part
        return str(seconds) if len(parts) == 3 else None
    if found := compiled(_TUPLE).fullmatch(text):
        return f"[{found[1].strip().rstrip(',')}]"
    if compiled(r"\d+(?:\.\d+)?%").fullmatch(text):
        return _written(to_float(text[:-1], 0.0) / 100)
    if found := compiled(_RATIO).fullmatch(text):
        left, right = to_float(found[1], 0.0), to_float(found[3], 0.0)
        if found[2] == "/" and right:
            return _written(left / right)
        if found[2] == "**" and abs(right) < 64:
            return _written(left**right)
    return None


def _written(value: float) -> str:
    if value == to_int(value) and abs(value) < _LARGEST:
        return str(to_int(value))
    return as_number(repr(value))
