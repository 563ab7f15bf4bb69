"""One word of a shell script: quotes taken off, variables filled in, and for every character the place where it is written.

    BATCH=16                      # the 16 that an edit must change
    ARGS=(--lr 1e-4)
    torchrun train.py --batch_size=$BATCH "${ARGS[@]}" --out "runs/${NAME:-first}"

A variable that is used once is edited where it is set; one that is used twice is edited where it is used, or a change meant
for the sampling batch would change the training batch too.
"""

from __future__ import annotations

import re
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING

from crashcart.model import Span
from crashcart.numbers import to_count
from crashcart.record import record

if TYPE_CHECKING:
    from collections.abc import Container

__all__ = ["UNIT", "Expander", "Word", "joined", "texts"]

_NESTED = r"\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\)"
_BRACED = r"\{(?:[^{}]|\$\{[^{}]*\})*\}"
_DOLLAR = rf"\$(?:{_NESTED}|{_BRACED}|[A-Za-z_]\w*|[0-9@*#?$!-])"
UNIT = re.compile(
    rf"(?P<escape>\\(?:.|\n|$))|(?P<ansi>\$'(?:[^'\\]|\\.)*')|(?P<single>'[^']*')"
    rf"|(?P<double>\"(?:[^\"\\$]|\\.|\${_NESTED}|\$(?!\())*\")|(?P<dollar>{_DOLLAR}|`[^`]*`)|(?P<plain>[^ \t\n;&|()<>'\"\\`$]+|[$'\"`])",
    re.DOTALL,
)
INNER = re.compile(rf"(?P<escape>\\[\"\\$`\n])|(?P<dollar>{_DOLLAR}|`[^`]*`)|(?P<plain>[^\\$`]+|.)", re.DOTALL)
PARAMETER = re.compile(
    r"\$(?:(?P<bare>[A-Za-z_]\w*|[0-9@*#?$!-])"
    r"|\{(?P<name>[A-Za-z_]\w*|[0-9@*]+)(?:\[(?P<index>[^\]]*)\])?(?:(?P<operator>:?[-=+?])(?P<rest>.*))?\})",
    re.DOTALL,
)
# A run of characters (from, to) that one expansion gave, and where that expansion is written (from, to).
Whole = tuple[int, int, int, int]
# A script that doubles a variable line by line would fill the memory; no command line is this long.
LONGEST = 100_000
ESCAPES = {"n": "\n", "t": "\t", "r": "\r"}


@record(frozen=True)
class Word:
    """One argument as the program gets it; where it is not ``known``, a part stands as written because it cannot be told."""

    text: str
    span: Span
    known: bool = True
    places: tuple[int, ...] = ()
    wholes: tuple[Whole, ...] = ()

    def part(self, start: int, end: int | None = None) -> Span | None:
        """Where ``text[start:end]`` can be edited: the literal itself, or the ``$NAME`` that gives all of it."""
        end = len(self.text) if end is None else end
        for first, last, begin, stop in self.wholes:
            if (first, last) == (start, end):
                return Span(self.span.file, begin, stop, self.span.line)
        places = self.places[start:end]
        if not places or places[0] < 0 or places != tuple(range(places[0], places[0] + len(places))):
            return None
        return Span(self.span.file, places[0], places[-1] + 1, self.span.line)


# A character with its place and whether it is known. An empty one with place BREAK begins another word, with place KEEP
# makes the word exist though it may be empty.
Cell = tuple[str, int, bool]
BREAK, KEEP = ("", -2, True), ("", -3, True)


class _Draft:
    """A word while it is read: its characters, and the expansions that gave a run of them."""

    def __init__(self) -> None:
        self.cells: list[Cell] = []
        self.wholes: list[Whole] = []

    def unknown(self, text: str, at: int) -> None:
        self.cells.extend((char, at + index, False) for index, char in enumerate(text))

    def paste(self, values: list[Word], site: tuple[int, int] | None, *, quoted: bool) -> None:
        """Put the values of a variable; with a ``site`` its characters are edited there and not where they were set."""
        site, begin = site if len(values) == 1 else None, len(self.cells)
        for number, value in enumerate(values):
            self.cells.extend([BREAK] if number else [])
            start = len(self.cells)
            self.wholes.extend(
                (start + first, start + last, begin_at, end_at) for first, last, begin_at, end_at in value.wholes if not site
            )
            for char, place in zip(value.text, value.places, strict=True):
                apart = char.isspace() and not quoted
                self.cells.append(BREAK if apart else (char, -1 if site else place, value.known))
        if site:
            self.wholes.append((begin, len(self.cells), *site))

    def words(self, span: Span) -> list[Word]:
        """Split at the breaks, as bash splits an expansion without quotes."""
        words: list[Word] = []
        breaks = [-1, *(index for index, cell in enumerate(self.cells) if cell is BREAK), len(self.cells)]
        for before, after in pairwise(breaks):
            field = self.cells[before + 1 : after]
            if not field:
                continue
            lengths = [0, *accumulate(len(cell[0]) for cell in field)]
            inside = tuple(
                (lengths[first - before - 1], lengths[last - before - 1], begin, stop)
                for first, last, begin, stop in self.wholes
                if before < first < last <= after
            )
            text = [cell for cell in field if cell[0]]
            known = all(cell[2] for cell in text)
            words.append(Word("".join(cell[0] for cell in text), span, known, tuple(cell[1] for cell in text), inside))
        return words


class Expander:
    """Turns written words into arguments, with what is known of the variables (None: set, but not to be told)."""

    def __init__(self, shared: Container[str]) -> None:
        self.variables: dict[str, list[Word] | None] = {}
        self.shared = shared
        self.unset: list[str] = []

    def expand(self, raw: str, span: Span, *, split: bool = True) -> list[Word]:
        """The arguments that one written word becomes; an assigned value is never split."""
        draft = _Draft()
        self._units(UNIT, raw, span.start, draft, quoted=not split)
        return draft.words(span)

    def _units(self, unit_of: re.Pattern[str], raw: str, start: int, draft: _Draft, *, quoted: bool) -> None:
        last = 0
        for unit in unit_of.finditer(raw):
            text, at, kind = unit.group(), start + unit.start(), unit.lastgroup
            if unit.start() > last:
                draft.cells.append(BREAK)
            last = unit.end()
            if kind == "dollar":
                self._dollar(text, at, draft, quoted=quoted)
            elif kind == "double":
                draft.cells.append(KEEP)
                self._units(INNER, text[1:-1], at + 1, draft, quoted=True)
            else:
                draft.cells.extend(_literal(kind or "", text, at))

    def _dollar(self, text: str, at: int, draft: _Draft, *, quoted: bool) -> None:
        match = PARAMETER.fullmatch(text)
        if match is None:
            draft.unknown(text, at)
            return
        name, operator = match["bare"] or match["name"], match["operator"] or ""
        values = self._values(name, match["index"])
        usable = values is not None and (":" not in operator or any(value.text for value in values))
        untold = name in self.variables and self.variables[name] is None
        if operator[-1:] in {"-", "=", "+"} and usable == operator.endswith("+") and not untold:
            self._instead(match, at, draft, quoted=quoted)
        elif values is not None and not operator.endswith("+"):
            site = (at, at + len(text)) if name in self.shared else None
            draft.paste(values, site, quoted=quoted)
        elif untold or not operator.endswith("+"):
            self.unset.extend([name] if not untold and name.isidentifier() else [])
            draft.unknown(text, at)

    def _instead(self, match: re.Match[str], at: int, draft: _Draft, *, quoted: bool) -> None:
        """``${A:-x}``, and ``${A:=x}`` which sets A as well."""
        rest, place = match["rest"], at + match.start("rest")
        self._units(INNER if quoted else UNIT, rest, place, draft, quoted=quoted)
        if match["operator"].endswith("="):
            self.variables[match["name"]] = self.expand(rest, Span("", place, place, 0), split=False)

    def _values(self, name: str, index: str | None) -> list[Word] | None:
        values = self.variables.get(name)
        if values is None or sum(len(value.text) for value in values) > LONGEST:
            return None
        if index in {"@", "*"}:
            return values
        number = to_count(index, 0)
        return values[number : number + 1]


def _literal(kind: str, text: str, at: int) -> list[Cell]:
    """The characters of a unit that needs no variables."""
    if kind == "escape":
        return [(text[1], at + 1, True)] if text[1:] not in {"", "\n"} else []
    if kind == "single":
        return [KEEP, *((char, at + 1 + i, True) for i, char in enumerate(text[1:-1]))]
    if kind == "ansi":
        plain = re.sub(r"\\(.)", lambda match: ESCAPES.get(match.group(1), match.group(1)), text[2:-1], flags=re.DOTALL)
        return [KEEP, *((char, -1, True) for char in plain)]
    return [(char, at + i, True) for i, char in enumerate(text)]


def texts(words: list[Word] | None) -> list[str] | None:
    """The arguments without their places."""
    return None if words is None else [word.text for word in words]


def joined(old: list[Word], new: list[Word]) -> list[Word]:
    """``A+=value``: one text, each character still at its own place."""
    first, second = old[0] if old else new[0], new[0]
    return [Word(first.text + second.text, second.span, first.known and second.known, first.places + second.places)]
