r"""What a training log says once it is read: lines, exceptions, deaths, collectives, memory numbers, progress.

Only the types live here, so that causes can speak about logs without importing a reader. ``readers/logs`` fills them.
A log of any size is represented by the lines that matter: its head, its tail, and a window around every line that any cause
wants to know about. Line numbers count ``\\n`` only, as editors do; ``order`` grows through the whole input.
"""

from __future__ import annotations

import bisect
from typing import TYPE_CHECKING

from crashcart.model import Evidence
from crashcart.pattern import compiled
from crashcart.record import field, record

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

__all__ = ["Collective", "Death", "Index", "Line", "Log", "Memory", "Metrics", "Progress", "Raised", "evidence"]


GOES_ON_LINES = 3
GOES_ON_FRESH = 5
_LINES_ABOVE = 8
_LONGEST_ABOVE = 2000
_LONG_TEXT = 1 << 18  # characters
_LETTERS = r"[^\W\d_]{3,}"


class Line:
    """One line of output: what one process wrote between two line ends or carriage returns.

    ``prefix`` is what stands before the text on every line of the file, and ``level`` the level in it where lines differ in that.
    ``log`` names the log of which the file is a part: for most, the file itself. ``printed`` is the earliest and the latest time at
    which it can have been printed, where a recording knows it.
    """

    __slots__ = ("file", "level", "log", "lowered", "number", "order", "prefix", "printed", "rank", "text", "window")

    def __init__(self, file: str, number: int, order: int, text: str, rank: int | None = None, window: int = 0) -> None:
        self.file = file
        self.log = file
        self.number = number
        self.order = order
        self.text = text
        self.lowered = text.lower()
        self.rank = rank
        self.window = window
        self.prefix = self.level = ""
        self.printed: tuple[float, float] | None = None

    def take_off(self, prefix: str, level: str, text: str) -> None:
        """Keep what stands before the text apart from it."""
        self.prefix, self.level, self.text = prefix, level, text
        self.lowered = text.lower()

    def __repr__(self) -> str:
        return f"{self.file}:{self.number}: {self.text}"


class Index:
    """All lines as one text, so that looking for a word costs one search and not one for every line.

    Of a long text each word is noted once: most of the thousands of texts that are looked for have a word that is nowhere in it.
    """

    __slots__ = ("_starts", "_text", "_vocabulary", "lines")

    def __init__(self, lines: Sequence[Line]) -> None:
        self.lines = lines
        self._starts: list[int] = []
        position = 0
        for line in lines:
            self._starts.append(position)
            position += len(line.lowered) + 1
        self._text = "\n".join([line.lowered for line in lines])
        self._vocabulary: str | None = None

    def places(self, words: Iterable[str]) -> list[int]:
        """Where the lines stand that hold any of the words (in lower case), in order."""
        found: set[int] = set()
        text, starts = self._text, self._starts
        for word in words:
            position = text.find(word) if self._may_hold(word) else -1
            while position >= 0:
                place = bisect.bisect_right(starts, position) - 1
                found.add(place)
                if place + 1 >= len(starts):
                    break
                position = text.find(word, starts[place + 1])
        return sorted(found)

    def _may_hold(self, word: str) -> bool:
        if len(self._text) < _LONG_TEXT:
            return True
        if self._vocabulary is None:
            self._vocabulary = "\n".join(set(compiled(_LETTERS, 0).findall(self._text)))
        letters = compiled(_LETTERS, 0).findall(word)
        return not letters or max(letters, key=len) in self._vocabulary

    def saying(self, words: Iterable[str]) -> list[Line]:
        """The lines that hold any of the words, in order."""
        return [self.lines[place] for place in self.places(words)]


@record(frozen=True)
class Frame:
    """One frame of a traceback, outermost first."""

    file: str
    line: int
    function: str
    code: str = ""


@record(frozen=True)
class Raised:
    """An exception as it was printed.

    ``survivable`` is set where the surroundings say that the process went on: a thread, ``Exception ignored in``, a logged
    warning, a retry. ``stack_only`` are frames without an exception; ``cut`` of these are what is left of a traceback whose last
    line is missing, the others show a program that stood still. ``top`` is set when the traceback begins in the program's main module, so that it ended the process.
    """

    kind: str
    message: str
    line: Line
    frames: tuple[Frame, ...] = ()
    survivable: bool = False
    top: bool = False
    worker: bool = False
    stack_only: bool = False
    cut: bool = False
    phase: str | None = None

    def stack(self, innermost: int = 80) -> str:
        """The last frames as text, files with forward slashes, to search in."""
        frames = self.frames[-innermost:]
        return "\n".join(f"{frame.file} {frame.function} {frame.code}".replace("\\", "/") for frame in frames)

    @property
    def functions(self) -> tuple[str, ...]:
        """Names of the functions on the stack, outermost first."""
        return tuple(frame.function for frame in self.frames)


@record(frozen=True)
class Death:
    """A process that some other process saw end."""

    line: Line
    exit_code: int | None
    signal: str | None
    rank: int | None
    by: str


@record(frozen=True)
class Collective:
    """A collective that a watchdog gave up on."""

    line: Line
    rank: int | None
    sequence: int | None
    operation: str
    elements: int | None
    timeout_seconds: float | None
    last_enqueued: int | None = None
    group: str = ""


@record(frozen=True)
class Memory:
    """A device out-of-memory message: its numbers in bytes, the phase it fell into, whether the program went on."""

    line: Line
    tried: int | None = None
    capacity: int | None = None
    free: int | None = None
    allocated: int | None = None
    reserved: int | None = None
    unallocated: int | None = None
    process: int | None = None
    others: tuple[int, ...] = ()
    phase: str | None = None
    survived: bool = False
    functions: tuple[str, ...] = ()


@record(frozen=True)
class Metrics:
    """The numbers of one step line."""

    line: Line
    shape: str
    step: int | None
    values: tuple[tuple[str, float], ...]

    def get(self, name: str) -> float | None:
        """The value of a metric, if the line has it."""
        return next((value for key, value in self.values if key == name), None)


@record(frozen=True)
class Progress:
    """How far the run came: the last step that was printed, of how many, and in which line."""

    step: int | None = None
    total: int | None = None
    line: Line | None = None


class _Steps:
    """The step lines of a log beside its deaths, worked out once: a log can hold thousands of both."""

    __slots__ = ("_after", "_metrics", "first", "last_death", "told_by_shell")

    def __init__(self, log: Log) -> None:
        self.last_death = max((death.line.order for death in log.deaths), default=-1)
        self.told_by_shell = {death.line.order for death in log.deaths if death.by == "shell"}
        self.first: dict[tuple[str, str], int] = {}
        for metric in log.metrics:
            key = metric.line.log, metric.shape
            self.first[key] = min(self.first.get(key, metric.line.order), metric.line.order)
        self._metrics = log.metrics
        self._after: dict[tuple[int, str, int | None], dict[str, int]] = {}

    def after(self, order: int, line: Line) -> dict[str, int]:
        """How many lines of each shape the writer of a line printed behind a place."""
        key = order, line.log, line.rank
        if key not in self._after:
            counts: dict[str, int] = {}
            for metric in self._metrics:
                if metric.line.order > order and metric.line.rank == line.rank and metric.line.log == line.log:
                    counts[metric.shape] = counts.get(metric.shape, 0) + 1
            self._after[key] = counts
        return self._after[key]


@record
class Log:
    """Everything that was kept of one input."""

    lines: list[Line] = field(default_factory=list)
    raised: list[Raised] = field(default_factory=list)
    deaths: list[Death] = field(default_factory=list)
    collectives: list[Collective] = field(default_factory=list)
    memory: list[Memory] = field(default_factory=list)
    metrics: list[Metrics] = field(default_factory=list)
    skips: list[Line] = field(default_factory=list)
    progress: Progress = Progress()
    finished: Line | None = None
    phase: str | None = None
    restarts: list[Line] = field(default_factory=list)
    attempts: list[int] = field(default_factory=list)
    _index: Index | None = None
    _steps: _Steps | None = None
    _by_place: dict[str, Line] | None = None

    @property
    def index(self) -> Index:
        """All lines, ready to be searched."""
        if self._index is None:
            self._index = Index(self.lines)
        return self._index

    def uncaught(self, *, cut: bool = False) -> list[Raised]:
        """Exceptions that the program did not get over, first one first; with ``cut`` also stacks without a last line."""
        return [one for one in self.raised if (one.kind or (cut and one.stack_only)) and not one.survivable]

    def goes_on_after(self, line: Line) -> bool:
        """Whether whoever wrote the line went on with its step lines to the end of the log, as a process that died cannot.

        Lines of a shape that stood before it count, or more of a new one, and of the same rank where ranks are told: other
        ranks go on printing for a while when one has died.
        """
        if self._steps is None:
            self._steps = _Steps(self)
        steps = self._steps
        later = steps.after(max(line.order, steps.last_death), line)
        again = sum(count for shape, count in later.items() if steps.first[line.log, shape] < line.order)
        # A shell speaks after the death of its child: one more step shows that the word was only text.
        enough = 1 if line.order in steps.told_by_shell else GOES_ON_LINES
        return again >= enough or any(count >= GOES_ON_FRESH for count in later.values())

    def around(self, line: Line, before: int = 0, after: int = 0) -> list[Line]:
        """Neighbours of a line, as far as they were kept and stand in the same window."""
        index = self._place(line.order)
        near = self.lines[max(0, index - before) : index + after + 1]
        return [other for other in near if other.window == line.window]

    def lines_to(self, quoted: object) -> list[str]:
        """The line that an evidence quotes, last, and the few above it that the same process wrote."""
        if not isinstance(quoted, Evidence) or quoted.source != "log":
            return []
        if self._by_place is None:
            self._by_place = {f"{line.file}:{line.number}": line for line in self.lines}
        line = self._by_place.get(quoted.where)
        if line is None:
            return []
        near = self.around(line, before=_LINES_ABOVE)
        return [other.text[:_LONGEST_ABOVE] for other in near if (other.file, other.rank) == (line.file, line.rank)]

    def at(self, order: int) -> Line | None:
        """The line at a place in the input, if it was kept."""
        index = self._place(order)
        return self.lines[index] if index < len(self.lines) and self.lines[index].order == order else None

    def _place(self, order: int) -> int:
        low, high = 0, len(self.lines)
        while low < high:
            middle = (low + high) // 2
            if self.lines[middle].order < order:
                low = middle + 1
            else:
                high = middle
        return low


def evidence(line: Line, quote: str | None = None) -> Evidence:
    """Quote a line of a log so that it can be found again."""
    text = line.prefix + line.text if quote is None else quote
    return Evidence("log", _short(text.strip()), f"{line.file}:{line.number}", line.rank)


def _short(text: str, limit: int = 400) -> str:
    return text if len(text) <= limit else text[: limit - 1] + "…"
