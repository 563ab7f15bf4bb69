"""How many ranks there are where no launcher says it: what ``LightningCLI`` is told, else one process."""

from __future__ import annotations

from typing import TYPE_CHECKING

from crashcart.model import Evidence, Fact
from crashcart.record import replace

if TYPE_CHECKING:
    from crashcart.case import Case

__all__ = ["ENTRY_MISSING", "count_ranks"]

ENTRY_MISSING = "its entry file was not found"


def count_ranks(case: Case) -> None:
    """A plain ``python train.py``, or a command of the project whose code was followed, is one process, unless the program starts others itself."""
    kind = case.facts.get("launch.kind")
    is_followed = kind is not None and kind.value == "program" and bool(case.all("code.followed"))
    if kind is None or not (kind.value == "python" or is_followed):
        return
    if "launch.processes" in case.facts and case.facts["launch.processes"].value is None:
        del case.facts["launch.processes"]  # `world_size: null`, which the program sets when it starts
        return
    starts = case.all("code.starts_ranks")
    if any(str(fact.value["call"]).endswith("LightningCLI") for fact in starts) and (ranks := _by_flags(case)) is not None:
        case.facts[ranks.name] = ranks
    if "launch.processes" in case.facts or starts or any(gap.why == ENTRY_MISSING for gap in case.not_looked):
        return
    evidence = Evidence(kind.evidence.source, kind.evidence.quote, kind.evidence.where)
    case.facts["launch.processes"] = replace(
        kind, name="launch.processes", value=1, evidence=evidence, origin="default", span=None
    )


def _by_flags(case: Case) -> Fact | None:
    """What ``LightningCLI`` starts: the devices of a node times the nodes, each from the command or the config."""
    each, nodes = case.facts.get("launch.processes_per_node"), case.facts.get("launch.nodes")
    times = 1 if nodes is None else nodes.value
    if each is None or type(each.value) is not int or type(times) is not int:
        return None
    span = each.span if times == 1 else None
    return Fact("launch.processes", each.value * times, each.evidence, each.origin, each.spelling, span)
