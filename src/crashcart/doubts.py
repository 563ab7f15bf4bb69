"""What a recording holds against a run that ended well: nothing trained, nothing evaluated, no numbers, or begun anew where it was to go on.

The numbers alone decide nothing: many programs have no evaluation, and some make an optimizer that they do not use. They say where
it is worth reading the code.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from crashcart.numbers import to_float
from crashcart.pattern import Pattern
from crashcart.record import record
from crashcart.stages import exit_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.flight import Event, Flight, Process, Stage

__all__ = [
    "FEW_NUMBERS",
    "Repeat",
    "emptied",
    "few_trained",
    "highest_rate",
    "is_in_doubt",
    "lost_numbers",
    "never_evaluated",
    "repeat",
    "resumed",
    "saved_names",
    "taken_over",
    "unfitting",
    "untrained",
    "unwarmed",
]

FEW_NUMBERS = 16
_BYTES_EACH, _MANY = 4, 100
_SEVERAL = 2
_UNKNOWN = float("nan")
_FEWEST_STEPPED, _RARELY = 3, 8  # a schedule that was stepped once an epoch, for a few epochs of many steps
_HARDLY, _STILL = 1 / 3, 0.999  # of the rate that it should reach, and of the largest rate
_NUMBERED = Pattern(r"\d")
# What an exception says where a loop made no turn: a sum over nothing, a name that was never given, weights that were never saved.
_NOTHING_THERE = Pattern(
    r"(?i)division by zero|empty (?:sequence|list|tensor)|is empty|non-empty|at least one|NoneType|cannot access local variable|"
    r"referenced before assignment|index out of range|StopIteration|"
    r"No such file or directory: .{0,400}(?:best|\.(?:pth?|ckpt|bin|safetensors|pkl)\b)"
)
_MEANT = Pattern(r"(?i)(?:resum|restor|continu)\w{0,20}(?:[= ](?!never|no\b|none|false|off|0)|$)")


@record(frozen=True)
class Repeat:
    """A program that was started a second time and did the first one's steps again; ``meant`` where its command asks to go on."""

    stage: Stage
    earlier: Event
    later: Event
    meant: bool


def is_in_doubt(flight: Flight) -> bool:
    """Whether anything speaks against a run that ended well."""
    return (
        never_evaluated(flight)
        or repeat(flight) is not None
        or any(True for _ in untrained(flight))
        or lost_numbers(flight)
        or few_trained(flight) is not None
        or resumed(flight) is not None
        or any(True for _ in unfitting(flight))
        or unwarmed(flight) is not None
    )


def unfitting(flight: Flight) -> Iterator[Event]:
    """Loads of weights, before the first step of a rank, that took nothing, or far less than the file has under other prefixes.

    A program that tries one prefix after the other, or loads a part of its model from elsewhere, has got its weights in the end.
    """
    for process in flight.ranks:
        loads = [event for event in flight.of_kind("weights") if event.pid == process.pid and event.details.get("step") == 0]
        for place, load in enumerate(loads):
            later = (each for each in loads[place + 1 :] if each.details.get("class") == load.details.get("class"))
            if _took_too_little(load) and not any(to_float(each.details.get("taken"), 0.0) for each in later):
                yield load


def _took_too_little(load: Event) -> bool:
    given, taken, missing = (to_float(load.details.get(name), 0.0) for name in ("given", "taken", "missing"))
    if not given or not missing:
        return False
    absent, other = load.details.get("missing_names") or [], load.details.get("unexpected_names") or []
    renamed = [name for name in other for own in absent if name.endswith(f".{own}") or own.endswith(f".{name}")]
    return taken == 0 or (len(renamed) >= _SEVERAL and len(renamed) * 2 >= len(absent))


def emptied(flight: Flight, raised: Event) -> Event | None:
    """The last time that a loader gave nothing which never gave a batch, where an exception says that nothing was there.

    A file that is not there may have been for another program of the script to write.
    """
    words = f"{raised.details.get('type')}: {raised.details.get('message')}"
    if _NOTHING_THERE.search(words) is None:
        return None
    by_any = str(raised.details.get("type")) == "FileNotFoundError"
    epochs = [
        event for event in flight.of_kind("loader") if (by_any or event.pid == raised.pid) and event.time <= raised.time
    ]
    gave = {(event.pid, event.details.get("number")) for event in epochs if event.details.get("batches")}
    empty = (event for event in epochs if event.details.get("whole"))
    return next((event for event in empty if (event.pid, event.details.get("number")) not in gave), None)


def unwarmed(flight: Flight) -> tuple[Process, Event] | None:
    """A rank whose rate rose to its last step and yet stayed far below what the optimizer was made with, and its schedule.

    The schedule was stepped far less often than the optimizer: it counts steps, and somebody steps it once an epoch.
    """
    for process in flight.ranks:
        made, top, last, steps = (process.page.get(name, _UNKNOWN) for name in ("lr_made", "lr_top", "lr", "steps"))
        counts = [event for event in flight.of_kind("schedule") if event.pid == process.pid]
        schedule = max(counts, key=_stepped, default=None)
        if schedule is None or not _FEWEST_STEPPED <= _stepped(schedule) <= steps / _RARELY:
            continue
        if 0 <= top <= made * _HARDLY > 0 and last >= top * _STILL:
            return process, schedule
    return None


def highest_rate(flight: Flight) -> tuple[float, float] | None:
    """The rate that the first optimizer of a rank was made with, and the highest of its steps."""
    pages = [process.page for process in flight.ranks]
    rates = [(page.get("lr_made", _UNKNOWN), page.get("lr_top", _UNKNOWN)) for page in pages]
    return next(((made, top) for made, top in rates if made > 0 and top >= 0), None)


def _stepped(schedule: Event) -> float:
    return to_float(schedule.details.get("stepped"), 0.0)


def resumed(flight: Flight) -> Event | None:
    """The load, before its first step, of a rank that saves where it loaded from: it went on with its own run."""
    for process in flight.ranks:
        own = [event for event in flight.of_kind("checkpoint") if event.pid == process.pid]
        folders = {os.path.dirname(str(event.details.get("path"))) for event in own}
        for load in flight.of_kind("phase"):
            is_load = load.pid == process.pid and load.details.get("phase") == "load"
            at_start = load.details.get("step") == 0  # the best weights may come back at the end
            if is_load and at_start and os.path.dirname(str(load.details.get("path") or "-")) in folders:
                return load
    return None


def few_trained(flight: Flight) -> tuple[Event, Event | None] | None:
    """The only optimizer of a rank that holds a hundredth of what the rank saved, or less, and that file; or a few numbers at all.

    Many trainings are meant so (a new head, an adapter, a prompt); it counts where the loss did not fall.
    """
    for process in flight.ranks:
        made = [event for event in flight.of_kind("optimizer") if event.pid == process.pid]
        saved = [event for event in flight.of_kind("checkpoint") if event.pid == process.pid and _bytes(event) > 0]
        if len(made) != 1 or process.page.get("steps", 0.0) <= 0:
            continue
        largest = max(saved, key=_bytes, default=None)
        own = to_float(made[0].details.get("parameters"), 0.0)
        if largest is not None and 0 < own * _BYTES_EACH * _MANY < _bytes(largest):
            return made[0], largest
        if 0 < own <= FEW_NUMBERS:
            return made[0], None
    return None


def _bytes(event: Event) -> float:
    return to_float(event.details.get("bytes"), 0.0)


def lost_numbers(flight: Flight) -> bool:
    """Whether a rank had a loss that was no number."""
    ranks = {process.pid for process in flight.ranks}
    return any(event.pid in ranks and event.details.get("what") == "loss" for event in flight.of_kind("nonfinite"))


def untrained(flight: Flight) -> Iterator[tuple[Stage, Event]]:
    """Programs that made an optimizer and ended with 0, and in which no process made a step."""
    for stage in flight.stages:
        members = [flight.processes[pid] for pid in stage.pids]
        if (
            stage.ended is None
            or exit_of(flight, stage) != (0, None)
            or any(member.page.get("steps", 0.0) > 0 for member in members)
        ):
            continue
        made = next((event for event in flight.of_kind("optimizer") if event.pid in stage.pids), None)
        if made is not None:
            yield stage, made


def taken_over(flight: Flight, stage: Stage) -> tuple[Stage, Event, Event] | None:
    """The state that a program loaded although another program of the script had saved it: that program, its save and the load."""
    saves = {str(event.details.get("path")): event for event in flight.of_kind("checkpoint")}
    for load in flight.of_kind("phase"):
        saved = saves.get(str(load.details.get("path"))) if load.details.get("phase") == "load" else None
        if saved is None or load.pid not in stage.pids or saved.time > load.time:
            continue
        other = next((each for each in flight.stages if saved.pid in each.pids), None)
        if other is not None and other.program != stage.program:
            return other, saved, load
    return None


def never_evaluated(flight: Flight) -> bool:
    """Whether the ranks trained, and no loader gave a batch while a model was evaluated."""
    pages = [process.page for process in flight.ranks]
    trained = any(page.get("steps", 0.0) > 0 for page in pages)
    return trained and all(page.get("eval_batches", 1.0) == 0 for page in pages)


def repeat(flight: Flight) -> Repeat | None:
    """A second start of a program that saved the same numbered files after the same numbers of its own steps as the first."""
    for place, stage in enumerate(flight.stages):
        first = next((each for each in flight.stages[:place] if each.program == stage.program and not each.failed), None)
        if first is None:
            continue
        saved = {_named(event): event for event in flight.of_kind("checkpoint") if event.pid in first.pids}
        for event in flight.of_kind("checkpoint"):
            earlier = saved.get(_named(event)) if event.pid in stage.pids else None
            if earlier is not None and _NUMBERED.search(os.path.basename(_named(event)[0])) and event.details.get("step"):
                return Repeat(stage, earlier, event, _MEANT.search(stage.command) is not None)
    return None


def saved_names(flight: Flight) -> list[str]:
    """The names of the files that a program saved which was started again and did not go on from them."""
    again = repeat(flight)
    if again is None:
        return []
    folder = os.path.dirname(_named(again.earlier)[0])
    paths = (_named(event)[0] for event in flight.of_kind("checkpoint") if event.time <= again.later.time)
    return sorted({os.path.basename(path) for path in paths if os.path.dirname(path) == folder})


def _named(event: Event) -> tuple[str, object]:
    return str(event.details.get("path")), event.details.get("step")
