"""Running out of device memory as the process itself recorded it: one verdict, so that each cause of this family asks only for its own.

The allocator's numbers, the phase and the batch come from inside the process, who else holds the card from NVML. Who holds the
card comes first: with most of it taken by others no phase is to blame. Then the phase, then the pool, then what grew.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from crashcart.causes.gpu_memory._numbers import CONTEXT, GIB, gib
from crashcart.causes.host_memory._recorded import climb, while_training
from crashcart.deaths import before, first, order
from crashcart.flight import clock, during
from crashcart.model import Evidence, Sign
from crashcart.numbers import to_float, to_int
from crashcart.record import record

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.case import Case
    from crashcart.deaths import Death
    from crashcart.flight import Event, Flight
    from crashcart.model import Strength

SHARE = 0.3  # of the card
IDLE = 0.12
LARGER = 1.5
GREW = 0.1
NEAR = 10.0  # seconds between an allocation that failed and the exception that nobody caught


@record(frozen=True)
class Verdict:
    """Which cause of this family it was, and what shows it."""

    cause: str
    strength: Strength
    says: str
    evidence: tuple[Evidence, ...]
    fatal: bool


def signs(case: Case, cause: str) -> Iterator[Sign]:
    """The signs of one cause of this family."""
    for verdict in verdicts(case):
        if verdict.cause == cause:
            yield Sign(verdict.strength, verdict.says, verdict.evidence, verdict.fatal, order(case))


def verdicts(case: Case) -> Iterator[Verdict]:
    """For the death of the job by device memory, and for those of earlier attempts."""
    leader = first(case)
    for death in (leader, *before(case)):
        event = _failed(case, death) if death is not None else None
        if death is not None and event is not None and case.flight is not None:
            cause, strength, says, more = _judged(case, case.flight, event)
            yield Verdict(cause, strength, says, (event.evidence, *more), death is leader)


def _failed(case: Case, death: Death) -> Event | None:
    """The last allocation that failed in the process before its exception of that kind."""
    if case.flight is None or death.raised is None or "OutOfMemoryError" not in str(death.raised.details.get("type")):
        return None
    own = [event for event in case.flight.of_kind("oom") if event.pid == death.process.pid]
    return next((event for event in reversed(own) if abs(event.time - death.time) < NEAR), None)


def _judged(case: Case, flight: Flight, event: Event) -> tuple[str, Strength, str, tuple[Evidence, ...]]:
    phase = str(event.details.get("phase"))
    tried, allocated = number(event, "tried"), number(event, "allocated")
    asked = f", and it asked for {gib(tried)} more" if tried else ""
    holds = f" with {gib(allocated)} allocated{asked}" if allocated is not None else asked
    taken = _by_others(flight, event)
    if taken is not None:
        return "other-process", *taken
    if phase in {"checkpoint", "load"}:
        doing = "wrote" if phase == "checkpoint" else "loaded"
        return "checkpoint", "decisive", f"the GPU ran out of memory while the process {doing} a checkpoint{holds}", ()
    if phase in {"evaluate", "sample"}:
        return (
            "eval-or-sample",
            "decisive",
            f"the GPU ran out of memory {during(phase)}{holds}",
            _peaks(flight, event),
        )
    idle = _idle(event)
    if idle is not None:
        return "fragmentation", "decisive", idle, ()
    grown = _grown(case, flight, event)
    if grown is not None:
        return "leak", "decisive", grown.quote, (grown,)
    larger = _larger(flight, event)
    if larger is not None:
        return "outlier-batch", "decisive", larger, ()
    return "train-step", "decisive", f"the GPU ran out of memory {during(phase)}{holds}", ()


def _by_others(flight: Flight, event: Event) -> tuple[Strength, str, tuple[Evidence, ...]] | None:
    """What the table of cards says; where it cannot tell whose memory it is, what the process knows of the card."""
    row = _card(flight, event)
    total, free, reserved = (number(event, name) for name in ("total", "free", "reserved"))
    if row is not None and not any(math.isnan(row[name]) for name in ("others", "ours", "total", "index")):
        if row["others"] > max(SHARE * row["total"], row["ours"]):
            says = f"other processes hold {gib(row['others'])} on GPU {row['index']:.0f}; the job holds {gib(row['ours'])}"
            return "decisive", says, (Evidence("recorder", says, f"recorder {clock(event.time)}", time=clock(event.time)),)
        return None
    alone = len(flight.ranks) == 1  # other ranks of the job may sit on the same card
    if not alone or total is None or free is None or reserved is None:
        return None
    held = total - free - reserved - CONTEXT
    if held > max(SHARE * total, reserved, 1.5 * GIB):
        return "strong", f"{gib(held)} of the GPU's {gib(total)} are neither free nor held by this process", ()
    return None


def _card(flight: Flight, event: Event) -> dict[str, float] | None:
    """The card's row at the last look before the failure."""
    columns = flight.columns.get("gpu", [])
    rows = [row for time, tables in flight.samples if time <= event.time + 1 for row in tables.get("gpu", [])]
    if not rows or "others" not in columns:
        return None
    index = _physical(flight, event.details.get("device"))
    cards = {row[0] for row in rows}
    if index is None and len(cards) == 1:
        index = to_int(rows[-1][0])
    last = next((row for row in reversed(rows) if row[0] == index), None)
    return dict(zip(columns, last, strict=False)) if last is not None else None


def _physical(flight: Flight, device: object) -> int | None:
    """The driver's number of a device of the program, unless the list of visible ones names them otherwise."""
    if not isinstance(device, int):
        return None
    visible = str((flight.facts.get("environment") or {}).get("CUDA_VISIBLE_DEVICES", ""))
    if not visible:
        return device
    names = [name.strip() for name in visible.split(",")]
    return to_int(names[device]) if device < len(names) else None


def _peaks(flight: Flight, event: Event) -> tuple[Evidence, ...]:
    """What the allocator held at most in each phase, as it was seen each second."""
    columns = flight.columns.get("page", [])
    if event.pid is None or not {"phase", "allocated", "pid"} <= set(columns):
        return ()
    from crashcart.inside.layout import PHASES

    place, held, pid = (columns.index(name) for name in ("phase", "allocated", "pid"))
    most: dict[str, float] = {}
    for _, tables in flight.samples:
        for row in tables.get("page", []):
            if row[pid] == event.pid and not math.isnan(row[held] + row[place]) and row[place] < len(PHASES):
                name = PHASES[to_int(row[place], 0)]
                most[name] = max(most.get(name, 0.0), row[held])
    told = ", ".join(f"{name} {gib(size)}" for name, size in most.items() if size > 0)
    at = clock(event.time)
    return (
        (Evidence("recorder", f"most memory allocated, by phase: {told}", f"recorder {at}", event.rank, at),) if told else ()
    )


def _idle(event: Event) -> str | None:
    tried, allocated, reserved, total = (number(event, name) for name in ("tried", "allocated", "reserved", "total"))
    if tried is None or allocated is None or reserved is None or total is None:
        return None
    idle = reserved - allocated
    if 1.3 * tried < idle and idle > IDLE * total:
        return f"{gib(idle)} were reserved by PyTorch but unused when it asked for {gib(tried)}"
    return None


def _grown(case: Case, flight: Flight, event: Event) -> Evidence | None:
    """Allocated memory whose floor rose through the training, by a good part of the card."""
    if event.pid is None:
        return None
    rose = climb(while_training(case, event.pid, flight.series("page", "allocated", event.pid)))
    total = number(event, "total")
    if rose is None or (total is not None and rose[1] - rose[0] < GREW * total):
        return None
    says = f"allocated memory rose from {gib(rose[0])} to {gib(rose[1])} during training, step by step"
    return Evidence("recorder", says, f"recorder {clock(event.time)}", event.rank, clock(event.time))


def _larger(flight: Flight, event: Event) -> str | None:
    """The batch at hand against the largest one that passed a step before."""
    size, step, columns = number(event, "batch_elements"), number(event, "step"), flight.columns.get("page", [])
    if not size or not step or not {"pid", "steps", "largest_elements"} <= set(columns):
        return None
    pid, steps, largest = (columns.index(name) for name in ("pid", "steps", "largest_elements"))
    passed = [
        row[largest]
        for time, tables in flight.samples
        for row in tables.get("page", [])
        if time < event.time and row[pid] == event.pid and 0 < row[steps] < step and row[largest] > 0
    ]
    if not passed or size <= LARGER * max(passed):
        return None
    return f"this batch has {size:.0f} elements; the largest before it had {max(passed):.0f}"


def number(event: Event, name: str) -> float | None:
    """A number of the event that is known."""
    return to_float(event.details.get(name))
