"""What the cards say, in lines for people: memory and who holds it, heat, clocks, errors of memory, links."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from crashcart.readers.machine.reading import Reading, amount, unknown

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from crashcart.readers.machine.nvml import Cards

__all__ = ["REASONS", "look"]

NVML = "NVML"
REASONS = {
    0x1: "idle", 0x2: "clocks set by an application", 0x4: "power cap", 0x8: "hardware slowdown", 0x10: "sync boost",
    0x20: "heat (software)", 0x40: "heat (hardware)", 0x80: "power brake", 0x100: "clocks of a display", 0x200: "board limit",
    0x400: "reliability",
}  # fmt: skip
RECOVERY = {
    0: "none", 1: "reset the card", 2: "reboot the node", 3: "drain its links", 4: "drain and reset the card",
    5: "recover the IMEX domain", 6: "reset the bus", 7: "reboot the system",
}  # fmt: skip
MODES = {0: "shared", 1: "one thread", 2: "prohibited", 3: "one process"}


def look(cards: Cards, environment: Mapping[str, str]) -> Iterator[Reading]:
    """Every line about cards; one that says that there are none where there is no driver."""
    if cards.broken:
        yield Reading("GPU", "driver_failed", "driver", cards.why, NVML, {"why": cards.why})
        return
    if cards.why:
        yield unknown(("GPU", "cards", "cards"), cards.why, NVML)
        return
    newest = f", CUDA up to {cards.cuda[0]}.{cards.cuda[1]}" if cards.cuda else ""
    value = {
        "count": len(cards.each),
        "driver": cards.driver,
        "cuda": cards.cuda,
        "each": cards.each,
        "visible": environment.get("CUDA_VISIBLE_DEVICES"),
    }
    said = f"{len(cards.each)} card{'s' if len(cards.each) != 1 else ''}, driver {cards.driver or 'unknown'}{newest}"
    said += f", CUDA_VISIBLE_DEVICES={value['visible']}" if value["visible"] is not None else ""
    yield Reading("GPU", "cards", "cards", said, NVML, value)
    for card in cards.each:
        yield from _card(card)


def _card(card: dict[str, Any]) -> Iterator[Reading]:
    group = f"GPU {card['index']}"
    if "lost" in card:
        yield Reading(
            group, "card_lost", "state", f"the driver cannot reach it: {card['lost']}", f"{NVML}, GPU {card['index']}", card
        )
        return
    group += f", {card['name']}"
    for name, label, says in (*_use(card), *_state(card), *_health(card), *_ways(card)):
        if says is None:
            yield unknown((group, name, label), "the driver does not report it", NVML)
        else:
            yield Reading(group, name, label, says, f"{NVML}, GPU {card['index']}", card)


def _use(card: dict[str, Any]) -> Iterator[tuple[str, str, str | None]]:
    used, total = card["used"], card["total"]
    yield "card_memory", "memory", None if total is None else f"{amount(used)} of {amount(total)} in use"
    held = card["processes"]
    yield "card_processes", "processes", None if held is None else "; ".join(map(_holder, held)) or "none visible"
    yield "card_busy", "use", None if card["busy"] is None else f"{card['busy']} %"


def _holder(process: dict[str, Any]) -> str:
    size = f"{amount(process['memory'])} " if process["memory"] is not None else ""
    if process["owner"] is None:
        return f"{size}held by process {process['pid']}, which is not visible from here"
    return f"{size}held by {process['name']} (pid {process['pid']}) of {process['owner']}"


def _state(card: dict[str, Any]) -> Iterator[tuple[str, str, str | None]]:
    limit = f", slows down at {card['slowdown_at']} C" if card["slowdown_at"] else ""
    yield "card_heat", "temperature", None if card["temperature"] is None else f"{card['temperature']} C{limit}"
    power = card["power"]
    most = f" of {card['power_limit']:.0f} W" if card["power_limit"] else ""
    usual = card["power_usual"]
    capped = f", and its default is {usual:.0f} W" if usual and card["power_limit"] and card["power_limit"] < usual else ""
    yield "card_power", "power", None if power is None else f"{power:.0f} W{most}{capped}"
    most = f" of {card['clock_limit']} MHz" if card["clock_limit"] else ""
    yield "card_clock", "clock", None if card["clock"] is None else f"{card['clock']} MHz{most}"
    mask = card["throttle"]
    held = None if mask is None else ", ".join(word for bit, word in REASONS.items() if mask & bit) or "nothing"
    yield "card_throttle", "clock held by", held


def _health(card: dict[str, Any]) -> Iterator[tuple[str, str, str | None]]:
    if card["ecc_mode"] is None:
        yield "card_ecc", "ECC", "this GPU has none"
    elif not card["ecc_mode"]:
        yield "card_ecc", "ECC", "switched off"
    else:
        now, ever = card["ecc_uncorrected"], card["ecc_uncorrected_ever"]
        says = f"uncorrected {_count(now)} since the driver was loaded, {_count(ever)} ever; "
        says += f"corrected {_count(card['ecc_corrected'])}, {_count(card['ecc_corrected_ever'])} ever"
        yield "card_ecc", "ECC errors", None if now is None else says
    rows = card["rows"]
    if rows is not None:
        says = f"{rows['corrected']} for corrected and {rows['uncorrected']} for uncorrected errors"
        says += ", more wait for a reset" if rows["pending"] else ""
        says += ", and a remapping failed" if rows["failed"] else ""
        yield "card_rows", "remapped rows", says
    if card["retired"] is not None:
        wait = ", more wait for a reset" if card["retired_pending"] else ""
        yield "card_pages", "retired pages", f"{card['retired']}{wait}"
    if card["recovery"] is not None:
        yield "card_recovery", "driver asks for", RECOVERY.get(card["recovery"], f"action {card['recovery']}")


def _count(number: int | None) -> str:
    return "unknown" if number is None else str(number)


def _ways(card: dict[str, Any]) -> Iterator[tuple[str, str, str | None]]:
    generation, width, most_generation, most_width = card["pcie"]
    says = f"generation {generation} of {most_generation}, {width} lanes of {most_width}"
    yield "card_bus", "PCIe", None if width is None or most_width is None else says
    if card["links"] is not None:
        yield "card_links", "NVLink", f"{card['links'][0]} of {card['links'][1]} links up"
    if card["fabric"] is not None:
        words = {1: "not started", 2: "in progress", 3: "completed"}
        status = f", status {card['fabric'][1]}" if card["fabric"][1] else ""
        yield "card_fabric", "NVSwitch fabric", f"{words.get(card['fabric'][0], 'unheard of')}{status}"
    if card["mig"] is not None:
        yield "card_mig", "MIG", "on" if card["mig"] else "off"
    if card["persistence"] is not None:
        yield "card_persistence", "persistence mode", "on" if card["persistence"] else "off"
    if card["mode"] is not None:
        yield "card_mode", "compute mode", MODES.get(card["mode"], str(card["mode"]))
