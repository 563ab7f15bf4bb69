"""What a recording says about a run: its processes, the numbers of each second, what they said themselves, their stacks.

Types only; ``readers/flight.py`` fills them. Times are Unix seconds. A number that was not known is NaN.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from crashcart.model import Evidence
from crashcart.numbers import to_int
from crashcart.pattern import Pattern
from crashcart.record import field, record

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

__all__ = [
    "Collective",
    "Event",
    "Flight",
    "Frame",
    "Node",
    "Pid",
    "Process",
    "StackDump",
    "Stage",
    "Stood",
    "clock",
    "during",
    "frames_of",
    "median",
    "program_of",
    "threads_of",
    "told",
    "took",
]

MINUTE, HOUR = 60, 3600
_FRAME = Pattern(r'^\s*File "(?P<file>[^"]*)", line (?P<line>\d+) in (?P<function>.*)$')
_SPY_HEAD = Pattern(r"^Process (\d+): ")
_SPY_FRAME = Pattern(r"^\s+(?P<function>\S.*) \((?P<file>[^()]*):(?P<line>\d+)\)$")
_PYTHONS = ("python", "pypy")
_RUNNERS = frozenset({"pdb", "coverage", "cProfile", "profile", "trace", "debugpy", "viztracer", "scalene", "memray", "kernprof", "line_profiler"})  # fmt: skip
_TAKES_VALUE = frozenset({"-X", "-W", "--check-hash-based-pycs"})


class Frame(NamedTuple):
    """A place in the program."""

    file: str
    line: int
    function: str


@record(frozen=True)
class Event:
    """Something that happened: written by the supervisor, or by a process of the job about itself (then with its pid)."""

    time: float
    kind: str
    details: dict[str, Any]
    pid: int | None = None
    rank: int | None = None

    @property
    def evidence(self) -> Evidence:
        """The event as a person can look it up again."""
        return Evidence("recorder", told(self), f"recorder {clock(self.time)}", rank=self.rank, time=clock(self.time))


class Pid(int):
    """A process of one of several machines: a number of its own among all of them, shown as the machine has it."""

    number: int
    node: str

    def __new__(cls, number: int, node: str, place: int) -> Pid:  # noqa: PYI034 - Self needs Python 3.11
        """``place`` is that of the node among the others; Linux has no pid above 4194304."""
        made = super().__new__(cls, number + ((place + 1) << 23))
        made.number, made.node = number, node
        return made

    def __str__(self) -> str:
        return f"{self.number} on {self.node}"

    def __format__(self, how: str) -> str:
        return format(str(self), how)


@record
class Process:
    """A process of the job: what it was, when it lived, and the numbers of its page when it was last seen."""

    pid: int
    role: str = "other"
    rank: int | None = None
    parent: int | None = None
    command: str = ""
    born: float = 0.0
    ended: float | None = None
    page: dict[str, float] = field(default_factory=dict)
    phase: str = "unknown"
    reached: bool = False
    copy: bool = False  # it was forked and runs its parent's program

    @property
    def trained(self) -> bool:
        """Whether it took optimizer steps, or batches for them."""
        worker = self.page.get("worker", float("nan"))
        return worker != worker and (self.page.get("steps", 0.0) > 0 or self.page.get("train_batches", 0.0) > 0)  # noqa: PLR0124 - NaN is not itself

    @property
    def name(self) -> str:
        """What people call it."""
        if self.role == "rank":
            return f"rank {self.rank}"
        if self.role == "program":
            return program_of(self.command) if self.command else "the program"
        return f"{self.role} of rank {self.rank}" if self.rank is not None else f"{self.role} {self.pid}"


@record
class Stage:
    """One program that the script of a run started, and what it started itself.

    ``head`` is its first process: a launcher, or the program. ``mains`` are its ranks, or the program where nothing trains.
    ``wrappers`` are around it (``timeout``, a guard) and end as it ends. ``role`` is training, preparation, evaluation, service
    or other.
    """

    program: str
    command: str
    head: int
    pids: set[int]
    mains: list[int]
    wrappers: list[int] = field(default_factory=list)
    began: float = 0.0
    ended: float | None = None
    ranks: int = 0
    trained: bool = False
    failed: bool = False
    role: str = "other"


@record(frozen=True)
class Stood:
    """Where one process stood: its main thread's frames, innermost first."""

    pid: int
    role: str
    rank: int | None
    frames: tuple[Frame, ...]
    text: str


@record(frozen=True)
class Collective:
    """One collective that a rank had entered, as NCCL's flight recorder has it."""

    rank: int
    group: str
    sequence: int
    operation: str
    sizes: str
    state: str
    where: str
    time: float


@record(frozen=True)
class StackDump:
    """The stacks of everybody at one moment, and why they were taken."""

    time: float
    reason: str
    stood: tuple[Stood, ...]


@record(frozen=True)
class Node:
    """One of several machines that recorded the same job; ``last`` is when it was last heard of."""

    name: str
    folder: str
    host: str
    ranks: tuple[int, ...]
    last: float
    ending: dict[str, Any]
    alive: bool

    @property
    def lost(self) -> bool:
        """Whether its recording stops without a word of how the job ended there."""
        return not self.ending and not self.alive


@record
class Flight:
    """The whole recording. ``tables`` holds for each table its columns; ``samples`` are (time, {table: rows})."""

    name: str = ""
    alive: bool = False  # it runs now
    facts: dict[str, Any] = field(default_factory=dict)
    ending: dict[str, Any] = field(default_factory=dict)
    events: list[Event] = field(default_factory=list)
    processes: dict[int, Process] = field(default_factory=dict)
    columns: dict[str, list[str]] = field(default_factory=dict)
    samples: list[tuple[float, dict[str, list[list[float]]]]] = field(default_factory=list)
    stacks: list[StackDump] = field(default_factory=list)
    waits: list[str] = field(default_factory=list)
    collectives: list[Collective] = field(default_factory=list)
    says: str = ""  # of a job that was looked at while it runs: how it moves
    nodes: list[Node] = field(default_factory=list)  # where there are several
    stages: list[Stage] = field(default_factory=list)
    stage: Stage | None = None  # the one in question: what decided how the run ended, unless somebody asks about another
    _by_kind: dict[str, list[tuple[int, Event]]] = field(default_factory=dict)
    _listed: tuple[int, int] = (0, 0)

    def of_kind(self, *kinds: str) -> Iterator[Event]:
        """Events of these kinds, in order."""
        if self._listed != (id(self.events), len(self.events)):
            self._by_kind = {}
            for place, event in enumerate(self.events):
                self._by_kind.setdefault(event.kind, []).append((place, event))
            self._listed = id(self.events), len(self.events)
        found = [one for kind in set(kinds) for one in self._by_kind.get(kind, ())]
        if len(kinds) > 1:
            found.sort(key=lambda one: one[0])
        return (event for _, event in found)

    def series(self, table: str, column: str, pid: int | None = None) -> list[tuple[float, float]]:
        """Time and value of a column wherever it was known; of the row whose first column is ``pid`` where one is named."""
        if column not in self.columns.get(table, ()):
            return []
        at = self.columns[table].index(column)
        key = self.columns[table].index("pid") if pid is not None else 0
        return [
            (time, row[at])
            for time, tables in self.samples
            for row in tables.get(table, ())
            if row[at] == row[at] and (pid is None or row[key] == pid)  # NaN is not itself
        ]

    def last(self, table: str, column: str, pid: int | None = None) -> float | None:
        """The last known value."""
        found = self.series(table, column, pid)
        return found[-1][1] if found else None

    @property
    def members(self) -> list[Process]:
        """The processes of the stage in question; all of them where nobody knows the stages."""
        return [process for process in self.processes.values() if self.stage is None or process.pid in self.stage.pids]

    @property
    def ranks(self) -> list[Process]:
        """The ranks of the stage in question, by number; where nothing trains, the program itself."""
        mains = [member for member in self.members if member.role in {"rank", "program"}]
        return sorted(mains, key=lambda one: (one.rank or 0, one.pid))


def told(event: Event) -> str:
    """One line for people."""
    parts = [
        f"{name}={value}" for name, value in event.details.items() if name not in {"frames", "locals"} and value is not None
    ]
    who = f"rank {event.rank} " if event.rank is not None else f"pid {event.pid} " if event.pid is not None else ""
    return f"{who}{event.kind}: {' '.join(parts)}"[:400]


def program_of(command: str) -> str:
    """What people call a program: its script, its module, or the command itself."""
    words = command.split()
    if not words:
        return "?"
    name = words[0].lstrip("-").rpartition("/")[2]
    if not name.startswith(_PYTHONS):
        return name
    rest = iter(words[1:])
    for word in rest:
        if word in _TAKES_VALUE:
            next(rest, None)
        elif word == "-m":
            module = next(rest, "?")
            runs = [one for one in rest if one.endswith(".py")] if module in _RUNNERS else []
            return runs[0].rpartition("/")[2] if runs else module
        elif word == "-c":
            return "python -c"
        elif not word.startswith("-"):
            return word.rpartition("/")[2] or word
    return name


_DURING = {
    "start-up": "during start-up",
    "train": "during training",
    "evaluate": "during evaluation",
    "sample": "during sampling",
    "checkpoint": "while saving a checkpoint",
    "save": "while saving a checkpoint",
    "load": "while loading weights",
    "data": "while waiting for data",
    "collective": "in a collective",
    "tracker": "in a tracker call",
    "compile": "during compilation",
    "exit": "at exit",
}


def during(phase: object) -> str:
    """A phase as part of a sentence: `during training`."""
    return _DURING.get(str(phase), f"in phase {phase}")


def clock(seconds: float) -> str:
    """The time of day, in UTC, without a clock being asked."""
    day = to_int(seconds, 0) % 86400
    return f"{day // 3600:02d}:{day // 60 % 60:02d}:{day % 60:02d}Z"


def median(numbers: Iterable[float]) -> float:
    """The middle of some numbers, at least one. The standard library's loads fractions and decimals first: a tenth of a start."""
    ordered = sorted(numbers)
    half = len(ordered) // 2
    return ordered[half] if len(ordered) % 2 else (ordered[half - 1] + ordered[half]) / 2


def took(seconds: float) -> str:
    """A length of time as people say it."""
    if seconds < 2 * MINUTE:
        return f"{seconds:.0f} s"
    return f"{seconds / MINUTE:.0f} min" if seconds < 2 * HOUR else f"{seconds / HOUR:.1f} h"


def frames_of(text: str) -> tuple[Frame, ...]:
    """Frames of the main thread, innermost first: Python writes it last, py-spy names it."""
    threads = threads_of(text)
    spied = _SPY_HEAD.search(text)
    heads = ('"MainThread"', f"Thread {spied[1]} " if spied is not None else '"MainThread"')
    named = next((frames for head, frames in reversed(threads) if any(name in head for name in heads)), ())
    return named or next((frames for _, frames in reversed(threads) if frames), ())


def threads_of(text: str) -> list[tuple[str, tuple[Frame, ...]]]:
    """The line at the head of each thread of a dump, and its frames, innermost first."""
    threads: list[tuple[str, list[Frame]]] = [("", [])]
    spied = _SPY_HEAD.search(text) is not None
    for line in text.splitlines():
        if line.startswith(("Current thread ", "Thread ")):
            threads.append((line, []))
        elif match := _FRAME.search(line) or _SPY_FRAME.search(line):
            name = match["function"].rpartition(".")[2] if spied else match["function"]  # py-spy tells the class too
            threads[-1][1].append(Frame(match["file"], to_int(match["line"], 0), name))
    return [(head, tuple(frames)) for head, frames in threads]
