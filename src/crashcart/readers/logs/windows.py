"""What is kept of a log: head, tail, a window around lines of interest and lines of a new shape, some lines from everywhere.

One buffer, used again; no work per line. Lines of the same shape (a warning printed each step) get a window at their first
few occurrences only, and once more for the last, so that memory stays flat whatever the size of the log. Where thousands of lines of
a block hold something of interest, what they share is learned and skipped from then on (``floods``); where that does not help,
some of them are looked at. ``Kept`` says what was left out.
"""

from __future__ import annotations

from collections import deque
from itertools import islice
from typing import TYPE_CHECKING

from crashcart.readers.logs.floods import Floods
from crashcart.readers.logs.scan import Scanner, shapes_of, squeezed
from crashcart.record import record

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from crashcart.readers.logs.source import Source

__all__ = ["Budget", "Kept", "Window", "keep"]

_BUFFER = 1 << 20
_SMALL = 512
_PIECE = 64 << 10  # windows that touch become one up to here, so that the oldest can be given up in pieces
_FULL_WINDOWS_PER_SHAPE = 2
_MOST_SHAPES = 20_000
_SHAPE = 160
_NEW_PER_LOOK = 150  # more than that are samples or tables, whose lines never repeat
_MOST_NEW = 200_000
_LINE_BYTES = 48  # what a line is charged at least: each costs the causes some time, be it as short as it may
_FLOOD_HITS = 1000  # lines of interest in a block, beyond which it is time to learn what they share
_FLOOD_BYTES, _FLOOD_LEAST = (
    256 << 10,
    32,
)  # and so many bytes of such lines, be they fewer: a long one may match a thousand times
_LESSONS = 4  # in a block
_LEAST_PATIENCE = 128  # lines of interest that are looked at in a block where there was nothing to learn in those before
_LOOKS_PER_LESSON = 8
_STRETCHES = 16


@record
class Window:
    """A piece of the log: where it begins, the number of its first line, its bytes."""

    start: int
    number: int
    data: bytes

    @property
    def end(self) -> int:
        """The offset behind the last byte."""
        return self.start + len(self.data)


@record(frozen=True)
class Budget:
    """How much of one log is kept: in bytes, but ``again`` (last lines of a shape) and ``samples`` are counted in windows.

    New shapes are looked for in the first ``shaped`` bytes: that costs more than all our texts.
    """

    head: int = 32 << 10
    tail: int = 48 << 10
    first: int = 640 << 10
    last: int = 384 << 10
    before: int = 6 << 10
    after: int = 4 << 10
    new: int = 192 << 10
    shaped: int = 48 << 20
    again: int = 400
    samples: int = 200


@record
class Kept:
    """The windows of one log in order, its size, and what was left out of it.

    ``flooded_by`` are texts that stand in thousands of unlike lines, of which only the first and last were looked at;
    ``sampled_bytes`` says in how much of the log only some lines of interest were looked at, whatever they say.
    """

    windows: list[Window]
    size: int
    flooded_by: tuple[bytes, ...] = ()
    sampled_bytes: int = 0

    @property
    def cost(self) -> int:
        """The bytes that are kept, where a short line counts as a longer one."""
        return sum(_cost(window.data) for window in self.windows)


class _Collector:
    """Windows as they come: the first ones are kept for good, later ones push out the oldest of the rest."""

    def __init__(self, budget: Budget) -> None:
        self.budget = budget
        self.first: list[Window] = []
        self.first_bytes = 0
        self.last: deque[Window] = deque()
        self.last_bytes = 0

    def add(self, window: Window) -> None:
        newest = self.last[-1] if self.last else (self.first[-1] if self.first else None)
        if newest is not None and window.start < newest.end:
            window = _rest(window, newest.end)
            if not window.data:
                return
        to_last = bool(self.last) or self.first_bytes >= self.budget.first
        kept = self.last if to_last else self.first
        if kept and window.start == kept[-1].end and len(kept[-1].data) < _PIECE:
            kept[-1].data += window.data
        else:
            kept.append(window)
        self._account(_cost(window.data), to_last=to_last)

    def _account(self, count: int, *, to_last: bool) -> None:
        if not to_last:
            self.first_bytes += count
            return
        self.last_bytes += count
        while self.last_bytes > self.budget.last and len(self.last) > 1:
            self.last_bytes -= _cost(self.last.popleft().data)


def _cost(data: bytes) -> int:
    return max(len(data), _LINE_BYTES * (data.count(b"\n") + data.count(b"\r")))


def _rest(window: Window, start: int) -> Window:
    """What a window holds from an offset on."""
    known = window.data[: start - window.start]
    return Window(start, window.number + known.count(b"\n"), window.data[len(known) :])


def keep(source: Source, scan: Callable[[], Scanner], budget: Budget, progress: Callable[[int], None] | None = None) -> Kept:
    """Read a source to its end and keep what matters; one that is small is kept whole and needs no scanner."""
    buffer = bytearray(_BUFFER + 2 * max(budget.before + budget.after, budget.tail))
    view = memoryview(buffer)
    filled, at_end = _fill(source, view, 0, budget.head + budget.tail, progress)
    if at_end:
        return Kept([Window(0, 1, bytes(view[:filled]))], filled)
    walk = _Walk(buffer, scan(), _Collector(budget))
    walk.collector.add(Window(0, 1, bytes(view[: budget.head])))
    while True:
        filled, at_end = _fill(source, view, filled, len(view), progress)
        limit = filled if at_end else _last_line_end(buffer, walk.scanned, filled - budget.after)
        walk.look(limit, filled)
        if at_end:
            break
        filled = walk.drop(max(0, walk.scanned - max(budget.before, budget.tail)), filled)
    tail = max(0, filled - budget.tail)
    walk.collector.add(Window(walk.base + tail, walk.number(tail), bytes(view[tail:filled])))
    return Kept(_joined(walk), walk.base + filled, tuple(sorted(walk.floods.unlike)), walk.sampled_bytes)


def _joined(walk: _Walk) -> list[Window]:
    """All windows in order, those that touch made one."""
    joined: list[Window] = []
    for window in sorted(
        [
            *walk.collector.first,
            *walk.collector.last,
            *walk.again.values(),
            *walk.samples,
            *walk.fresh.first,
            *walk.fresh.last,
        ],
        key=lambda one: one.start,
    ):
        newest = joined[-1] if joined else None
        if newest is None or window.start > newest.end:
            joined.append(window)
        elif window.end > newest.end:
            newest.data += window.data[newest.end - window.start :]
    return joined


def _fill(
    source: Source, view: memoryview, filled: int, wanted: int, progress: Callable[[int], None] | None
) -> tuple[int, bool]:
    """Read until that many bytes are there or the source ends."""
    while filled < wanted:
        count = source.fill(view[filled:wanted])
        if not count:
            return filled, True
        filled += count
        if progress is not None:
            progress(count)
    return filled, False


class _Walk:
    """The state of one pass: where the buffer begins in the file, what is scanned, and how many lines came before."""

    def __init__(self, buffer: bytearray, scanner: Scanner, collector: _Collector) -> None:
        self.buffer = buffer
        self.scanner = scanner
        self.collector = collector
        self.budget = collector.budget
        self.seen: dict[bytes, int] = {}
        self.again: dict[bytes, Window] = {}
        self.samples: list[Window] = []
        self.fresh = _Collector(Budget(first=self.budget.new, last=self.budget.new))
        self.floods = Floods(scanner)
        self.sampled_bytes = 0
        self._patience = _FLOOD_HITS
        self._shapes: set[bytes] = set()
        self._looks = 0
        self._stride = 1
        self.base = self.scanned = 0
        self._counted_to = 0
        self._lines = 0

    def number(self, position: int) -> int:
        """The number of the line at a place in the buffer; places are asked for in rising order, mostly."""
        if position < self._counted_to:
            return self._lines + 1 - self.buffer.count(b"\n", position, self._counted_to)
        self._lines += self.buffer.count(b"\n", self._counted_to, position)
        self._counted_to = position
        return self._lines + 1

    def look(self, limit: int, filled: int) -> None:
        """Scan up to the limit and keep windows around what was found."""
        if limit <= self.scanned:
            return
        self._sample(limit)
        if self.base + self.scanned < self.budget.shaped:
            self._keep_new_shapes(limit, filled)
        extents: list[tuple[int, int]] = []
        again: dict[bytes, tuple[int, int]] = {}
        for first, last in self._hits(limit):
            shape = squeezed(bytes(self.buffer[first : min(last, first + _SHAPE)]))
            times = self.seen.get(shape, 0)
            if times < _FULL_WINDOWS_PER_SHAPE:
                extents.append(self._extent(first, last, filled, self.budget.before, self.budget.after))
            elif shape in self.again or len(self.again) + len(again) < self.budget.again:
                again[shape] = (first, last)
            if times or len(self.seen) < _MOST_SHAPES:
                self.seen[shape] = times + 1
        small = [(self._extent(first, last, filled, _SMALL, _SMALL), shape) for shape, (first, last) in again.items()]
        for (start, end), shape in sorted([*((extent, b"") for extent in _merged(extents)), *small]):
            window = Window(self.base + start, self.number(start), bytes(self.buffer[start:end]))
            if shape:
                self.again[shape] = window
            else:
                self.collector.add(window)
        self.scanned = limit

    def _hits(self, limit: int) -> Iterator[tuple[int, int]]:
        """Spans of lines of interest: all, but of a text that floods the block only the first and the last."""
        if self._patience == _LEAST_PATIENCE and self._looks % _LOOKS_PER_LESSON:
            yield from self._some_hits(self.scanned, limit)
            return
        position = self.scanned
        text: bytes | bytearray = self.buffer
        start, end = position, limit
        if self.floods.texts:
            plain = bytes(memoryview(self.buffer)[position:limit])
            yield from ((position + first, position + last) for first, last in sorted(self.floods.last_lines(plain)))
            text, start, end = self.floods.blanked(plain), 0, limit - position
        most_bytes = _FLOOD_BYTES
        for _ in range(_LESSONS):
            hits, flooded = _until_flooded(self.scanner.lines(text, start, end), self._patience, most_bytes)
            shift = limit - end
            yield from ((first + shift, last + shift) for first, last in hits)
            if not flooded:
                self._patience = _FLOOD_HITS
                return
            position = min(limit, hits[-1][1] + shift)
            plain = bytes(memoryview(text)[start:end])
            if not self.floods.learn(plain, [(first - start, last - start) for first, last in hits]):
                if len(hits) >= self._patience:
                    break
                most_bytes = limit  # long lines, and not too many
            text, start, end = self.floods.blanked(plain[end - start - (limit - position) :]), 0, limit - position
        self._patience = max(_LEAST_PATIENCE, self._patience // 2)
        yield from self._some_hits(position, limit)

    def _some_hits(self, position: int, limit: int) -> Iterator[tuple[int, int]]:
        """A few lines of interest from everywhere in a stretch that has too many kinds of them."""
        most = self._patience // _STRETCHES
        stride = max(1, (limit - position) // _STRETCHES)
        left_out = 0
        first = position
        for start in range(position, limit, stride):
            last = limit if start + stride >= limit else max(first, _line_start(self.buffer, start + stride, limit))
            hits = list(islice(self.scanner.lines(self.buffer, first, last), most))
            first = last
            left_out += stride if len(hits) == most else 0
            yield from hits
        self.sampled_bytes += min(left_out, limit - position)
        if not left_out:
            self._patience = _FLOOD_HITS

    def _sample(self, limit: int) -> None:
        """A few lines from everywhere, evenly, so that a trend over the whole run can be seen."""
        if self._looks % self._stride == 0:
            start = _line_start(self.buffer, self.scanned, limit)
            end = self.buffer.find(b"\n", min(limit, start + _SMALL), limit)
            if start > self.scanned and end > 0:
                self.samples.append(Window(self.base + start, self.number(start), bytes(self.buffer[start:end])))
            if len(self.samples) > self.budget.samples:
                self.samples = self.samples[::2]
                self._stride *= 2
        self._looks += 1

    def _keep_new_shapes(self, limit: int, filled: int) -> None:
        """A line unlike all before it is kept with what follows, whatever it says: most of a log repeats itself."""
        text = bytes(memoryview(self.buffer)[self.scanned : limit])
        shapes = shapes_of(text)
        new = set(shapes) - self._shapes
        self._shapes |= new
        if len(self._shapes) > _MOST_NEW:
            self._shapes = set(shapes)
        if not new or len(new) > _NEW_PER_LOOK:
            return
        position = self.scanned
        for shape, line in zip(shapes, text.replace(b"\r", b"\n").split(b"\n"), strict=True):
            if shape in new:
                new.discard(shape)
                start, end = self._extent(
                    position, position + min(len(line), self.budget.after), filled, _SMALL, self.budget.after
                )
                self.fresh.add(Window(self.base + start, self.number(start), bytes(self.buffer[start:end])))
            position += len(line) + 1

    def drop(self, count: int, filled: int) -> int:
        """Forget what is behind us and move the rest to the front."""
        self.number(count)
        self.buffer[: filled - count] = self.buffer[count:filled]
        self.base += count
        self.scanned -= count
        self._lines -= self.buffer.count(b"\n", 0, self._counted_to - count)
        self._counted_to = 0
        return filled - count

    def _extent(self, first: int, last: int, filled: int, before: int, after: int) -> tuple[int, int]:
        start = max(0, first - before)
        if start:
            start = _line_start(self.buffer, start, first)
        end = min(filled, last + after)
        if end < filled:
            end = max(last, max(self.buffer.rfind(b"\n", last, end), self.buffer.rfind(b"\r", last, end)) + 1)
        return start, end


def _until_flooded(spans: Iterator[tuple[int, int]], most: int, most_bytes: int) -> tuple[list[tuple[int, int]], bool]:
    """The lines of interest, up to those that make a flood, and whether they do."""
    hits: list[tuple[int, int]] = []
    covered = 0
    for span in spans:
        hits.append(span)
        covered += span[1] - span[0]
        if len(hits) >= most or (covered > most_bytes and len(hits) >= _FLOOD_LEAST):
            return hits, True
    return hits, False


def _merged(extents: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Extents in order, those that overlap made one up to the size of a piece."""
    merged: list[tuple[int, int]] = []
    for start, end in extents:
        if merged and merged[-1][0] <= start <= merged[-1][1] and end - merged[-1][0] <= _PIECE:
            merged[-1] = merged[-1][0], max(end, merged[-1][1])
        else:
            merged.append((start, end))
    return merged


def _last_line_end(buffer: bytearray, low: int, high: int) -> int:
    """Where whole lines end before ``high``; a line of megabytes is taken in pieces."""
    if high <= low:
        return low
    end = max(buffer.rfind(b"\n", low, high), buffer.rfind(b"\r", max(low, high - 8192), high)) + 1
    return end or (high if high - low > _BUFFER // 2 else low)


def _line_start(buffer: bytearray | bytes, start: int, first: int) -> int:
    ends = [end for end in (buffer.find(b"\n", start, first), buffer.find(b"\r", start, first)) if end >= 0]
    return min(ends) + 1 if ends else start
