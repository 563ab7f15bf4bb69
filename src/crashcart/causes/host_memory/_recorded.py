"""Memory of the host in a recording: what the kernel's counters of kills say, how short it was, and whether it climbed."""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING

from crashcart.deaths import deaths
from crashcart.flight import clock, program_of, took
from crashcart.model import Evidence
from crashcart.pattern import Pattern
from crashcart.record import record
from crashcart.stages import programs_beside

if TYPE_CHECKING:
    from crashcart.case import Case
    from crashcart.deaths import Death
    from crashcart.flight import Flight
    from crashcart.model import Fact

REFUSED = Pattern(
    r"^(?:numpy\S{0,200}_Array)?MemoryError\b|DefaultCPUAllocator|[Cc]annot allocate memory|Unable to allocate .{0,200} for an array|bad_alloc"
)
GIB = 1 << 30
SHORT = 0.9  # of a group's limit, in memory that cannot be given back
SCARCE = 0.05  # of the machine's memory that is still available
NEAR = 6.0  # seconds before a death
BINS = 6
EACH = 2
FEW = 6
GROWTH = 1.3
MOST_AT_ONCE = 0.7
NEARLY = 0.95
NOTICEABLE = 64 << 20
# Wrappers that kill nobody for memory.
SCRIPTS = (".py", ".sh")  # what a project has of its own
BYSTANDERS = frozenset({"timeout", "nohup", "env", "nice", "ionice", "taskset", "numactl", "stdbuf", "script", "time", "conda", "uv", "poetry"})  # fmt: skip


@record(frozen=True)
class Counted:
    """A counter of the kernel over the run."""

    name: str
    before: float
    after: float
    time: float

    @property
    def moved(self) -> bool:
        """Whether the kernel killed anybody."""
        return self.after > self.before

    @property
    def evidence(self) -> Evidence:
        """Both ends of it."""
        what = f"from {self.before:.0f} to {self.after:.0f}" if self.moved else f"stayed at {self.after:.0f}"
        return _seen(f"{self.name}: {what}", self.time)


def own_kills(case: Case, death: Death) -> Counted | None:
    """The counter of the job's own group."""
    return _counted(case, death, "cgroup", "oom_kill", "oom_kill of the job's control group")


def host_kills(case: Case, death: Death) -> Counted | None:
    """The counter of the whole machine: neighbours count in it too."""
    return _counted(case, death, "host", "oom_kills", "oom_kill of the whole machine")


def no_kill(case: Case, death: Death) -> Counted | None:
    """The counter that proves that the kernel killed nobody of the job; nothing where none does."""
    for counted in (host_kills(case, death), own_kills(case, death)):
        if counted is not None and not counted.moved:
            return counted
    return None


def short(case: Case, time: float) -> Evidence | None:
    """What shows that memory was nearly used up right before."""
    flight = case.flight
    if flight is None:
        return None
    used, limit = _group_use(flight, time), _near(flight, "cgroup", "limit", time)
    if used and limit and math.isfinite(limit) and used > SHORT * limit:
        return _seen(f"the job's control group used {gib(used)} of its {gib(limit)}", time)
    available, total = _near(flight, "host", "memory_available", time), _near(flight, "host", "memory_total", time)
    if available is not None and total and available < SCARCE * total:
        return _seen(f"{gib(available)} of {gib(total)} were available on the machine", time)
    return None


def ample(case: Case, time: float) -> bool:
    """Whether it is known that memory was not short."""
    flight = case.flight
    return flight is not None and _near(flight, "host", "memory_available", time) is not None and short(case, time) is None


def climb(series: list[tuple[float, float]]) -> tuple[float, float] | None:
    """First and last floor of a number that rose through all of its time; a start that levels off is none."""
    size = len(series) // BINS
    values = [value for _, value in series]
    if size < EACH:
        return _short_climb(values)
    floors = [min(values[place * size : (place + 1) * size]) for place in range(BINS)]
    rises = sum(later > earlier for earlier, later in itertools.pairwise(floors))
    half = (floors[0] + floors[-1]) / 2
    even = floors[BINS // 2 - 1] < half + 0.25 * (floors[-1] - floors[0])
    steady = rises >= BINS - 2 and even and floors[-1] > GROWTH * floors[0] > 0
    return (floors[0], floors[-1]) if steady else None


def _short_climb(values: list[float]) -> tuple[float, float] | None:
    """The same where there are few looks: each one must be higher than the one before, and the rise must not slow down much."""
    if len(values) < FEW or any(later <= earlier for earlier, later in itertools.pairwise(values)):
        return None
    even = values[len(values) // 2] < values[0] + 0.75 * (values[-1] - values[0])
    return (values[0], values[-1]) if even and values[-1] > GROWTH * values[0] > 0 else None


def ended_by_memory(case: Case, death: Death) -> bool:
    """Whether the kernel killed it for memory, or memory was short when it ended."""
    counted = own_kills(case, death) or host_kills(case, death)
    killed = death.signal == "SIGKILL" and counted is not None and counted.moved
    return killed or short(case, death.time) is not None


def climbed(case: Case, death: Death) -> Evidence | None:
    """Which process of the rank that died grew through all of the training, itself first."""
    if case.flight is None:
        return None
    rank, at = death.process.rank, clock(death.time)
    trainer = _trainer_of(case, death)
    family = [one for one in case.flight.processes.values() if one.rank == rank and one.role != "launcher"]
    for process in sorted(family, key=lambda one: one.pid != death.process.pid):
        sizes = case.flight.series("process", "rss", process.pid)
        series = while_training(case, trainer, sizes, death.time) if trainer else []
        rose = climb(series)
        if rose is not None:
            grew = f"{process.name} grew from {gib(rose[0])} to {gib(rose[1])} in {took(series[-1][0] - series[0][0])}"
            return Evidence("recorder", f"{grew} of training, without levelling off", f"recorder {at}", rank, at)
    return None


def note_of_kill(case: Case, death: Death) -> Fact | None:
    """What whoever killed a process wrote about it, or about another that was killed with it."""
    notes = case.all("kill.note")
    return next((note for note in notes if note.value["pid"] == death.process.pid), notes[0] if notes else None)


def leaked(case: Case, death: Death) -> Evidence | None:
    """What climbed through the training; or how far it had grown, where the code keeps something of every step or sample."""
    rose = climbed(case, death)
    if rose is not None or case.before or not any(map(case.all, ("code.graph_kept", "code.grows", "code.sample_cache"))):
        return rose
    values = [size for _, size in _sizes_of(case, death)]
    rises = [later - earlier for earlier, later in itertools.pairwise(values) if later > earlier]
    # What comes at once, as in a sampling, was kept by no step.
    return grown(case, death) if len(rises) > 1 and max(rises) < MOST_AT_ONCE * sum(rises) else None


def _sizes_of(case: Case, death: Death) -> list[tuple[float, float]]:
    """The memory of a process from its first step to its end."""
    trainer = _trainer_of(case, death)
    if case.flight is None or not trainer:
        return []
    return while_training(case, trainer, case.flight.series("process", "rss", death.process.pid), death.time)


def grown(case: Case, death: Death) -> Evidence | None:
    """How far a process had grown since its first step, where it ended at its largest."""
    sizes = _sizes_of(case, death)
    values = [size for _, size in sizes]
    if len(values) < EACH or values[-1] < NEARLY * max(values):
        return None
    begin, end = min(values[:EACH]), values[-1]
    if end < GROWTH * begin or end - begin < NOTICEABLE:
        return None
    quote = f"{death.process.name} grew from {gib(begin)} to {gib(end)} in {took(sizes[-1][0] - sizes[0][0])} of training"
    return Evidence("recorder", quote, f"recorder {clock(death.time)}", death.process.rank, clock(death.time))


def _trainer_of(case: Case, death: Death) -> int | None:
    """The rank to which a process belonged: a loader worker makes no steps of its own."""
    ranks = case.flight.ranks if case.flight is not None else []
    own = [rank.pid for rank in ranks if rank.rank == death.process.rank and rank.born <= death.time]
    return own[-1] if own else None


def guard_of(case: Case) -> str:
    """The program that stands around the one in question, or ran beside it, and may have killed it; nothing where there is none."""
    flight = case.flight
    stage = flight.stage if flight is not None else None
    wrappers = stage.wrappers if stage is not None else []
    commands = [flight.processes[pid].command for pid in wrappers] if flight is not None else []
    around = next((name for name in map(program_of, reversed(commands)) if name not in BYSTANDERS), "")
    services = programs_beside(flight) if flight is not None else []
    kills = [str(fact.value["script"]) for fact in case.all("launch.kills") if fact.value["of_memory"]]
    return around or next((name for name in (*services, *kills) if name.endswith(SCRIPTS)), "")


def killed_by_guard(case: Case, death: Death) -> Evidence | None:
    """The word of a guard that killed for memory; or the growth of what was killed, where a program of the job may watch its memory."""
    note = note_of_kill(case, death)
    if note is not None:
        return note.evidence if note.value["of_memory"] else None
    if death.signal != "SIGKILL" or not guard_of(case):
        return None
    return next((grew for one in _killed_together(case, death) if (grew := grown(case, one)) is not None), None)


def _killed_together(case: Case, death: Death) -> list[Death]:
    """A process that was killed, and those of its kind that were killed right after it."""
    same = [
        one
        for one in deaths(case)
        if one.signal == death.signal and one.process.role == death.process.role and 0 <= one.time - death.time < NEAR
    ]
    return [death, *(one for one in same if one.process.pid != death.process.pid)]


def while_training(
    case: Case, pid: int, series: list[tuple[float, float]], until: float = math.inf
) -> list[tuple[float, float]]:
    """The part of a series after the first optimizer step of a rank; a process that has ended, and was not yet collected, shows 0.

    ``until`` is the death: a process may take seconds to end after its exception, at a size that no longer changes.
    """
    steps = case.flight.series("page", "steps", pid) if case.flight is not None else []
    began = next((time for time, value in steps if value > 0), None)
    return [] if began is None else [(time, value) for time, value in series if began <= time <= until and value > 0]


def gib(count: float) -> str:
    """Bytes for people."""
    return f"{count / GIB:.1f} GiB" if count >= GIB else f"{count / (1 << 20):.0f} MiB"


def last_of(case: Case, table: str, column: str, time: float) -> float | None:
    """The last value of a column that was known shortly before."""
    return _near(case.flight, table, column, time) if case.flight is not None else None


def _counted(case: Case, death: Death, table: str, column: str, name: str) -> Counted | None:
    known = case.flight.series(table, column) if case.flight is not None else []
    if not known or known[-1][0] < death.time - 0.1:  # nobody looked after the death
        return None
    return Counted(name, known[0][1], known[-1][1], known[-1][0])


def _group_use(flight: Flight, time: float) -> float | None:
    anonymous, shared = _near(flight, "cgroup", "anon", time), _near(flight, "cgroup", "shmem", time)
    return None if anonymous is None else anonymous + (shared or 0.0)


def _near(flight: Flight, table: str, column: str, time: float) -> float | None:
    """The value of the last look before the time."""
    known = [value for at, value in flight.series(table, column) if time - NEAR < at <= time]
    return known[-1] if known else None


def _seen(quote: str, time: float) -> Evidence:
    return Evidence("recorder", quote, f"recorder {clock(time)}", time=clock(time))
