"""How many ranks a program starts by itself, where a trainer of its own does that and nothing else launches it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from crashcart.model import Evidence, Fact
from crashcart.numbers import to_count
from crashcart.record import replace

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from crashcart.case import Case
    from crashcart.readers.code.program import Program

__all__ = ["count_ranks"]

SEVERAL = ("spawn", "start_processes", "notebook_launcher", "Popen", "Trainer", "Fabric", "Process", "LightningCLI")


def count_ranks(case: Case, program: Program) -> None:
    """A plain ``python train.py`` is one process, unless the program starts others itself."""
    kind = case.facts.get("launch.kind")
    if (ranks := _by_flags(case, program) or _started(case)) is not None:
        case.facts[ranks.name] = ranks
    if kind is None or kind.value != "python" or "launch.processes" in case.facts or not program.sources:
        return
    if any(True for source in program.sources for _ in source.calls(*SEVERAL)):
        return
    evidence = Evidence(kind.evidence.source, kind.evidence.quote, kind.evidence.where)
    case.facts["launch.processes"] = replace(
        kind, name="launch.processes", value=1, evidence=evidence, origin="default", span=None
    )


def _by_flags(case: Case, program: Program) -> Fact | None:
    """What ``LightningCLI`` starts: the devices of a node times the nodes, each from the command or the config."""
    kind, each, nodes = (case.facts.get(f"launch.{name}") for name in ("kind", "processes_per_node", "nodes"))
    if kind is None or kind.value != "python" or each is None or type(each.value) is not int:
        return None
    if not any(True for source in program.sources for _ in source.calls("LightningCLI")):
        return None
    times = 1 if nodes is None else nodes.value
    if type(times) is not int:
        return None
    span = each.span if times == 1 else None
    return Fact("launch.processes", each.value * times, each.evidence, each.origin, each.spelling, span)


def _started(case: Case) -> Fact | None:
    """The ranks that Lightning starts; None where another launcher does, or where a count is not known."""
    kind = case.facts.get("launch.kind")
    if "launch.processes" in case.facts or (kind is not None and kind.value != "python"):
        return None
    found = [_ranks(case, fact) for fact in case.all("code.devices")]
    known = [fact for fact in found if fact is not None]
    return known[0] if known and len(known) == len(found) and len({fact.value for fact in known}) == 1 else None


def _ranks(case: Case, call: Fact) -> Fact | None:
    devices = next((one for name in ("devices", "gpus") for one in _told(case, call, name)), None)
    nodes = next(iter(_told(case, call, "num_nodes")), None)
    if devices is None or (nodes is None and call.value["num_nodes"] is not None):
        return None
    each, times = _count(devices.value), 1 if nodes is None else _count(nodes.value)
    if not each or not times:
        return None
    span = devices.span if times == 1 and type(devices.value) is int else None
    return Fact("launch.processes", each * times, devices.evidence, devices.origin, devices.spelling, span)


def _told(case: Case, call: Fact, name: str) -> Iterator[Fact]:
    """The setting, or the constant at the call, that gives a count."""
    given: dict[str, Any] | None = call.value[name]
    if given is not None and "value" in given:
        yield Fact(name, given["value"], call.evidence, "code", name)
    ends = [str(given["key"])] if given is not None and "key" in given else []
    ends += [f"{below}.{name}" for below in call.value["below"] if below and given is None]
    for fact in case.facts.values():
        spelling = fact.spelling.lstrip("-").replace("-", "_")
        if any(spelling == end or spelling.endswith(f".{end}") for end in ends):
            yield fact


def _count(value: object) -> int | None:
    """``2``, ``"2"``, ``[0, 1]`` and ``"0,1"``; ``auto`` and -1 ask the machine."""
    if isinstance(value, list):
        return len(value) or None
    if isinstance(value, str) and "," in value:
        return len([one for one in value.split(",") if one.strip()]) or None
    if isinstance(value, str):
        return to_count(value) or None
    return value if type(value) is int and value > 0 else None
