"""``[ ... ]`` and ``[[ ... ]]``: true, false, or None where only the shell of that day can tell.

Decided are comparisons of texts and whole numbers that are known, and whether a text is empty. What asks for a file, a
descriptor or an option of the shell is not.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from crashcart.numbers import to_int
from crashcart.readers.job.arithmetic import UnknownNumberError
from crashcart.readers.job.patterns import Pattern, UnknownPatternError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from crashcart.readers.job.words import Cell, Word

__all__ = ["Conditional", "Operand", "both", "check_words", "either", "negated"]

Operand = tuple[str, "list[Cell]"]  # as written, and its characters
_NUMBERS: dict[str, Callable[[int, int], bool]] = {
    "-eq": int.__eq__, "-ne": int.__ne__, "-lt": int.__lt__, "-le": int.__le__, "-gt": int.__gt__, "-ge": int.__ge__,
}  # fmt: skip
_WHOLE = re.compile(r"\s*([-+]?\d{1,15})\s*")
_UNARY = re.compile(r"-[a-zA-Z]")
_DEEPEST = 20


def negated(status: bool | None) -> bool | None:  # noqa: FBT001 - a status is one of three
    """``! command``."""
    return None if status is None else not status


def both(first: bool | None, second: bool | None) -> bool | None:  # noqa: FBT001
    """``a && b``."""
    return False if first is False or second is False else None if None in {first, second} else True


def either(first: bool | None, second: bool | None) -> bool | None:  # noqa: FBT001
    """``a || b``."""
    return negated(both(negated(first), negated(second)))


def check_words(words: Sequence[Word]) -> bool | None:
    """What ``test`` says of its arguments."""
    if any(word.is_loose for word in words):
        return None
    if len(words) in {2, 4} and words[0].known and words[0].text == "!" and not (len(words) == 4 and words[1].text == "("):  # noqa: PLR2004
        return negated(check_words(words[1:]))
    match words:
        case []:
            return False
        case [word]:
            return bool(word.text) if word.known else None
        case [operator, word] if operator.known and operator.text in {"-z", "-n"}:
            return bool(word.text) == (operator.text == "-n") if word.known else None
        case [left, operator, right] if operator.known and left.known and right.known:
            return _compared(left.text, operator.text, right.text)
    return None


def _compared(left: str, operator: str, right: str) -> bool | None:
    if operator in {"=", "==", "!="}:
        return (left == right) == (operator != "!=")
    first, second = _WHOLE.fullmatch(left), _WHOLE.fullmatch(right)
    if operator in _NUMBERS and first and second:
        return _NUMBERS[operator](to_int(first[1], 0), to_int(second[1], 0))
    return None


class Conditional:
    """``[[ ... ]]``: a cursor over its words."""

    def __init__(self, operands: list[Operand], number: Callable[[str], int]) -> None:
        self.operands, self.number, self.at, self.depth = operands, number, 0, 0

    def status(self) -> bool | None:
        """Whether it is true."""
        try:
            found = self._any()
        except (IndexError, UnknownNumberError, UnknownPatternError):
            return None
        return found if self.at == len(self.operands) else None

    def _peek(self) -> str:
        return self.operands[self.at][0] if self.at < len(self.operands) else ""

    def _any(self) -> bool | None:
        status = self._all()
        while self._peek() == "||":
            self.at += 1
            status = either(status, self._all())
        return status

    def _all(self) -> bool | None:
        status = self._one()
        while self._peek() == "&&":
            self.at += 1
            status = both(status, self._one())
        return status

    def _one(self) -> bool | None:
        self.depth += 1
        if self.depth > _DEEPEST:
            raise IndexError
        written, cells = self.operands[self.at]
        self.at += 1
        if written == "!":
            status = negated(self._one())
        elif written == "(":
            status = self._any()
            if self._peek() != ")":
                raise IndexError
            self.at += 1
        elif _UNARY.fullmatch(written) and self._peek() not in {"", "&&", "||", ")", "==", "=", "!="}:
            text = _text(self.operands[self.at][1])
            self.at += 1
            status = None if text is None or written not in {"-z", "-n"} else bool(text) == (written == "-n")
        elif self._peek() in {"", "&&", "||", ")"}:
            status = None if (text := _text(cells)) is None else bool(text)
        else:
            operator = self._peek()
            self.at += 2
            try:
                status = self._binary(cells, operator, self.operands[self.at - 1][1])
            except (UnknownNumberError, UnknownPatternError):
                status = None
        self.depth -= 1
        return status

    def _binary(self, left: list[Cell], operator: str, right: list[Cell]) -> bool | None:
        first, second = _text(left), _text(right)
        if first is None or second is None:
            return None
        if operator in {"=", "==", "!="}:
            return Pattern(right).matches(first) == (operator != "!=")
        if operator in _NUMBERS:
            return _NUMBERS[operator](self.number(first), self.number(second))
        return None


def _text(cells: list[Cell]) -> str | None:
    return "".join(cell.char for cell in cells) if all(cell.known for cell in cells) else None
