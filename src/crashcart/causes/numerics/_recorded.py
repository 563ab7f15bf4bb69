"""Losses and loss scales that a recording saw turn into no number: on which rank first, and whether they came back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from crashcart.account import NOT_FINITE
from crashcart.deaths import first
from crashcart.flight import median
from crashcart.numbers import to_int
from crashcart.places import never_better
from crashcart.record import record

if TYPE_CHECKING:
    from crashcart.case import Case
    from crashcart.deaths import Death
    from crashcart.flight import Event, Flight, Process

STEADY = 2.0  # times the usual loss that is no growth
AFTER = 3  # batches that are compared with the bad one
LARGE_WEIGHT, LARGE_LOSS = 1e2, 1e3
PAIR, SHOWN_SAMPLES = 2, 8
FEWEST = 3  # losses that make a usual one


@record(frozen=True)
class Broken:
    """The first loss of a rank that was no number: ``stays`` if most that follow are none either."""

    process: Process
    event: Event
    step: int
    count: int
    stays: bool
    steady: bool


def broken_losses(case: Case) -> list[Broken]:
    """Of each rank its first loss that was no number, the earliest step first."""
    flight = case.flight
    found: dict[int, Broken] = {}
    for event in flight.of_kind("nonfinite") if flight is not None else ():
        process = flight.processes.get(event.pid or 0) if flight is not None else None
        if flight is None or process is None or process.pid in found or event.details.get("what") != "loss":
            continue
        found[process.pid] = _broken(flight, process, event)
    return sorted(found.values(), key=lambda one: (one.step, one.event.time))


def alone(case: Case, found: list[Broken]) -> bool:
    """Whether one of several ranks had it before all others, with a loss that had not grown: its batch brought it in."""
    ranks = [rank for rank in (case.flight.ranks if case.flight is not None else ()) if rank.page.get("steps", 0.0) > 0]
    if len(ranks) < 2 or not found or not found[0].steady:
        return False
    return len(found) == 1 or found[1].step > found[0].step


def brought_in(case: Case, found: list[Broken]) -> str | None:
    """What the batch of the first loss that was no number held that is none: field and samples; nothing where data always does."""
    if case.flight is None or not found:
        return None
    event = found[0].event
    fields = _fields(event)
    later = [one for one in case.flight.of_kind("inputs") if one.pid == event.pid and one.time >= event.time][:AFTER]
    usual = set.intersection(*(set(_fields(one)) for one in later)) if later else set()
    if found[0].step > 0:  # with losses that were fine before, what every batch holds is left out by the program
        own = {name: said for name, said in fields.items() if name not in usual}
        # Over ordinary weights such values came with these batches, unless others came with this one alone.
        is_sudden = has_usual_loss(found[0]) and _has_ordinary_weights(event)
        fields = own if own or not is_sudden else fields
    return "; ".join(fields.values()) or None


def held_by_last_batch(case: Case) -> tuple[Death, str] | None:
    """The first death, where it speaks of NaN and its batch held values that are not finite; with those values in words."""
    leader = first(case)
    if leader is None or leader.raised is None or not leader.says(NOT_FINITE):
        return None
    held = "; ".join(_fields(leader.raised).values())
    return (leader, held) if held else None


def had_finite_inputs(event: Event) -> bool:
    """Whether the batch of a bad loss was looked into and was finite."""
    return event.details.get("looked") is True and not event.details.get("fields")


def lost_in_one_step(broken: Broken) -> bool:
    """Whether a step with a loss as usual and a batch of finite values, as far as they are known, broke ordinary weights."""
    details = broken.event.details
    largest = details.get("weights_largest")
    ordinary = isinstance(largest, (int, float)) and largest < LARGE_WEIGHT
    return has_usual_loss(broken) and ordinary and details.get("weights_finite") is False and not _fields(broken.event)


def broke_the_weights(broken: Broken) -> str | None:
    """The samples of the batch whose step made finite weights infinite or NaN, where the loss was as usual before.

    A step that is too large shows before: the loss grows, and the weights that are still finite are huge.
    """
    details = broken.event.details
    before, largest = details.get("before"), details.get("weights_largest")
    usual_weights = isinstance(largest, (int, float)) and largest < LARGE_WEIGHT
    broke_now = details.get("weights_finite") is False and had_finite_inputs(broken.event)
    if not (has_usual_loss(broken) and usual_weights and broke_now and isinstance(before, list) and before):
        return None
    number, indices = before[0] if isinstance(before[0], list) and len(before[0]) == PAIR else (None, None)
    if not isinstance(indices, list) or not indices:
        return f"batch {number} of its epoch"
    shown = ", ".join(str(index) for index in indices[:SHOWN_SAMPLES])
    return f"samples {shown}{', …' if len(indices) > SHOWN_SAMPLES else ''} of the data set (batch {number} of its epoch)"


def was_data(case: Case, broken: Broken) -> bool:
    """Whether the batch whose step broke the weights may have held what is no number: other batches of the run did.

    Where all that were looked into were finite, the step itself made it of finite values: its loss has no finite gradient there.
    """
    events = (
        [one for one in case.flight.of_kind("inputs", "nonfinite") if one.pid == broken.process.pid] if case.flight else []
    )
    return any(_fields(event) for event in events)


def has_usual_loss(broken: Broken) -> bool:
    """Whether the loss before the bad one was as usual."""
    loss = broken.event.details.get("loss_before")
    return broken.steady or (isinstance(loss, (int, float)) and abs(loss) < LARGE_LOSS)


def _has_ordinary_weights(event: Event) -> bool:
    """Whether the weights that a bad loss was made of were finite, and none was huge."""
    largest = event.details.get("weights_largest")
    return event.details.get("weights_finite") is True and isinstance(largest, (int, float)) and largest < LARGE_WEIGHT


def _fields(event: Event) -> dict[str, str]:
    """Fields of a batch with values that are not finite, in words."""
    told: dict[str, str] = {}
    for field in event.details.get("fields") or ():
        name, count, samples = str(field.get("field")), field.get("values"), field.get("samples") or []
        indices = field.get("indices") or []
        rows = ", ".join(str(row) for row in samples)
        where = f" in row {rows}" if samples else ""
        if indices:
            where = f" in sample {', '.join(str(index) for index in indices)} of the data set (row {rows}"
        closing = " of its epoch)" if indices else " of its epoch"
        values = "1 value" if count == 1 else f"{count} values"
        told[name] = f"{values} of field '{name}'{where} of batch {event.details.get('batch')}{closing} not finite"
    return told


def other_death(case: Case) -> bool:
    """Whether something else ended the run: an error that does not speak of numbers."""
    leader = first(case)
    return leader is not None and not leader.says(NOT_FINITE) and not never_better(case)


def _broken(flight: Flight, process: Process, event: Event) -> Broken:
    step = event.details.get("step")
    at = to_int(step, 0)
    page = process.page
    last, count = page.get("loss", 0.0), to_int(page.get("nonfinite"), 0)
    lost = last - last != 0 and page.get("loss_step", -1) >= at
    since = page.get("steps", 0.0) - at
    before = [
        value for time, value in flight.series("page", "loss", process.pid) if time < event.time and value - value == 0
    ]
    usual = median(before) if len(before) >= FEWEST else None
    known = event.details.get("loss_before")  # what was sampled may be some steps older
    latest = known if isinstance(known, (int, float)) else before[-1] if before else 0.0
    steady = usual is not None and latest <= STEADY * abs(usual)
    return Broken(process, event, at, count, lost or (count > 1 and count > since / 2), steady)
