"""What the code says, joined with how this job is launched and configured."""

from __future__ import annotations

from typing import TYPE_CHECKING

from crashcart.numbers import to_int

if TYPE_CHECKING:
    from collections.abc import Iterable

    from crashcart.case import Case
    from crashcart.model import Edit, Evidence, Fact, Span

NEARNESS = {"flag": 3, "environment": 3, "file": 2, "default": 1}

__all__ = [
    "NEARNESS",
    "edits_of",
    "launched_with",
    "plain",
    "ranks",
    "setting",
    "sharded",
    "single",
    "spread_weights",
]


def ranks(case: Case) -> int | None:
    """How many processes train together; None where the launch does not say."""
    told = case.number("launch.processes") or case.number("launch.processes_per_node")
    if told is not None:
        return to_int(told)
    kind = case.facts.get("launch.kind")
    if kind is not None and kind.value == "python":
        starts = case.all("code.starts_ranks")
        numbers = {fact.value["number"] for fact in starts}
        return numbers.pop() if len(numbers) == 1 else None if starts else 1
    return None


def setting(case: Case, name: str) -> Fact | None:
    """The setting that the code calls by this name: ``cfg.train.accum_steps`` is ``accum_steps``; None where two differ.

    A flag counts before a file, a file before the default in the code.
    """
    wanted = plain(name)
    every = [fact for fact in case.facts.values() if wanted and plain(fact.spelling.split(".")[-1]) == wanted]
    nearest = max((NEARNESS.get(fact.origin, 0) for fact in every), default=0)
    found = [fact for fact in every if NEARNESS.get(fact.origin, 0) == nearest]
    return found[0] if found and all(fact.value == found[0].value for fact in found) else None


def single(case: Case) -> bool:
    """Whether the job is known to be one process."""
    return ranks(case) == 1


def launched_with(case: Case) -> tuple[Evidence, ...]:
    """Where the number of ranks is said."""
    fact = case.facts.get("launch.processes") or case.facts.get("launch.processes_per_node")
    return (fact.evidence,) if fact is not None else ()


def sharded(case: Case) -> bool | None:
    """Whether each rank keeps a part of the training's state (FSDP, DeepSpeed, Megatron); None where it is not known."""
    kind = case.facts.get("distributed.kind")
    launch = case.facts.get("launch.kind")
    if kind is not None and isinstance(kind.value, str):
        word = kind.value.lower()
        return any(part in word for part in ("fsdp", "deepspeed", "megatron"))
    if launch is not None and launch.value == "deepspeed":
        return True
    return True if "distributed.config_path" in case.facts or case.facts.get("flag.fsdp") is not None else None


def spread_weights(case: Case) -> bool | None:
    """Whether the weights themselves are spread: DeepSpeed does that in stage 3 alone; None where it is not known."""
    kind, launch, stage = (case.facts.get(name) for name in ("distributed.kind", "launch.kind", "distributed.zero_stage"))
    word = f"{kind.value if kind is not None else ''} {launch.value if launch is not None else ''}".lower()
    if sharded(case) and "fsdp" not in word and ("deepspeed" in word or stage is not None):
        return str(stage.value) == "3" if stage is not None else None
    return sharded(case)


def edits_of(facts: Iterable[Fact], *names: str) -> tuple[Edit, ...]:
    """The edits that facts of the code carry under these names (else ``edits``), each once and none over another."""
    found: list[Edit] = []
    for fact in facts:
        for name in names or ("edits",):
            found += [edit for edit in fact.value.get(name, ()) if not any(_meet(edit.span, one.span) for one in found)]
    return tuple(found)


def _meet(a: Span, b: Span) -> bool:
    return a.file == b.file and ((a.start < b.end and b.start < a.end) or a.start == b.start)


def plain(name: str) -> str:
    """A setting's name without dashes, underscores and capitals."""
    return name.lower().lstrip("-").replace("-", "").replace("_", "")
