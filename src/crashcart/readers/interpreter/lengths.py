"""Numbers that are worked out from a length that only the data tell: how many rows a table has, how many paths a folder gave.

    n = file["action"].shape[0]      n
    n - chunk + 1                    n - 63, where chunk is 64
    max(0, (n - 64) // 4 + 1)        n / 4 - 15, not less than 0
    int(0.8 * len(paths))            n * 0.8
    n < chunk                        true where n is less than 64

All of them grow with the length, so that it can be asked from which length on they reach a number, or a test turns out otherwise.
"""

from __future__ import annotations

import ast
import math
from fractions import Fraction
from typing import TYPE_CHECKING

from crashcart.readers.interpreter.values import Constant, Unknown, Value, constant_of, origins_of, tags_of

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = [
    "Length",
    "LengthTest",
    "RunningTotal",
    "added_to_total",
    "compared_length",
    "limited_length",
    "rounded_length",
    "worked_out",
]

_LARGEST = 1 << 31
_MIRRORED: dict[type, type[ast.cmpop]] = {ast.Lt: ast.Gt, ast.LtE: ast.GtE, ast.Gt: ast.Lt, ast.GtE: ast.LtE}


class Length(Unknown):
    """``length of counted * factor + more``, rounded down where it ``is_whole``, and not less than ``least``.

    ``parts`` are the numbers that were taken off, or into which it was cut.
    """

    __slots__ = ("counted", "factor", "is_whole", "least", "more", "parts")

    def __init__(  # noqa: PLR0913 - what a length is
        self,
        counted: Value | None,
        tags: frozenset[str],
        *made_of: Value | None,
        kind: str = "",
        factor: Fraction = Fraction(1),
        more: Fraction = Fraction(0),
        least: int | None = None,
        is_whole: bool = True,
        parts: tuple[Constant, ...] = (),
    ) -> None:
        super().__init__(tags, origins_of(*made_of), kind=kind, bound=counted if kind == "length" else None)
        self.counted, self.factor, self.more, self.least, self.parts = counted, factor, more, least, parts
        self.is_whole = is_whole

    def length_for(self, number: int) -> int:
        """The length from which on this reaches a number; 0 where it always does."""
        if self.least is not None and number <= self.least:
            return 0
        return max(0, math.ceil((number - self.more) / self.factor))


class LengthTest(Unknown):
    """A test that is ``if_enough`` from ``least`` rows on, and the opposite below."""

    __slots__ = ("if_enough", "least", "rows")

    def __init__(self, rows: Length, least: int, *, if_enough: bool) -> None:
        super().__init__(rows.tags, rows.origins)
        self.rows, self.least, self.if_enough = rows, least, if_enough

    def negated(self) -> LengthTest:
        """The opposite."""
        return LengthTest(self.rows, self.least, if_enough=not self.if_enough)


class RunningTotal(Unknown):
    """A sum to which ``rows`` are added again and again: ``starts[-1] + max(0, n - chunk + 1)``."""

    __slots__ = ("rows",)

    def __init__(self, rows: Length, tags: frozenset[str], *made_of: Value) -> None:
        super().__init__(tags, origins_of(*made_of))
        self.rows = rows


def added_to_total(op: ast.operator, left: Value, right: Value) -> RunningTotal | None:
    """What is not known, and a length that is never less than 0."""
    rows, total = (left, right) if isinstance(left, Length) else (right, left)
    if isinstance(op, ast.Add) and isinstance(rows, Length) and rows.least == 0 and isinstance(total, Unknown):
        return RunningTotal(rows, tags_of(left, right), left, right)
    return None


def worked_out(op: ast.operator, left: Value, right: Value) -> Length | None:
    """A length and a known number; None where the result does not grow with the length."""
    if isinstance(right, Length) and isinstance(op, (ast.Add, ast.Mult)):
        left, right = right, left
    number = constant_of(right)
    if not isinstance(left, Length) or type(number) not in {int, float} or not abs(number) < _LARGEST:
        return None
    by = Fraction.from_float(number).limit_denominator(10**6)  # noqa: FURB164 - a number, never text
    parts = left.parts
    factor, more, least, is_whole = left.factor, left.more, left.least, left.is_whole
    if isinstance(op, (ast.Add, ast.Sub)) and (by.denominator == 1 or not is_whole):
        step = by if isinstance(op, ast.Add) else -by
        more += step
        least = least + int(step) if least is not None and step.denominator == 1 else None
        parts = (*parts, right) if isinstance(right, Constant) and step < -1 else parts
    elif isinstance(op, (ast.FloorDiv, ast.Div, ast.Mult)) and by > 0 and least is None:
        if isinstance(op, ast.Mult):
            by = 1 / by
        if is_whole and factor.denominator != 1 and (by.denominator != 1 or isinstance(op, ast.Mult)):
            return None  # what was rounded is made larger again
        factor, more, is_whole = factor / by, more / by, isinstance(op, ast.FloorDiv) or (factor / by).denominator == 1
        parts = (right,) if isinstance(right, Constant) and not parts and isinstance(op, ast.FloorDiv) else parts
    else:
        return None
    return Length(
        left.counted, tags_of(left, right), left, right,
        factor=factor, more=more, least=least, is_whole=is_whole, parts=parts,
    )  # fmt: skip


def rounded_length(value: Length) -> Length:
    """``int(0.8 * n)``."""
    return Length(
        value.counted, value.tags, value, factor=value.factor, more=value.more, least=value.least, parts=value.parts
    )


def limited_length(values: Sequence[Value]) -> Length | None:
    """``max(0, n - chunk + 1)``."""
    length = next((value for value in values if isinstance(value, Length)), None)
    least = next((constant_of(value) for value in values if isinstance(value, Constant)), None)
    if length is None or type(least) is not int or len(values) != 2:  # noqa: PLR2004 - the length and its limit
        return None
    return Length(
        length.counted, tags_of(*values), *values,
        factor=length.factor, more=length.more, is_whole=length.is_whole, parts=length.parts,
        least=least if length.least is None else max(least, length.least),
    )  # fmt: skip


def compared_length(op: ast.cmpop, left: Value, right: Value) -> LengthTest | None:
    """A length compared with a known number."""
    if isinstance(right, Length) and op.__class__ in _MIRRORED:
        left, right, op = right, left, _MIRRORED[op.__class__]()
    number = constant_of(right)
    if not isinstance(left, Length) or type(number) is not int or op.__class__ not in _MIRRORED:
        return None
    enough = left.length_for(number + isinstance(op, (ast.Gt, ast.LtE)))
    cut = Length(
        left.counted, tags_of(left, right), left, right,
        factor=left.factor, more=left.more, parts=left.parts or ((right,) if isinstance(right, Constant) else ()),
    )  # fmt: skip
    return LengthTest(cut, enough, if_enough=isinstance(op, (ast.Gt, ast.GtE)))
