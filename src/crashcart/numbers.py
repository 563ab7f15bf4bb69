"""Text and data from outside as numbers: the one place where they become ``int`` or ``float``.

Every function here answers None (or the caller's default) where there is no number that one can calculate with, and none
raises. Real input that Python's own ``int`` and ``float`` raise for, or take for something else::

    '--report_to=none']        accelerate quotes the command in every failure: float("none")
    total-vm:999...9kB         more than 4300 digits: ValueError; 400 digits: an int that no float can hold
    --nnodes 1__0:²            isdigit() says yes to ², int() does not; int() takes digits of every script
    "started": 1e400           JSON gives inf, and int(inf) raises OverflowError, int(nan) ValueError
    --time=99999999999-0       a duration that no datetime can hold

What comes out is bounded: whole numbers are smaller than ``LARGEST``, so that sums, products and conversions of a few of them
stay far below the largest float. ``tools/mypy_numbers.py`` holds the rest of crashcart to this module.
"""

from __future__ import annotations

import operator
import sys

TYPE_CHECKING = False  # importing typing would cost a tenth of `--help`
if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime
    from typing import Any, TypeVar, overload

    _Default = TypeVar("_Default")
else:

    def overload(function: object) -> object:
        """Nothing at run time."""
        return function


__all__ = [
    "LARGEST",
    "bound_number",
    "calculate",
    "format_time",
    "json_int",
    "slurm_seconds",
    "to_count",
    "to_datetime",
    "to_float",
    "to_int",
    "to_range",
    "to_unix_seconds",
    "whole_product",
]

# Above every count, size and time that anybody means (2**64 bytes are below 10**20), and ten factors of it fit a float.
LARGEST = 10**30
_LARGEST_FLOAT = sys.float_info.max
_INFINITY, _NAN = float("inf"), float("nan")
_LONGEST = 400  # characters; the longest spelling that a float can need is 330 zeros before its first digit
_DAY, _HOUR, _MINUTE = 86400, 3600, 60
_OPERATIONS: dict[str, Callable[[float, float], float]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv, "//": operator.floordiv, "%": operator.mod,
}  # fmt: skip


@overload
def to_int(value: object, *, base: int = 10) -> int | None: ...
@overload
def to_int(value: object, default: _Default, *, base: int = 10) -> int | _Default: ...
def to_int(value: object, default: object = None, *, base: int = 10) -> object:
    """A whole number of text or of a number, as ``int`` reads it; a fraction is cut off a float, never off text."""
    if isinstance(value, (str, bytes)):
        if len(value) > _LONGEST or not value.isascii():
            return default
        try:
            number = int(value, base)
        except ValueError:
            return default
    elif isinstance(value, bool) or not isinstance(value, (int, float)):
        return default
    elif isinstance(value, float):
        if not -LARGEST < value < LARGEST:  # neither infinity nor NaN is between them
            return default
        number = int(value)
    else:
        number = value
    return number if -LARGEST < number < LARGEST else default


@overload
def to_count(value: object) -> int | None: ...
@overload
def to_count(value: object, default: _Default) -> int | _Default: ...
def to_count(value: object, default: object = None) -> object:
    """A whole number from 0 on: of a rank, a process, a node, a line."""
    number = to_int(value, -1)
    return number if number >= 0 else default


@overload
def to_float(value: object, *, finite: bool = True) -> float | None: ...
@overload
def to_float(value: object, default: _Default, *, finite: bool = True) -> float | _Default: ...
def to_float(value: object, default: object = None, *, finite: bool = True) -> object:
    """A number of text or of a number, as ``float`` reads it; infinity and NaN only where they are asked for."""
    if isinstance(value, (str, bytes)):
        if len(value) > _LONGEST or not value.isascii():
            return default
    elif isinstance(value, bool) or not isinstance(value, (int, float)):
        return default
    elif isinstance(value, int) and not -_LARGEST_FLOAT <= value <= _LARGEST_FLOAT:
        value = _INFINITY if value > 0 else -_INFINITY
    try:
        number = float(value)
    except ValueError:
        return default
    return number if -_INFINITY < number < _INFINITY or not finite else default


def bound_number(value: Any) -> Any:  # noqa: ANN401 - data enters here
    """A value of a config or of source code; a whole number in it that is too large to calculate with or print becomes a float."""
    if isinstance(value, list):
        return [bound_number(item) for item in value]
    if isinstance(value, dict):
        return {key: bound_number(item) for key, item in value.items()}
    if type(value) is int and not -LARGEST < value < LARGEST:
        return to_float(value, finite=False)
    return value


def json_int(digits: str) -> int | float:
    """What ``json.loads(..., parse_int=json_int)`` makes of a whole number: Python's own raises above 4300 digits."""
    number = to_int(digits)
    return number if number is not None else to_float(digits[:_LONGEST], 0.0, finite=False)


def whole_product(value: object, unit: float) -> int | None:
    """``12`` and ``1.5`` times a unit, rounded down: bytes of a size, seconds of a duration."""
    number = to_int(value)
    return to_int((number if number is not None else to_float(value, _NAN)) * unit)


def calculate(sign: str, left: float, right: float) -> float | None:
    """``left sign right`` for ``+ - * / // %``; None where there is no result, or one that is beyond all measure."""
    operation = _OPERATIONS.get(sign)
    sound = -LARGEST < left < LARGEST and -LARGEST < right < LARGEST and (right or sign not in {"/", "//", "%"})
    result = operation(left, right) if operation is not None and sound else _NAN
    return result if -LARGEST < result < LARGEST else None


def to_range(text: str) -> tuple[int, int] | None:
    """``4`` and ``1:4``, as launchers write numbers of nodes: the least and the most."""
    least, colon, most = text.partition(":")
    first, last = to_int(least), to_int(most) if colon else to_int(least)
    return None if first is None or last is None or first > last else (first, last)


def slurm_seconds(text: str) -> int | None:
    """A duration of Slurm: ``minutes``, ``minutes:seconds``, ``hours:minutes:seconds``, ``days-hours[:minutes[:seconds]]``."""
    days, dash, rest = text.strip().partition("-")
    fields = [to_int(field, -1) if field.isdigit() else -1 for field in (rest if dash else days).split(":")]
    if len(fields) > 3 or -1 in fields:  # noqa: PLR2004 - hours, minutes and seconds
        return None
    if not dash:
        units = {1: (_MINUTE,), 2: (_MINUTE, 1), 3: (_HOUR, _MINUTE, 1)}[len(fields)]
        return to_int(sum(field * unit for field, unit in zip(fields, units, strict=True)))
    count = to_int(days) if days.isdigit() else None
    if count is None:
        return None
    return to_int(count * _DAY + sum(field * unit for field, unit in zip(fields, (_HOUR, _MINUTE, 1), strict=False)))


def to_datetime(seconds: object) -> datetime | None:
    """A time stamp in Unix seconds as a date in UTC; None outside the years 1 to 9999."""
    from datetime import datetime, timezone

    number = to_float(seconds)
    try:
        return None if number is None else datetime.fromtimestamp(number, timezone.utc)
    except (ValueError, OverflowError, OSError):
        return None


def format_time(seconds: object, layout: str, *, utc: bool = True) -> str:
    """A time stamp as ``time.strftime`` writes it, in UTC or in local time; a question mark where no calendar has it."""
    import time

    number = to_float(seconds)
    try:
        return "?" if number is None else time.strftime(layout, time.gmtime(number) if utc else time.localtime(number))
    except (ValueError, OverflowError, OSError):
        return "?"


def to_unix_seconds(
    year: object, month: object, day: object, hour: object = 0, minute: object = 0, second: object = 0
) -> float | None:
    """Unix seconds of a date in UTC, a leap second included; None where the calendar has no such time."""
    from datetime import datetime, timezone

    fields = [to_int(field, -1) for field in (year, month, day, hour, minute)]
    seconds = to_float(second, -1.0)
    try:
        minutes = datetime(*fields, tzinfo=timezone.utc)  # type: ignore[misc,arg-type]
    except (ValueError, OverflowError):
        return None
    return minutes.timestamp() + seconds if 0 <= seconds <= _MINUTE else None
