"""The clocks are throttled by heat, power or another tenant of the machine.

What happens: steps of the same size take longer than before, steadily or after some time of full load.

Why: cooling fails or air is blocked, a power cap or power brake is active, a driver limit is set low, a shared or
virtual machine gives less than it did. Processors are throttled as well.

How it shows: ``HW Thermal Slowdown : Active``, a health check that names a thermal or power violation, ``cpu clock
throttled``; or a speed that falls late in a run whose batches have not changed. ``SW Power Cap : Active`` at full load
is normal on many cards, and so is ``Idle : Active``.

What to do: ``nvidia-smi -q -d PERFORMANCE,TEMPERATURE,POWER,CLOCK`` under load; compare clocks with those of a card
that is fine; cooling, power limit (``nvidia-smi -pl``), another node.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from crashcart.cause import compiled, weak
from crashcart.causes._cards import on_cards
from crashcart.causes.slow._pace import grade, lines_with, speeds
from crashcart.causes.slow._recorded import cards
from crashcart.deaths import order
from crashcart.log import evidence
from crashcart.model import Experiment, Fix, Sign
from crashcart.numbers import to_int

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.case import Case

title = "The GPU is throttled: its clocks are reduced"
alike = ("slow/straggler", "slow/data")
DROP = 2.5
HALF = 1.8
QUICK = 2.0  # steps in a second of runs too small to be held up
FEWEST = 6
NEAR_LIMIT = 3
LOW_POWER = 0.8
HELD_SHARE, MANY_SAMPLES = 0.2, 60
ACTIVE = (
    r"(?:HW (?:thermal |power brake )?slowdown|SW thermal slowdown|power brake slowdown)\s{0,20}:\s{0,20}active|"
    r"clocks? (?:event|throttle)\w{0,60}[^.]{0,30}(?:due to|thermal|power)[^.]{0,30}violation|"
    r"(?:thermal|power) violation|(?:gpu|cpu|clocks?|thermal\w{0,60}|power)\b[^.]{0,40}\bthrottl(?:ed|ing)\b|"
    r"throttl(?:ed|ing) (?:due to|because of|detected)|hw slowdown events|temperature above threshold"
)
NO_CLOCK = r"http|request|rate.?limit|quota|\bapi\b|throttling ?exception|not (?:throttl|active)|no throttl|: 0\b|api[_ ]"
MASK = r"throttle_reasons\S{0,200}\W{1,20}0x([0-9a-f]{1,20})|event_reasons\S{0,200}\W{1,20}0x([0-9a-f]{1,20})"
CAPPED = r"SW power cap(?:ping)?\s*:\s*active|sw_power_cap\W{1,4}active"
CAP = 0x4
HELD = 0x8 | 0x20 | 0x40 | 0x80  # hardware slowdown, thermal by software, thermal by hardware, power brake

phrases = (
    weak("sw power cap", "sw_power_cap", says="a power cap is active", fatal=False, any_level=True, pattern=CAPPED),
    weak("thermal slowdown", "power brake slowdown", "hw slowdown", "thermal violation", "power violation", "throttl",
         "above threshold", "throttle_reasons", "event_reasons", "max operating temp", says="the log mentions clocks",
         pattern=ACTIVE + "|" + MASK, unless=NO_CLOCK, fatal=False, any_level=True),
)  # fmt: skip


def in_log(case: Case) -> Iterator[Sign]:
    """A reason that is active, a card at its limit, or a speed that fell late and stays low."""
    for line in lines_with(case, "slowdown", "violation", "throttl", "above threshold", "_reasons"):
        mask = compiled(MASK).search(line.text)
        held = mask is not None and to_int(mask[1] or mask[2], 0, base=16) & HELD
        if held or (compiled(ACTIVE).search(line.text) and not compiled(NO_CLOCK).search(line.text)):
            yield Sign(grade(case, "strong"), "a throttle reason is active",
                       (evidence(line),), fatal=False,
                       order=line.order)  # fmt: skip
            break
    yield from _columns(case)
    yield from _capped(case)
    yield from _at_limit(case)
    yield from _low_clock(case)
    yield from _fell(case)


def _columns(case: Case) -> Iterator[Sign]:
    """`nvidia-smi --query-gpu=... --format=csv`: a column of a reason, and rows in which it is active."""
    places: list[int] = []
    for line in case.log.lines:
        if "_reasons." in line.lowered and "," in line.text:
            names = line.lowered.split(",")
            places = [place for place, name in enumerate(names) if compiled(r"_reasons\.(?:hw_|sw_thermal)").search(name)]
        elif places and "active" in line.lowered:
            cells = [cell.strip() for cell in line.lowered.split(",")]
            if any(place < len(cells) and cells[place] == "active" for place in places):
                says = "a throttle reason is active"
                yield Sign(grade(case, "strong"), says, (evidence(line),), fatal=False, order=line.order)
                return


def _capped(case: Case) -> Iterator[Sign]:
    """A power cap in a report that was made for its own sake: beside the steps of a run it is normal on many cards."""
    for line in lines_with(case, "power cap", "power_cap", "_reasons"):
        mask = compiled(MASK).search(line.text)
        capped = compiled(CAPPED).search(line.text) or (mask is not None and to_int(mask[1] or mask[2], 0, base=16) & CAP)
        if capped:
            strength = grade(case, "weak" if case.log.metrics else "strong")
            yield Sign(strength, "a power cap reduces the clocks", (evidence(line),), fatal=False, order=line.order)
            return


def _low_clock(case: Case) -> Iterator[Sign]:
    """A card that works at full load with less than half of its highest clock (`nvidia-smi -q`)."""
    clocks = [
        (line, to_int(match[1], 0))
        for line in lines_with(case, " mhz")
        if (match := compiled(r"^\s*(?:Graphics|SM)\s*:\s*(\d+) MHz").match(line.text))
    ]
    busy = any(compiled(r"^\s*Gpu\s*:\s*(?:9\d|100) ?%").match(line.text) for line in lines_with(case, "gpu "))
    if busy and len(clocks) > 1 and clocks[0][1] * 2 < max(clock for _, clock in clocks):
        says = f"the GPU is busy at {clocks[0][1]} MHz but supports {max(clock for _, clock in clocks)}"
        yield Sign(grade(case, "strong"), says, (evidence(clocks[0][0]),), fatal=False, order=clocks[0][0].order)


def _at_limit(case: Case) -> Iterator[Sign]:
    for line in lines_with(case, "max operating temp"):
        limit = compiled(r"operating temp\w*\s*:\s*(\d+)").search(line.text)
        near = "\n".join(other.text for other in case.log.around(line, before=6, after=2))
        now = compiled(r"current temp\w*\s*:\s*(\d+)").search(near)
        if limit and now and to_int(now[1], 0) >= to_int(limit[1], 0) - NEAR_LIMIT:
            says = f"the GPU is at {now[1]} C and its operating limit is {limit[1]} C"
            yield Sign(grade(case, "strong"), says, (evidence(line),), fatal=False, order=line.order)


def _fell(case: Case) -> Iterator[Sign]:
    found = speeds(case)
    late = [item for item in found if not compiled(r"epoch\W{0,3}[01]\b").search(item[0].text)]
    if len(late) < FEWEST:
        return
    half = sorted(speed for _, speed in late[: len(late) // 2])
    usual = half[len(half) // 2]
    ends = [speed for _, speed in late[-2:]]
    quick = ends[-1] > QUICK and "samples" not in late[-1][0].lowered and "speed" not in late[-1][0].lowered
    if not quick and ends[-1] * DROP < usual and ends[0] * HALF < usual:
        says = f"the speed fell from {usual:.3g} to {ends[-1]:.3g} long after the start and stayed there"
        yield Sign(
            grade(case, "strong"), says, (evidence(late[0][0]), evidence(late[-1][0])), fatal=False, order=late[-1][0].order
        )


def in_machine(case: Case) -> Iterator[Sign]:
    """Before a run: what holds a card down already, though nobody has begun to work."""
    for fact in on_cards(case, "card_throttle"):
        if (fact.value["throttle"] or 0) & HELD:
            says = f"GPU {fact.value['index']} is throttled by heat or power now"
            yield Sign("weak", says, (fact.evidence,), fatal=False)
    for fact in on_cards(case, "card_heat"):
        limit = fact.value["slowdown_at"]
        if limit and fact.value["temperature"] is not None and fact.value["temperature"] >= limit - NEAR_LIMIT:
            says = f"GPU {fact.value['index']} is at {fact.value['temperature']} C and slows down at {limit} C"
            yield Sign("weak", says, (fact.evidence,), fatal=False)
    for fact in on_cards(case, "card_power"):
        limit, usual = fact.value["power_limit"], fact.value["power_usual"]
        if limit and usual and limit < LOW_POWER * usual:
            says = f"GPU {fact.value['index']} may use {limit:.0f} W; its default is {usual:.0f} W"
            yield Sign("weak", says, (fact.evidence,), fatal=False)


def in_recorder(case: Case) -> Iterator[Sign]:
    """The reasons that NVML gave, each second, while a card was at work; a power cap alone is normal."""
    found = cards(case)
    for one in found:
        if one.samples and one.held > HELD_SHARE * one.samples:
            says = f"GPU {one.index} was throttled by {one.reasons} in {one.held / one.samples:.0%} of its work"
            yield Sign(grade(case, "strong"), says, (one.evidence,), fatal=False, order=order(case))
    if sum(one.samples for one in found) >= MANY_SAMPLES and not any(one.held for one in found):
        says = "no GPU was throttled by heat or power while it worked"
        yield Sign("against", says, (found[0].evidence,), fatal=False, order=order(case))


fixes = (
    Fix(
        "Check clocks, temperature and power under load",
        "by-hand",
        "run `nvidia-smi -q -d PERFORMANCE,TEMPERATURE,POWER,CLOCK`; clean the air path, raise the power limit to its "
        "default, or exclude "
        "the node",
    ),
)
experiment = Experiment(
    title="Run the same 500 steps on this GPU and on one of the same kind elsewhere, and log the clocks every second",
    start_from="the same checkpoint and batch on both",
    stop_after="500 steps",
    confirms="clocks fall under load on this GPU only, and steps get slower with them",
    refutes="clocks are the same on both: then look at data, recompilation or collectives",
)
