"""Finds the lines that any cause wants to know about, in one pass over bytes.

Three engines, one answer. google-re2 runs one alternation of all texts over the whole buffer at hundreds of megabytes a
second; hyperscan, where it is installed, does the same at twice that. Without either the standard library does the same by shapes: training logs repeat themselves, so each line is squeezed (digits,
blanks, bars and exponents deleted), and only shapes that were not seen before are looked at; a shape that can hold one of our
texts has each of its lines tested exactly.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from importlib import import_module
from itertools import accumulate
from sys import byteorder
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

__all__ = ["Scanner", "scannable", "shapes_of", "squeezed"]

# What any log may say that is worth a look, whatever the cause: case matters here, so that metric names such as
# ``word_error_rate`` on every step line cost nothing. None depends on the value of a number: shapes have none. None repeats
# without a bound: on a line of megabytes the standard library would try every place against every length.
STRUCTURE = (
    r"Traceback \(most recent call last",
    r"(?:[A-Za-z](?:Error|Exception|Interrupt)|StopIteration|SystemExit)\b",
    r'", line [0-9]+,? in ',
    r"\b(?:ERROR|CRITICAL|FATAL|OVERFLOW)\b",
    r"(?i:[:=(\[,][ \t]?-?(?:nan|inf)\b|(?:loss|norm)[ \t]{1,4}-?(?:nan|inf)\b|\b(?:nan|inf)[ \t]?[,|)\]}])",
)

_DROPPED = bytes(range(0x30, 0x3A)) + b" \t.,:;|/%#=+-_*<>[](){}'\"eE\xe2\x96\x97\x88\x89\x8a\x8b\x8c\x8d\x8e\x8f"
_LOWER = bytes.maketrans(bytes(range(0x41, 0x5B)), bytes(range(0x61, 0x7B)))
_LOWER_LINES = bytes.maketrans(bytes(range(0x41, 0x5B)) + b"\r", bytes(range(0x61, 0x7B)) + b"\n")
_STRUCTURE_WORDS = (
    b"traceback (most", b"error", b"exception", b"interrupt", b"stopiteration", b"systemexit", b'", line ', b"critical", b"fatal",
    b"overflow", b"nan", b"inf",
)  # fmt: skip
_LONG = 4096
_SHORTEST = 4
_GRAM = 8
_MOST_SHAPES = 60_000
_PIECE = 32 << 10
_MANY_BYTES = 1 << 10  # a hit for so many bytes is many


def squeezed(text: bytes) -> bytes:
    """The shape of a piece of text: what stays the same when numbers, bars and blanks change; in lower case."""
    return text.translate(_LOWER, _DROPPED)


def shapes_of(text: bytes) -> list[bytes]:
    """The shape of each line, where a carriage return ends a line too."""
    return text.translate(_LOWER_LINES, _DROPPED).split(b"\n")


def scannable(literal: str) -> bool:
    """Whether a text is long enough to be looked for in gigabytes; shorter ones are seen in lines that were kept anyway."""
    return len(squeezed(literal.encode())) >= _SHORTEST


class Scanner:
    """Looks for any of the texts, case ignored, and for the structural patterns."""

    def __init__(self, literals: Iterable[str], *, engine: str = "auto") -> None:
        texts = sorted({variant for literal in literals for variant in _encodings(literal)})
        self.patterns = [*STRUCTURE, *("(?i:" + _quoted(text) + ")" for text in texts)]
        self._lowered = [text.lower() for text in texts]
        self._piece = _PIECE
        for name in ("hyperscan", "re2"):
            found = _load(name) if engine in {"auto", name} else None
            if found is not None:
                self.engine = name
                self._machine: Any = (_hyperscan if name == "hyperscan" else _re2)(found, self.patterns)
                break
        else:
            self.engine = "stdlib"
            self._structure = re.compile("|".join(STRUCTURE).encode())
            self._texts: dict[bytes, list[bytes]] = {}
            for text in texts:
                self._texts.setdefault(squeezed(text), []).append(text.lower())
            self._by_gram: dict[int, list[bytes]] = {}
            self._by_short_gram: dict[int, list[bytes]] = {}
            for text in self._texts:
                grams, size = (self._by_gram, _GRAM) if len(text) >= _GRAM else (self._by_short_gram, _SHORTEST)
                grams.setdefault(int.from_bytes(text[:size], byteorder), []).append(text)
            self._shapes: dict[bytes, tuple[bytes, ...] | None] = {}

    def lines(self, buffer: bytearray | bytes, start: int, end: int) -> Iterator[tuple[int, int]]:
        """Spans of the lines in ``buffer[start:end]`` that hold something of interest, each once, in order."""
        by = {"hyperscan": self._by_hyperscan, "re2": self._by_re2, "stdlib": self._by_shapes}[self.engine]
        while start < end:
            # Engines look at a piece as a whole: where hits are many it is small, so that who has enough of them can stop.
            cut = _line_end(buffer, start, min(end, start + self._piece), end)
            hits = 0
            for hits, span in enumerate(by(buffer, start, cut), 1):
                if hits * _MANY_BYTES > max(_PIECE, cut - start):
                    self._piece = _PIECE
                yield span
            if hits * _MANY_BYTES <= cut - start:
                self._piece = max(_PIECE, 4 * (cut - start))
            start = cut

    def texts_in(self, lines: list[bytes]) -> Callable[[bytes], Iterator[tuple[int, int]]]:
        """A search for all places in such a line that the scanner would find; for a few lines, as it is slow."""
        structure = re.compile("|".join(STRUCTURE).encode())
        together = b"\n".join(lines).lower()
        texts = [text for text in self._lowered if text in together]

        def search(line: bytes) -> Iterator[tuple[int, int]]:
            for match in structure.finditer(line):
                yield match.span()
            lowered = line.lower()
            for text in texts:
                found = lowered.find(text)
                while found >= 0:
                    yield found, found + len(text)
                    found = lowered.find(text, found + len(text))

        return search

    def _by_hyperscan(self, buffer: bytearray | bytes, start: int, end: int) -> Iterator[tuple[int, int]]:
        ends: set[int] = set()

        def found(_pattern: int, _begins: int, ends_at: int, _flags: int, _context: object) -> None:
            ends.add(start + ends_at)

        self._machine.scan(memoryview(buffer)[start:end], match_event_handler=found)
        position = start
        for hit in sorted(ends):
            if hit > position:
                first, position = line_around(buffer, hit - 1, start, end)
                yield first, position

    def _by_re2(self, buffer: bytearray | bytes, start: int, end: int) -> Iterator[tuple[int, int]]:
        search = self._machine.search
        position = start
        while position < end:
            match = search(buffer, position, end)
            if match is None:
                return
            hit = match.start()
            first, last = line_around(buffer, hit, start, end)
            yield first, last
            position = max(last, match.end())

    def _by_shapes(self, buffer: bytearray | bytes, start: int, end: int) -> Iterator[tuple[int, int]]:
        text = bytes(memoryview(buffer)[start:end]).replace(b"\r", b"\n")
        shapes = shapes_of(text)
        known = self._shapes
        distinct = set(shapes)
        new = distinct.difference(known)
        lines = text.split(b"\n") if new else []
        if new:
            of_shapes = dict(zip(shapes, lines, strict=True))
            self._learn({shape: of_shapes[shape] for shape in new})
        if any(known[shape] is not None for shape in distinct):
            position = start
            for shape, line in zip(shapes, lines or text.split(b"\n"), strict=True):
                texts = known[shape]
                if texts is not None and (not texts or _holds(line, texts)):
                    yield self._clipped(line, position, texts)
                position += len(line) + 1
        if len(known) > _MOST_SHAPES:
            known.clear()

    def _learn(self, new: dict[bytes, bytes]) -> None:
        """What lines of new shapes can hold, by a line of each: texts; none at all where the shape alone tells; None for nothing.

        All are looked through at once: in a log whose lines never repeat every shape is new.
        """
        known = self._shapes
        known.update(dict.fromkeys(new))
        shapes = list(new)
        joined = b"\n".join(shapes)
        for short in self._possible(joined):
            for place in _lines_with(joined, short):
                known[shapes[place]] = (*(known[shapes[place]] or ()), *self._texts[short])
        text = b"\n".join(new.values())
        hits = self._structured(text)
        starts = _line_starts(text) if hits else []
        for hit in hits:
            known[shapes[bisect_right(starts, hit) - 1]] = ()

    def _structured(self, text: bytes) -> list[int]:
        """Where the structural patterns match; they are asked only where a word of theirs stands."""
        lowered = text.lower()
        if not any(word in lowered for word in _STRUCTURE_WORDS):
            return []
        return [match.start() for match in self._structure.finditer(text)]

    def _possible(self, joined: bytes) -> list[bytes]:
        """The texts that any of the shapes can hold: those whose first eight (or four) bytes stand in one of them."""
        together = memoryview(joined)
        found: list[bytes] = []
        for grams, size in ((self._by_gram, _GRAM), (self._by_short_gram, _SHORTEST)):
            seen: set[int] = set()
            for offset in range(size):
                whole = max(0, len(joined) - offset) // size * size
                piece = together[offset : offset + whole]
                seen.update(grams.keys() & (piece.cast("Q") if size == _GRAM else piece.cast("I")))
            found += [text for gram in sorted(seen) for text in grams[gram]]
        return found

    def _clipped(self, line: bytes, position: int, texts: tuple[bytes, ...]) -> tuple[int, int]:
        if len(line) <= 2 * _LONG:
            return position, position + len(line)
        match = self._structure.search(line)
        lowered = line.lower()
        hits = [found for text in texts if (found := lowered.find(text)) >= 0]
        hit = min(hits + ([match.start()] if match else []), default=0)
        return position + max(0, hit - _LONG), position + min(len(line), hit + _LONG)


def _line_starts(text: bytes) -> list[int]:
    return list(accumulate((len(line) + 1 for line in text.split(b"\n")), initial=0))[:-1]


def _lines_with(joined: bytes, text: bytes) -> Iterator[int]:
    """The numbers of the lines that hold a text."""
    number = counted = 0
    found = joined.find(text)
    while found >= 0:
        number += joined.count(b"\n", counted, found)
        yield number
        counted = joined.find(b"\n", found)
        if counted < 0:
            return
        found = joined.find(text, counted)


def _line_end(buffer: bytearray | bytes, start: int, wanted: int, end: int) -> int:
    """Where lines end at or before a place, else the next end of a line behind it."""
    if wanted >= end:
        return end
    before = max(buffer.rfind(b"\n", start, wanted), buffer.rfind(b"\r", max(start, wanted - _LONG), wanted)) + 1
    return before or buffer.find(b"\n", wanted, end) + 1 or end


def _holds(line: bytes, texts: tuple[bytes, ...]) -> bool:
    lowered = line.lower()
    return any(text in lowered for text in texts)


def line_around(buffer: bytearray | bytes, hit: int, low: int, high: int) -> tuple[int, int]:
    """The line that holds the byte at ``hit``, at most some kilobytes of it on each side."""
    low, high = max(low, hit - _LONG), min(high, hit + _LONG)
    first = max(buffer.rfind(b"\n", low, hit), buffer.rfind(b"\r", low, hit)) + 1 or low
    ends = [end for end in (buffer.find(b"\n", hit, high), buffer.find(b"\r", hit, high)) if end >= 0]
    return first, min(ends, default=high)


def _encodings(literal: str) -> Iterator[bytes]:
    """A text as logs may hold it: words beyond ASCII also come in GBK, and as UTF-8 that was encoded twice."""
    plain = literal.encode()
    yield plain
    if not literal.isascii():
        yield literal.encode("gb18030")
        yield plain.decode("cp1252", "ignore").encode()


def _quoted(text: bytes) -> str:
    return "".join(chr(byte) if chr(byte).isascii() and chr(byte).isalnum() else f"\\x{byte:02x}" for byte in text)


def _re2(module: Any, patterns: list[str]) -> Any:  # noqa: ANN401 - libraries without types
    options = module.Options()
    options.encoding = module.Options.Encoding.LATIN1
    options.never_capture = True
    options.log_errors = False
    options.max_mem = 64 << 20
    return module.compile("|".join(patterns).encode("latin-1"), options)


def _hyperscan(module: Any, patterns: list[str]) -> Any:  # noqa: ANN401 - libraries without types
    database = module.Database(mode=module.HS_MODE_BLOCK)
    database.compile(expressions=[pattern.encode("latin-1") for pattern in patterns], flags=[0] * len(patterns))
    return database


def _load(name: str) -> Any:  # noqa: ANN401 - the module, or nothing
    try:
        return import_module(name)
    except ImportError:
        return None
