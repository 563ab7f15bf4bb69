"""How a recorded job spent its time: waiting for data, on each rank; and how its cards ran."""

from __future__ import annotations

from typing import TYPE_CHECKING

from crashcart.flight import clock, median
from crashcart.model import Evidence
from crashcart.numbers import to_int
from crashcart.record import record

if TYPE_CHECKING:
    from crashcart.case import Case
    from crashcart.flight import Flight, Process

LONG_ENOUGH = 10.0  # seconds of training
FEWEST_WAITS = 10
FEWEST_SAMPLES = 10
AT_WORK = 50.0  # percent of time that a card is busy
HELD = 0x8 | 0x20 | 0x40 | 0x80  # hardware slowdown, thermal by software, thermal by hardware, power brake
REASONS = {
    0x8: "hardware slowdown", 0x20: "heat, by the driver", 0x40: "heat, by the card", 0x80: "the power brake",
}  # fmt: skip


@record(frozen=True)
class Waits:
    """How a rank waited for its loader: share of its time, and seconds for each batch."""

    process: Process
    share: float
    each: float
    evidence: Evidence


def waits(case: Case) -> list[Waits]:
    """Of each rank that trained for a while, between its first steps and its last; the longest first."""
    flight = case.flight
    found = [_waits(flight, rank) for rank in flight.ranks] if flight is not None else []
    return sorted((one for one in found if one is not None), key=lambda one: -one.share)


def _waits(flight: Flight, process: Process) -> Waits | None:
    steps = flight.series("page", "steps", process.pid)
    begun = next((time for time, value in steps if value >= 2), None)
    waited = [(time, value) for time, value in flight.series("page", "data_wait", process.pid) if begun and time >= begun]
    counted = [value for time, value in flight.series("page", "data_waits", process.pid) if begun and time >= begun]
    moved = [(time, value) for time, value in steps if value > 0]
    if len(waited) < 2 or len(counted) < 2 or not moved:
        return None
    last = next(time for time, value in moved if value == moved[-1][1])  # what follows the last step is no training
    inside = [(time, value) for time, value in waited if time <= last]
    batches = counted[-1] - counted[0]
    if len(inside) < 2 or batches < FEWEST_WAITS or inside[-1][0] - inside[0][0] < LONG_ENOUGH:
        return None
    spent, total = inside[-1][1] - inside[0][1], inside[-1][0] - inside[0][0]
    quote = f"{process.name} waited {spent:.1f} of {total:.0f} s for {batches:.0f} batches of its loader"
    at = clock(inside[-1][0])
    return Waits(process, spent / total, spent / batches, Evidence("recorder", quote, f"recorder {at}", process.rank, at))


@record(frozen=True)
class Card:
    """A card while it was at work: how many samples, in how many its clock was held down and by what, its usual clock."""

    index: int
    samples: int
    held: int
    reasons: str
    clock: float
    evidence: Evidence


def cards(case: Case) -> list[Card]:
    """The cards that worked for a while."""
    flight = case.flight
    if flight is None or not {"index", "busy", "throttle", "clock", "temperature"} <= {*flight.columns.get("gpu", ())}:
        return []
    at = {name: flight.columns["gpu"].index(name) for name in ("index", "busy", "throttle", "clock", "temperature")}
    rows: dict[int, list[tuple[float, list[float]]]] = {}
    for time, tables in flight.samples:
        for row in tables.get("gpu", ()):
            if row[at["busy"]] >= AT_WORK and row[at["index"]] == row[at["index"]]:
                rows.setdefault(to_int(row[at["index"]], 0), []).append((time, row))
    return [_card(index, seen, at) for index, seen in sorted(rows.items()) if len(seen) >= FEWEST_SAMPLES]


def _card(index: int, seen: list[tuple[float, list[float]]], at: dict[str, int]) -> Card:
    masks = [to_int(row[at["throttle"]], 0) for _, row in seen if row[at["throttle"]] == row[at["throttle"]]]
    held = [mask for mask in masks if mask & HELD]
    together = 0
    for mask in held:
        together |= mask
    reasons = ", ".join(name for bit, name in REASONS.items() if together & bit)
    clocks = [row[at["clock"]] for _, row in seen if row[at["clock"]] == row[at["clock"]]]
    hottest = max((row[at["temperature"]] for _, row in seen if row[at["temperature"]] > 0), default=float("nan"))
    usual = median(clocks) if clocks else float("nan")
    quote = (
        f"GPU {index}: held down in {len(held)} of {len(masks)} samples at work"
        + (f" ({reasons})" if reasons else "")
        + f", clock {usual:.0f} MHz, up to {hottest:.0f} degrees"
    )
    when = clock(seen[-1][0])
    return Card(index, len(masks), len(held), reasons, usual, Evidence("recorder", quote, f"recorder {when}", time=when))
