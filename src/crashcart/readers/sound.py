"""Makes what stands in a recording sound, once: each value is of the kind that its name promises, or it is not there.

A recording may be cut, damaged, or written by somebody who wishes ill; causes rely on the kinds. Numbers are finite, words are
bounded, lists are short, and so is what stands inside of tables and lists. What has a name that nobody asks for is kept only
while it is plain and small. Whatever reads a file of a run folder reads it through here.
"""

from __future__ import annotations

from math import isfinite, isinf
from typing import Any

from crashcart.numbers import to_int

__all__ = ["ending", "event_details", "facts", "finite", "left_out", "page_numbers", "place", "row", "whole"]

_NUMBERS = frozenset({
    "seconds", "since", "step", "bytes", "free", "total", "inodes", "batch", "batches", "lr", "values", "started", "ended", "time",
    "largest", "largest_elements", "elements", "allocated", "reserved", "peak", "tried", "limit", "groups", "tensors", "parameters",
    "processes", "left_out", "scale", "value_bytes", "clock", "lost", "memory", "cores",
    "given", "taken", "missing", "unexpected", "epochs", "stepped", "frozen", "without",
})  # fmt: skip
_WHOLE = frozenset({
    "pid", "parent", "job", "keeper", "code", "sender", "number", "card", "index", "rank", "worker", "start", "least", "open_files",
})  # fmt: skip
_WORDS = frozenset({
    "type", "message", "phase", "thread", "signal", "line", "call", "path", "where", "what", "folder", "edge", "says", "role",
    "reason", "name", "file", "channel", "command", "alarm", "why", "how", "by", "mount", "field", "class", "place", "note", "live",
    "host", "user", "state", "python", "torch", "cuda", "interpreter", "boot", "pids", "group", "program", "bus", "cause", "title",
})  # fmt: skip
_LISTS_OF_WORDS = frozenset({"frames", "because", "argv", "reached", "logs", "missing_names", "unexpected_names"})
_LISTS_OF_NUMBERS = frozenset({"rates", "waiting", "samples", "shape", "clocks", "idle"})
_LISTS_OF_TABLES = frozenset({"fields", "left", "locals", "cards", "stages", "findings"})
_TABLES = frozenset({"machine", "environment", "node", "git", "ending"})
_COUNTS = ("steps", "nonfinite", "train_batches", "eval_batches", "checkpoints", "beats", "own_errors")
_PLACES = ("pid", "phase", "rank", "local_rank", "world_size", "worker", "restart")
_LONGEST, _MOST, _DEEPEST = 8000, 400, 8
_MOST_FACTS = 20_000
_LARGEST = 1 << 53
_BEYOND = 1e19
_HUGE = 1e300
_PAIR = 2
_ENDLESS = frozenset({"limit", "high", "pids_limit", "loss"})
_NAN = float("nan")


def event_details(told: dict[str, Any]) -> dict[str, Any]:
    """The details of an event; what is not of its kind is left out."""
    return _table(told, _MOST, _DEEPEST)


def facts(told: dict[str, Any]) -> dict[str, Any]:
    """What was written down about a run."""
    before = told.get("before")  # attempts; an event has the rates under this name
    attempts = [one[:_LONGEST] for one in before[:_MOST] if isinstance(one, str)] if isinstance(before, list) else []
    return _table(told, _MOST_FACTS, _DEEPEST) | ({"before": attempts} if "before" in told else {})


def left_out(told: dict[str, Any]) -> list[str]:
    """The names in a file of a run whose values are not what they should be."""
    kept = facts(told)
    return [name for name, value in told.items() if value is not None and name not in kept]


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
    return to_int(number) if number == to_int(number) else None


def place(value: object) -> int | None:
    """A whole number from 0 on: of a process, a rank, a phase."""
    number = whole(value)
    return number if number is not None and number >= 0 else None


def _table(told: dict[str, Any], most: int, deepest: int) -> dict[str, Any]:
    named = ((name[:100], _sound(name, value, most, deepest)) for name, value in list(told.items())[:most])
    return {name: value for name, value in named if value is not None}


def _sound(name: str, value: Any, most: int, deepest: int) -> Any:  # noqa: ANN401 - of the kind that the name promises
    if name in _NUMBERS:
        return finite(value)
    if name in _WHOLE:
        return whole(value)
    if name in _WORDS:
        return value[:_LONGEST] if isinstance(value, str) else None
    if name in _LISTS_OF_WORDS:
        return [one[:_LONGEST] for one in value[:most] if isinstance(one, str)] if isinstance(value, list) else None
    if name in _LISTS_OF_NUMBERS:
        return [one for one in value[:most] if finite(one) is not None] if isinstance(value, list) else None
    if name == "settings":
        return _settings(value, most)
    tables = name in _LISTS_OF_TABLES
    if (tables and not isinstance(value, list)) or (name in _TABLES and not isinstance(value, dict)):
        return None
    return _plain([one for one in value[:most] if isinstance(one, dict)] if tables else value, most, deepest)


def _settings(value: Any, most: int) -> list[list[Any]] | None:  # noqa: ANN401 - data of any kind
    """Pairs of a name and what the program had there: a rate of 1e30 is news, and no number that is calculated with."""
    if not isinstance(value, list):
        return None
    pairs = [one for one in value[:most] if isinstance(one, list) and len(one) == _PAIR and isinstance(one[0], str)]
    return [[name[:_LONGEST], setting] for name, setting in pairs if _is_setting(setting)]


def _is_setting(value: object) -> bool:
    if isinstance(value, str):
        return len(value) <= _LONGEST
    return value is None or isinstance(value, bool) or (isinstance(value, (int, float)) and -_HUGE < value < _HUGE)


def _plain(value: Any, most: int, deepest: int) -> Any:  # noqa: ANN401 - data of any kind
    """What nothing was promised of: plain and small, and so is what stands in it."""
    if isinstance(value, (dict, list)) and (not deepest or len(value) > most):
        return None
    if isinstance(value, dict):
        return _table(value, most, deepest - 1)
    if isinstance(value, list):
        return [_plain(one, most, deepest - 1) for one in value]
    if isinstance(value, str):
        return value[:_LONGEST]
    return value if isinstance(value, bool) else finite(value)
