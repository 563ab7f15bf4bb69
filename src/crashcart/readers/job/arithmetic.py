"""Arithmetic of the shell: ``$((GPUS / 8))``, ``(( i++ ))``, ``let x=3*2``; 64 bits, whole numbers, variables by name.

A variable holds text, and its text is an expression in turn. What is not known, or what bash refuses, raises
``UnknownNumberError``.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from crashcart.numbers import to_int

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["UnknownNumberError", "assigned_names", "evaluate"]

_TOKEN = re.compile(
    r"\s*(?:(?P<number>\d[\w#@]*)|(?P<name>[A-Za-z_]\w*)(?P<index>\[)?"
    r"|(?P<operator><<=|>>=|\*\*|\+\+|--|&&|\|\||<<|>>|[-+*/%&|^<>=!]=|[-+*/%&|^<>=!~?:,()]))"
)
_ASSIGNS = re.compile(
    r"(?<!\w)([A-Za-z_]\w*)(?:\[[^\]]{0,9}\])?\s{0,9}(?:(?:<<|>>|[-+*/%&|^])?=(?!=)|\+\+|--)|(?:\+\+|--)\s{0,9}([A-Za-z_]\w*)"
)
_LEVELS = {
    "||": 1, "&&": 2, "|": 3, "^": 4, "&": 5, "==": 6, "!=": 6, "<": 7, ">": 7, "<=": 7, ">=": 7, "<<": 8, ">>": 8,
    "+": 9, "-": 9, "*": 10, "/": 10, "%": 10, "**": 12,
}  # fmt: skip
_ASSIGNMENTS = {"=", "+=", "-=", "*=", "/=", "%=", "<<=", ">>=", "&=", "^=", "|="}
_LONGEST = 2000
_DEEPEST = 12
_MOST_OPEN = 40
_LONGEST_NUMBER = 64
_WORD = 1 << 64


class UnknownNumberError(Exception):
    """An expression whose value cannot be told."""


def assigned_names(text: str) -> set[str]:
    """The variables that an expression may set."""
    return {match[1] or match[2] for match in _ASSIGNS.finditer(text)}


def evaluate(text: str, read: Callable[[str], str], assign: Callable[[str, str], None], depth: int = 0) -> int:
    """The value of an expression; ``read`` raises ``UnknownNumberError`` for what is not known."""
    if depth > _DEEPEST or len(text) > _LONGEST:
        raise UnknownNumberError
    if not text.strip():
        return 0
    expression = _Expression(text, read, assign, depth)
    value = expression.comma()
    if expression.tokens[expression.at][1] is not None:
        raise UnknownNumberError
    return value


def _wrapped(value: int) -> int:
    return (value + (_WORD >> 1)) % _WORD - (_WORD >> 1)


class _Expression:
    """A cursor over the tokens; while ``skipping`` nothing is read or set (``0 && x++``)."""

    def __init__(self, text: str, read: Callable[[str], str], assign: Callable[[str, str], None], depth: int) -> None:
        self.read_variable, self.assign_variable, self.depth = read, assign, depth
        self.tokens: list[tuple[str, str | None]] = []
        self.at = self.skipping = self.open = 0
        at = 0
        text = text.rstrip()
        while at < len(text):
            match = _TOKEN.match(text, at)
            if match is None or match["index"]:
                raise UnknownNumberError
            self.tokens.append((match.lastgroup or "", match[match.lastgroup or 0]))
            at = match.end()
        self.tokens.append(("end", None))

    def take(self, *operators: str) -> str:
        kind, text = self.tokens[self.at]
        if kind == "operator" and text in operators:
            self.at += 1
            return text or ""
        return ""

    def expect(self, operator: str) -> None:
        if not self.take(operator):
            raise UnknownNumberError

    def comma(self) -> int:
        self.open += 1
        if self.open > _MOST_OPEN:
            raise UnknownNumberError
        value = self.assignment()
        while self.take(","):
            value = self.assignment()
        self.open -= 1
        return value

    def assignment(self) -> int:
        kind, name = self.tokens[self.at]
        operator = self.tokens[self.at + 1][1] if kind == "name" else None
        if kind != "name" or name is None or operator not in _ASSIGNMENTS:
            return self.ternary()
        self.at += 2
        self.open += 1
        if self.open > _MOST_OPEN:
            raise UnknownNumberError
        before = self.value_of(name) if operator != "=" else 0
        value = self.assignment()
        self.open -= 1
        return self.set(name, self.apply(operator[:-1], before, value) if operator != "=" else value)

    def ternary(self) -> int:
        condition = self.binary(1)
        if not self.take("?"):
            return condition
        first = self.skipped(not condition, self.comma)
        self.expect(":")
        second = self.skipped(bool(condition), self.ternary)  # an assignment is refused here
        return first if condition else second

    def skipped(self, skip: bool, read: Callable[[], int]) -> int:  # noqa: FBT001 - three callers here
        self.skipping += skip
        value = read()
        self.skipping -= skip
        return value

    def binary(self, level: int) -> int:
        left = self.unary()
        while True:
            operator = self.tokens[self.at][1] if self.tokens[self.at][0] == "operator" else None
            own = _LEVELS.get(operator or "", 0)
            if operator is None or own < level:
                return left
            self.at += 1
            if operator in {"&&", "||"}:
                decided = (not left) if operator == "&&" else bool(left)
                right = self.skipped(decided, lambda: self.binary(own + 1))  # noqa: B023 - called at once
                left = int(bool(left) and bool(right)) if operator == "&&" else int(bool(left) or bool(right))
            else:
                left = self.apply(operator, left, self.binary(own if operator == "**" else own + 1))

    def unary(self) -> int:
        operator = self.take("+", "-", "!", "~", "++", "--")
        if not operator:
            return self.primary()
        kind, name = self.tokens[self.at]
        if operator in {"++", "--"}:
            if kind != "name" or name is None:
                raise UnknownNumberError
            self.at += 1
            return self.set(name, self.value_of(name) + (1 if operator == "++" else -1))
        self.open += 1
        if self.open > _MOST_OPEN:
            raise UnknownNumberError
        value = self.unary()
        self.open -= 1
        return _wrapped({"+": value, "-": -value, "!": int(not value), "~": ~value}[operator])

    def primary(self) -> int:
        if self.take("("):
            value = self.comma()
            self.expect(")")
            return value
        kind, text = self.tokens[self.at]
        if kind not in {"number", "name"} or text is None:
            raise UnknownNumberError
        self.at += 1
        if kind == "number":
            return _number(text)
        value = self.value_of(text)
        if step := self.take("++", "--"):
            self.set(text, value + (1 if step == "++" else -1))
        return value

    def value_of(self, name: str) -> int:
        if self.skipping:
            return 1
        return evaluate(self.read_variable(name), self.read_variable, self.assign_variable, self.depth + 1)

    def set(self, name: str, value: int) -> int:
        if not self.skipping:
            self.assign_variable(name, str(_wrapped(value)))
        return _wrapped(value)

    def apply(self, operator: str, left: int, right: int) -> int:
        if self.skipping:
            return 1
        if (operator in {"/", "%"} and not right) or (operator in {"<<", ">>"} and not 0 <= right < 64):  # noqa: PLR2004 - bits
            raise UnknownNumberError
        if operator in {"/", "%"}:
            quotient = abs(left) // abs(right) * (1 if (left < 0) == (right < 0) else -1)
            return _wrapped(quotient if operator == "/" else left - quotient * right)
        if operator == "**":
            if right < 0:
                raise UnknownNumberError
            return _wrapped(pow(left, right, _WORD))
        return _wrapped(int(_PLAIN[operator](left, right)))


_PLAIN: dict[str, Callable[[int, int], int]] = {
    "+": int.__add__, "-": int.__sub__, "*": int.__mul__, "&": int.__and__, "|": int.__or__, "^": int.__xor__,
    "<<": int.__lshift__, ">>": int.__rshift__, "<": int.__lt__, ">": int.__gt__, "<=": int.__le__, ">=": int.__ge__,
    "==": int.__eq__, "!=": int.__ne__,
}  # fmt: skip


def _number(text: str) -> int:
    """``12``, ``0x1f``, ``017`` and ``2#101``."""
    base, mark, digits = text.partition("#")
    if mark:
        radix = to_int(base, 0)
        if radix not in range(2, 37):
            raise UnknownNumberError
    elif text[:2] in {"0x", "0X"}:
        radix, digits = 16, text[2:]
    else:
        radix, digits = (8, text[1:] or "0") if text[0] == "0" else (10, text)
    value = to_int(digits, base=radix) if digits.isalnum() and len(digits) <= _LONGEST_NUMBER else None
    if value is None:
        raise UnknownNumberError
    return _wrapped(value)
