"""One word of a shell script as the program gets it, and for every character the place where it is written.

    BATCH=16                      # the 16 that an edit must change
    ARGS=(--lr 1e-4)
    torchrun train.py --batch_size=$BATCH "${ARGS[@]}" --out "runs/${NAME:-first}"

A variable that is used once is edited where it is set; one that is used twice is edited where it is used, or a change meant
for the sampling batch would change the training batch too.
"""

from __future__ import annotations

import re
from itertools import groupby, pairwise
from typing import TYPE_CHECKING, NamedTuple

from crashcart.model import Span
from crashcart.numbers import to_int
from crashcart.record import record, replace

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

__all__ = ["BREAK", "KEEP", "LONGEST", "Cell", "Kind", "Site", "Word", "elsewhere", "fields", "glued", "one_field"]

# A run of characters (from, to) that one expansion gave, and where that expansion is written (from, to).
Whole = tuple[int, int, int, int]
# A script that doubles a variable line by line would fill the memory; no command line is this long.
LONGEST = 20_000
_MOST_ALTERNATIVES = 500
_SEQUENCE = re.compile(r"(-?\d{1,6})\.\.(-?\d{1,6})(?:\.\.(-?\d{1,6}))?|([A-Za-z])\.\.([A-Za-z])")
_GLOB = frozenset("*?[")
# bash looks for files of this name; nobody has a file called trainer.devices=[0,1].
_SETTING = re.compile(r"[-+~]*[A-Za-z_][\w./@-]*=")
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")


@record(frozen=True)
class Word:
    """One argument as the program gets it; where it is not ``known``, a part stands as written because it cannot be told."""

    text: str
    span: Span
    known: bool = True
    places: tuple[int, ...] = ()
    wholes: tuple[Whole, ...] = ()
    is_loose: bool = False  # an expansion without quotes that is not known: none, one or many words
    holes: tuple[tuple[int, int], ...] = ()  # the parts that are not known (from, to), where they can be told from the rest

    def is_known_at(self, place: int) -> bool:
        """Whether a character of it is what the program gets."""
        return self.known or (bool(self.holes) and not any(start <= place < end for start, end in self.holes))

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

    def slice(self, start: int, end: int) -> Word:
        """A part of it as a word of its own."""
        return Word(self.text[start:end], self.span, self.known, self.places[start:end])


class Kind:
    """How a character came into a word: written without quotes, quoted, or by an expansion without quotes."""

    WRITTEN, QUOTED, VALUE = range(3)


class Site(NamedTuple):
    """Where an expansion is written, and how many characters it gave."""

    begin: int
    stop: int
    length: int


class Cell(NamedTuple):
    """One character of a word."""

    char: str
    place: int = -1
    known: bool = True
    kind: int = Kind.QUOTED
    site: Site | None = None


BREAK = Cell("", -2)  # begins another word
KEEP = Cell("", -3)  # makes a word exist though it may be empty


def elsewhere(text: str, span: Span, *, known: bool = True) -> Word:
    """A word that is not written in the script."""
    return Word(text, span, known, (-1,) * len(text))


def glued(words: Sequence[Word], span: Span) -> Word:
    """One text, each character still at its own place."""
    places = tuple(place for word in words for place in word.places)
    return Word("".join(word.text for word in words), span, all(word.known for word in words), places)


def one_field(cells: Iterable[Cell], span: Span) -> Word:
    """A value that is never split, as in an assignment."""
    return _word([Cell(" ") if cell is BREAK else cell for cell in cells], span)


def fields(cells: list[Cell], span: Span, *, odd_globs: bool = False) -> list[Word]:
    """The arguments that a written word becomes: braces, blanks that an expansion gave, and names of files."""
    words: list[Word] = []
    for alternative in _braces(cells):
        breaks = [-1, *(index for index, cell in enumerate(alternative) if cell is BREAK), len(alternative)]
        for before, after in pairwise(breaks):
            if field := alternative[before + 1 : after]:
                word = _word(_with_tilde(field), span)
                loose = any(cell.kind == Kind.VALUE and not cell.known for cell in field)
                words.append(replace(word, known=False, is_loose=True) if loose or _is_glob(field, odd_globs) else word)
    return words


def _word(field: list[Cell], span: Span) -> Word:
    cells = [cell for cell in field if cell.char]
    wholes, at = list[Whole](), 0
    for site, group in groupby(cells, key=lambda cell: cell.site):
        length = sum(1 for _ in group)
        if site is not None and site.length == length:
            wholes.append((at, at + length, site.begin, site.stop))
        at += length
    text = "".join(cell.char for cell in cells)
    known = all(cell.known for cell in cells) and "\0" not in text
    places = tuple(cell.place for cell in cells)
    return Word(text, span, known, places, tuple(wholes), holes=() if known else tuple(_holes(cells)))


def _holes(cells: list[Cell]) -> Iterator[tuple[int, int]]:
    at = 0
    for known, group in groupby(cells, key=lambda cell: cell.known and cell.char != "\0"):
        length = sum(1 for _ in group)
        if not known:
            yield at, at + length
        at += length


def _with_tilde(field: list[Cell]) -> list[Cell]:
    """``~`` at the beginning, and after ``NAME=``, is a folder that only the shell knows."""
    cells = [cell for cell in field if cell.char]
    begin = _ASSIGNMENT.match("".join(cell.char for cell in cells))
    for at in {0, begin.end() if begin else 0}:
        if at < len(cells) and cells[at].char == "~" and cells[at].kind == Kind.WRITTEN:
            cells[at] = cells[at]._replace(known=False)
            return cells
    return field


def _is_glob(field: list[Cell], odd_globs: bool) -> bool:  # noqa: FBT001 - one caller
    active = next(
        (at for at, cell in enumerate(field) if cell.char in _GLOB and cell.char and cell.kind != Kind.QUOTED), None
    )
    if active is None:
        return False
    rest = {cell.char for cell in field[active:] if cell.kind != Kind.QUOTED}
    setting = _SETTING.match("".join(cell.char for cell in field[:active]))
    return ("]" in rest or bool(rest & {"*", "?"})) and (odd_globs or setting is None)


def _braces(cells: list[Cell]) -> list[list[Cell]]:
    """``{1..3}`` and ``a{b,c}``; more than a script can mean is one word that is not known."""
    if not any(cell.char == "{" and cell.kind == Kind.WRITTEN for cell in cells):
        return [cells]
    done: list[list[Cell]] = []
    waiting = [(cells, 0)]
    while waiting:
        word, start = waiting.pop()
        found = _first_braces(word, start)
        if found is None:
            done.append(word)
        elif len(done) + len(waiting) > _MOST_ALTERNATIVES or len(found[2]) > _MOST_ALTERNATIVES:
            return [[cell._replace(known=False) if cell.char else cell for cell in cells]]
        else:
            begin, end, alternatives = found
            waiting += [([*word[:begin], *each, *word[end + 1 :]], begin) for each in reversed(alternatives)]
    return done


def _first_braces(word: list[Cell], start: int) -> tuple[int, int, list[list[Cell]]] | None:
    """The first pair of braces that is more than two characters: from, to, and what stands for it."""
    for begin in range(start, len(word)):
        if word[begin].char != "{" or word[begin].kind != Kind.WRITTEN:
            continue
        depth, commas = 0, list[int]()
        for at in range(begin, len(word)):
            char = word[at].char if word[at].kind == Kind.WRITTEN else ""
            depth += (char == "{") - (char == "}")
            if char == "," and depth == 1:
                commas.append(at)
            if not depth:
                inner = word[begin + 1 : at]
                if commas:
                    marks = [begin, *commas, at]
                    return begin, at, [word[first + 1 : last] for first, last in pairwise(marks)]
                if sequence := _sequence(inner):
                    return begin, at, sequence
                break
    return None


def _sequence(inner: list[Cell]) -> list[list[Cell]]:
    if any(cell.kind != Kind.WRITTEN for cell in inner):
        return []
    match = _SEQUENCE.fullmatch("".join(cell.char for cell in inner))
    if match is None:
        return []
    if match[4]:
        first, last, step = ord(match[4]), ord(match[5]), 1
        if match[4].isupper() != match[5].isupper():
            return [[cell._replace(known=False) for cell in inner]]
    else:
        first, last, step = to_int(match[1], 0), to_int(match[2], 0), abs(to_int(match[3], 1)) or 1
    values = range(first, last + 1, step) if first <= last else range(first, last - 1, -step)
    padded = not match[4] and any(re.match(r"-?0\d", text) for text in (match[1], match[2]))
    width = max(len(match[1]), len(match[2])) if padded else 0
    texts = [chr(value) if match[4] else f"{value:0{width}d}" for value in values[: _MOST_ALTERNATIVES + 1]]
    return [[Cell(char, -1, known=True, kind=Kind.QUOTED) for char in text] for text in texts]
