"""How this job is started, as far as it bears on what its code does: the number of ranks, and what they share."""

from __future__ import annotations

from typing import TYPE_CHECKING

from crashcart.causes._joined import ranks

if TYPE_CHECKING:
    from collections.abc import Iterable

    from crashcart.case import Case
    from crashcart.model import Edit, Evidence, Fact, Span

__all__ = ["launched_with", "ranks", "sharded", "single", "together"]


def single(case: Case) -> bool:
    """Whether the job is known to be one process."""
    return ranks(case) == 1


def launched_with(case: Case) -> tuple[Evidence, ...]:
    """Where the number of ranks is said."""
    fact = case.facts.get("launch.processes") or case.facts.get("launch.processes_per_node")
    return (fact.evidence,) if fact is not None else ()


def sharded(case: Case) -> bool | None:
    """Whether the weights are spread over the ranks (FSDP, DeepSpeed, Megatron); None where it is not known."""
    kind = case.facts.get("distributed.kind")
    launch = case.facts.get("launch.kind")
    if kind is not None and isinstance(kind.value, str):
        word = kind.value.lower()
        return any(part in word for part in ("fsdp", "deepspeed", "megatron"))
    if launch is not None and launch.value == "deepspeed":
        return True
    return True if "distributed.config_path" in case.facts or case.facts.get("flag.fsdp") is not None else None


def together(facts: Iterable[Fact]) -> tuple[Edit, ...]:
    """The edits that facts of the code carry, each once and none over another."""
    found: list[Edit] = []
    for fact in facts:
        found += [edit for edit in fact.value.get("edits", ()) if not any(_meet(edit.span, one.span) for one in found)]
    return tuple(found)


def _meet(a: Span, b: Span) -> bool:
    return a.file == b.file and ((a.start < b.end and b.start < a.end) or a.start == b.start)
