"""Finds the lines that any cause wants to know about, in one pass over bytes.

Three engines, one answer. google-re2 runs one alternation of all texts over the whole buffer at hundreds of megabytes a
second; hyperscan, where it is installed, does the same at twice that. Without either the standard library does the same by shapes: training logs repeat themselves, so each line is squeezed (digits,
blanks, bars and exponents deleted), and only shapes that were not seen before are looked at; a shape that can hold one of our
texts has each of its lines tested exactly.
"""

from __future__ import annotations

import re
from importlib import import_module
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
            self._short = [text for text in self._texts if len(text) < _GRAM]
            self._by_gram: dict[int, list[bytes]] = {}
            for text in self._texts:
                if len(text) >= _GRAM:
                    self._by_gram.setdefault(int.from_bytes(text[:_GRAM], byteorder), []).append(text)
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
        text = bytes(memoryview(buffer)[start:end])
        shapes = shapes_of(text)
        known = self._shapes
        distinct = set(shapes)
        if distinct.issubset(known) and not any(known[shape] is not None for shape in distinct):
            return
        possible = self._possible(distinct.difference(known))
        position = start
        for shape, line in zip(shapes, text.replace(b"\r", b"\n").split(b"\n"), strict=False):
            if shape not in known:
                known[shape] = self._candidates(shape, line, possible)
            texts = known[shape]
            if texts is not None and (not texts or _holds(line, texts)):
                yield self._clipped(line, position, texts)
            position += len(line) + 1
        if len(known) > _MOST_SHAPES:
            known.clear()

    def _possible(self, shapes: set[bytes]) -> list[bytes]:
        """The texts that any of the shapes can hold: those whose first eight bytes stand in one of them."""
        joined = b"\n".join(shapes)
        together = memoryview(joined)
        found: set[int] = set()
        for offset in range(_GRAM):
            whole = max(0, len(joined) - offset) // _GRAM * _GRAM
            found.update(self._by_gram.keys() & together[offset : offset + whole].cast("Q"))
        return [text for gram in sorted(found) for text in self._by_gram[gram]] + [
            text for text in self._short if text in joined
        ]

    def _candidates(self, shape: bytes, line: bytes, possible: list[bytes]) -> tuple[bytes, ...] | None:
        """The texts that lines of this shape can hold; none at all where the shape alone tells; None where it holds nothing."""
        if self._structure.search(line):
            return ()
        found = tuple(text for short in filter(shape.__contains__, possible) for text in self._texts[short])
        return found or None

    def _clipped(self, line: bytes, position: int, texts: tuple[bytes, ...]) -> tuple[int, int]:
        if len(line) <= 2 * _LONG:
            return position, position + len(line)
        match = self._structure.search(line)
        lowered = line.lower()
        hits = [found for text in texts if (found := lowered.find(text)) >= 0]
        hit = min(hits + ([match.start()] if match else []), default=0)
        return position + max(0, hit - _LONG), position + min(len(line), hit + _LONG)


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
