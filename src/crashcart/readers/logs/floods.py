"""Texts that a log says thousands of times in a megabyte, learned from its own lines, so that saying them costs next to nothing.

A run that went NaN and keeps logging, or a shell that prints ``Killed`` for hours, matches on every line::

    [12:00:01] step 4012 loss: nan grad_norm: nan lr: 1.0e-04
    [12:00:02] step 4013 loss: nan grad_norm: nan lr: 1.0e-04

What those lines have in common around the text of interest (``" loss: nan grad_norm: nan lr: 1.0e-04"`` and the line feed) is
blanked out of the blocks that follow before they are scanned. A line that says the same in another way (``loss: nan, aborting``)
lacks that surrounding and is still found, and so is every other text.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from typing import TYPE_CHECKING

from crashcart.readers.logs.scan import squeezed

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from crashcart.readers.logs.scan import Scanner

__all__ = ["Floods"]

_MOST_TEXTS = 48
_SAMPLES = 96
_ENOUGH_ALIKE, _ENOUGH_UNLIKE = 3, 12  # of the samples that share a text, in lines of one shape and of several
_AROUND = 80
_BLANK = bytes(byte if byte in b"\r\n" else 0 for byte in range(256))
_UNNUMBERED = re.compile(rb"[^0-9]+")


class Floods:
    """The flooding texts of one log."""

    def __init__(self, scanner: Scanner) -> None:
        self._scanner = scanner
        self.texts: list[bytes] = []
        self.unlike: set[bytes] = set()  # of the texts, those in lines that are otherwise unlike each other

    def blanked(self, text: bytes) -> bytes:
        """The same text, the same length, with zeros where it says what floods the log."""
        for flood in self.texts:
            blank = flood.translate(_BLANK)
            text = text.replace(flood, blank)
            if flood[:1] == flood[-1:]:  # neighbours share a line feed, so every other one was left
                text = text.replace(flood, blank)
        return text

    def learn(self, text: bytes, hits: Sequence[tuple[int, int]]) -> bool:
        """Learn from lines that were found in the text; whether there was anything new."""
        step = max(1, len(hits) // _SAMPLES)
        lines = [_with_ends(text, first, last) for first, last in hits[::step]]
        alike, unlike = _shared(self._occurrences(lines))
        new = [flood for flood in (*alike, *unlike) if flood not in self.texts]
        if len(self.texts) + len(new) > _MOST_TEXTS:
            self.texts = [flood for flood in self.texts if flood in text]
        new = new[: _MOST_TEXTS - len(self.texts)]
        self.texts += new
        self.unlike.update(set(new) & set(unlike))
        return bool(new)

    def last_lines(self, text: bytes) -> Iterator[tuple[int, int]]:
        """Where the last line of each flood stands."""
        for flood in self.texts:
            found = text.rfind(flood)
            if found >= 0:
                start = found + (flood[:1] in b"\r\n")
                first = max(text.rfind(b"\n", 0, start), text.rfind(b"\r", max(0, start - _AROUND), start)) + 1
                end = text.find(b"\n", start)
                yield first, end if end >= 0 else len(text)

    def _occurrences(self, lines: list[bytes]) -> dict[bytes, dict[bytes, list[tuple[bytes, bytes]]]]:
        """Texts of interest, by the shape of the lines that hold them: what stands before and behind each."""
        found: dict[bytes, dict[bytes, list[tuple[bytes, bytes]]]] = defaultdict(lambda: defaultdict(list))
        counts = Counter(lines)
        search = self._scanner.texts_in(list(counts))
        for line, count in counts.items():
            shape = squeezed(line)
            for span in search(line):
                piece = _UNNUMBERED.search(line, *span)  # numbers differ from line to line
                start, end = span if piece is None else piece.span()
                around = line[max(0, start - _AROUND) : start], line[end : end + _AROUND]
                found[line[start:end]][shape] += [around] * count
        return found


def _shared(occurrences: dict[bytes, dict[bytes, list[tuple[bytes, bytes]]]]) -> tuple[list[bytes], list[bytes]]:
    """Each text of interest with what always stands around it: in lines of one shape, and in the others that hold it."""
    alike: dict[bytes, int] = {}
    unlike: dict[bytes, int] = {}
    for text, by_shape in occurrences.items():
        rest: list[tuple[bytes, bytes]] = []
        for places in by_shape.values():
            if len(places) >= _ENOUGH_ALIKE:
                alike[_with_surroundings(text, places)] = len(places)
            else:
                rest += places
        if len(rest) >= _ENOUGH_UNLIKE:
            unlike[_with_surroundings(text, rest)] = len(rest)
    return sorted(alike, key=lambda flood: (-alike[flood], flood)), sorted(unlike, key=lambda flood: (-unlike[flood], flood))


def _with_surroundings(text: bytes, places: list[tuple[bytes, bytes]]) -> bytes:
    before = _common_beginning([before[::-1] for before, _ in places])[::-1]
    return before + text + _common_beginning([behind for _, behind in places])


def _common_beginning(texts: list[bytes]) -> bytes:
    low, high = min(texts), max(texts)
    count = next((index for index, (one, other) in enumerate(zip(low, high, strict=False)) if one != other), len(low))
    return low[:count]


def _with_ends(text: bytes, first: int, last: int) -> bytes:
    """A line with the line feeds before and behind it."""
    return text[max(0, first - 1) : last + 1]
