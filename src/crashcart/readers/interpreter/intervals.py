"""Numbers of which only the bounds are known: one that is drawn, an index of a loop, and what is calculated from them.

    count = random.randint(2, 24)        between 2 and 24
    size = 16 // count                   between 0 and 8

An operation is worked out for the ends; it is assumed to be monotonic between them, as those are that sizes are made with.
"""

from __future__ import annotations

import ast
import math
import operator
from typing import TYPE_CHECKING, Any

from crashcart.readers.interpreter.values import Constant, Unknown, Value, origins_of, tags_of

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["between", "bounds_of", "combined", "limited", "mapped"]

_OPERATIONS: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
}
_LARGEST = 1 << 40


def bounds_of(value: Value | None) -> tuple[float, float] | None:
    """The least and the greatest that a number can be; None where that is not known."""
    if isinstance(value, Constant):
        plain = value.value
        return (plain, plain) if type(plain) in {int, float} and math.isfinite(plain) else None
    return value.bounds if isinstance(value, Unknown) else None


def between(least: float, greatest: float, *made_of: Value | None) -> Value:
    """A number within bounds; a known one where they meet."""
    if least == greatest:
        return Constant(least, origins_of(*made_of))
    return Unknown(tags_of(*made_of), origins_of(*made_of), bounds=(least, greatest))


def combined(op: ast.operator, left: Value, right: Value) -> Value | None:
    """An operation on numbers of which at least one is known by its bounds only; None where nothing can be told."""
    ones, others = bounds_of(left), bounds_of(right)
    operation = _OPERATIONS.get(op.__class__)
    if ones is None or others is None or operation is None:
        return None
    if isinstance(op, (ast.Div, ast.FloorDiv)) and others[0] <= 0:
        return None
    results = [operation(one, other) for one in ones for other in others]
    if not all(-_LARGEST < result < _LARGEST for result in results):
        return None
    return between(min(results), max(results), left, right)


def mapped(function: Callable[[Any], Any], value: Value) -> Value | None:
    """A rounding of a number within bounds."""
    bounds = value.bounds if isinstance(value, Unknown) else None
    if bounds is None:
        return None
    return between(function(bounds[0]), function(bounds[1]), value)


def limited(name: str, values: list[Value]) -> Value | None:
    """``min`` and ``max`` of numbers of which some are known by their bounds; what is not known at all is taken to be no limit."""
    known = [bounds for bounds in map(bounds_of, values) if bounds is not None]
    if len(values) < 2 or not known or all(isinstance(value, Constant) for value in values):  # noqa: PLR2004 - two numbers
        return None
    if len(known) < len(values) and (
        name == "max" or not any(isinstance(value, Unknown) and value.bounds for value in values)
    ):
        return None
    pick = max if name == "max" else min
    return between(pick(bounds[0] for bounds in known), pick(bounds[1] for bounds in known), *values)
