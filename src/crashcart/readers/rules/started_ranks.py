"""Ranks that the program starts itself, and how many: Lightning's trainers, ``spawn`` and their like."""

from __future__ import annotations

from typing import TYPE_CHECKING

from crashcart.model import Fact
from crashcart.readers.interpreter.libraries.rank_starters import LIGHTNING, OTHER_STARTERS, SPAWNS, count_started
from crashcart.readers.interpreter.values import Result
from crashcart.readers.rules._settings import fact_of
from crashcart.record import replace

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.readers.interpreter.execution import Execution
    from crashcart.readers.interpreter.values import Value


def _trains(execution: Execution, process: Value) -> bool:
    """Whether what a process runs trains or joins the other ranks."""
    events = [*execution.steps, *execution.backwards, *execution.trace.named("torch.distributed.init_process_group")]
    return any(region.kind == "thread" and region.value is process for event in events for region in event.region.above())


def look(execution: Execution) -> Iterator[Fact]:
    """``code.starts_ranks``: each such call, with the number where it is known; ``launch.processes`` where all agree."""
    starters = execution.trace.named(*LIGHTNING, *SPAWNS)
    counts = [count_started(execution.interpreter, call) for call in starters]
    for call, (count, _) in zip(starters, counts, strict=True):
        yield call.fact("code.starts_ranks", {"call": call.name, "number": count})
    for call in execution.trace.named(*OTHER_STARTERS):
        if call.method == "Process" and call.result.__class__ is Result and not _trains(execution, call.result):
            continue  # it prepares data or plays games
        yield call.fact("code.starts_ranks", {"call": call.name, "number": None})
    if (
        starters
        and execution.launch.kind in {"", "python", "program"}
        and execution.ranks is not None
        and len({count for count, _ in counts}) == 1
    ):
        name, (_, value) = "launch.processes", counts[0]
        said = fact_of(execution, name, value, starters[0]) or Fact(name, None, starters[0].evidence, "code")
        span = said.span if said.value == execution.ranks else None
        yield replace(said, name=f"used.{name}", value=execution.ranks, span=span)
