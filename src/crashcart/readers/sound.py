"""Makes what stands in a recording sound, once: each value is of the kind that its name promises, or it is not there.

A recording may be cut, damaged, or written by somebody who wishes ill; causes rely on the kinds. Numbers are finite, words are
bounded, lists are short. What has a name that nobody asks for is kept only while it is plain and small.
"""

from __future__ import annotations

from math import isfinite, isinf
from typing import Any

__all__ = ["ending", "event_details", "facts", "finite", "page_numbers", "place", "row", "whole"]

_NUMBERS = frozenset({
    "seconds", "since", "step", "bytes", "free", "total", "inodes", "batch", "batches", "lr", "values", "started", "ended", "time",
    "largest", "largest_elements", "elements", "allocated", "reserved", "peak", "tried", "limit", "groups", "tensors", "parameters",
    "processes", "left_out", "scale", "value_bytes",
})  # fmt: skip
_WHOLE = frozenset({"pid", "parent", "job", "code", "sender", "number", "card", "rank", "worker", "start"})
_WORDS = frozenset({
    "type", "message", "phase", "thread", "signal", "line", "call", "path", "where", "what", "folder", "edge", "says", "role",
    "reason", "name", "file", "channel", "command", "alarm", "why", "how", "by", "mount", "field", "class", "place", "note", "live",
    "host", "user", "state", "python", "torch", "cuda", "interpreter",
})  # fmt: skip
_LISTS_OF_WORDS = frozenset({"frames", "because", "argv", "reached"})
_LISTS_OF_NUMBERS = frozenset({"rates", "waiting", "samples", "shape"})
_LISTS_OF_TABLES = frozenset({"fields", "left", "locals"})
_TABLES = frozenset({"machine", "git", "environment"})
_COUNTS = ("steps", "nonfinite", "train_batches", "eval_batches", "checkpoints", "beats", "own_errors")
_PLACES = ("pid", "phase", "rank", "local_rank", "world_size", "worker", "restart")
_LONGEST, _MOST = 8000, 400
_LARGEST = 1 << 53
_BEYOND = 1e19
_ENDLESS = frozenset({"limit", "high", "pids_limit", "loss"})
_NAN = float("nan")


def event_details(told: dict[str, Any]) -> dict[str, Any]:
    """The details of an event; what is not of its kind is left out."""
    return {str(name)[:100]: value for name, given in told.items() if (value := _sound(name, given)) is not None}


def facts(told: dict[str, Any]) -> dict[str, Any]:
    """What was written down about a run."""
    found = {name: value for name, given in told.items() if (value := _sound(name, given, large=True)) is not None}
    if "before" in told:
        before = told["before"] if isinstance(told["before"], list) else []
        found["before"] = [one[:_LONGEST] for one in before[:_MOST] if isinstance(one, str)]
    return found


def ending(told: dict[str, Any]) -> dict[str, Any]:
    """How the keeper saw the job end: a code or the name of a signal."""
    found = event_details(told)
    return found if "code" in found or "signal" in found else {}


def row(columns: list[str], numbers: list[float]) -> list[float]:
    """One row of a sample: what is beyond all measure was not known; only a limit may be infinite, and a loss."""
    if all(-_BEYOND < number < _BEYOND for number in numbers):
        return numbers
    return [
        number if -_BEYOND < number < _BEYOND or (name in _ENDLESS and isinf(number)) else _NAN
        for name, number in zip(columns, numbers, strict=True)
    ]


def page_numbers(numbers: dict[str, float]) -> dict[str, float]:
    """The numbers of a page: counts are counted, places are whole, and only a loss may be infinite."""
    for name, value in numbers.items():
        if name in _COUNTS:
            numbers[name] = value if isfinite(value) and 0 <= value < _LARGEST else 0.0
        elif name in _PLACES:
            numbers[name] = value if place(value) is not None else _NAN
        elif isinf(value) and name != "loss":
            numbers[name] = _NAN
    return numbers


def finite(value: object) -> float | None:
    """A number that can be calculated with."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not -_LARGEST < value < _LARGEST:
        return None  # NaN is not between them either
    return value


def whole(value: object) -> int | None:
    """A number without a fraction."""
    number = finite(value)
    return int(number) if number is not None and number == int(number) else None


def place(value: object) -> int | None:
    """A whole number from 0 on: of a process, a rank, a phase."""
    number = whole(value)
    return number if number is not None and number >= 0 else None


def _sound(name: str, value: Any, *, large: bool = False) -> Any:  # noqa: ANN401 - of the kind that the name promises
    if name in _NUMBERS:
        return finite(value)
    if name in _WHOLE:
        return whole(value)
    if name in _WORDS:
        return value[:_LONGEST] if isinstance(value, str) else None
    if name in _LISTS_OF_WORDS:
        return [one[:_LONGEST] for one in value[:_MOST] if isinstance(one, str)] if isinstance(value, list) else None
    if name in _LISTS_OF_NUMBERS:
        return [one for one in value[:_MOST] if finite(one) is not None] if isinstance(value, list) else None
    if name in _LISTS_OF_TABLES:
        return [event_details(one) for one in value[:_MOST] if isinstance(one, dict)] if isinstance(value, list) else None
    if name in _TABLES and not isinstance(value, dict):
        return None
    if isinstance(value, (dict, list)):
        return value if large or len(value) <= _MOST else None
    if isinstance(value, str):
        return value[:_LONGEST]
    return value if isinstance(value, bool) else finite(value)
