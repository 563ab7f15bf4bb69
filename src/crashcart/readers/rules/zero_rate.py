"""Optimizers that step with a learning rate of zero: the run goes on, and no weight ever changes.

A schedule, or a rate that the program sets itself, may raise it; then nothing is told.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from crashcart.readers.interpreter.values import Container, Result, constant_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.model import Fact
    from crashcart.readers.interpreter.execution import Execution
    from crashcart.readers.interpreter.trace import Call


def look(execution: Execution) -> Iterator[Fact]:
    """``code.zero_rate``: the optimizer, the setting behind its rate, and whether this job is sure to use it."""
    sets_rate = any(constant_of(write.name, write.name) == "lr" for write in execution.trace.writes)  # type: ignore[arg-type]
    for call in execution.optimizers if not sets_rate else ():
        rate = call.argument(1, "lr")
        plain = constant_of(rate)
        if (
            type(plain) not in {int, float}
            or plain != 0
            or _has_own_rates(execution, call)
            or _is_scheduled(execution, call)
        ):
            continue
        if any(call.result in {step.receiver, step.argument(0, "optimizer")} for step in execution.steps):
            origins = rate.origins if rate is not None else ()
            value = {"places": tuple(fact.evidence for fact in origins), "sure": call.region.is_certain()}
            yield call.fact("code.zero_rate", value)


def _has_own_rates(execution: Execution, call: Call) -> bool:
    """Whether a group of parameters has a rate of its own."""
    groups = [group for group in execution.items(call.argument(0, "params")) if isinstance(group, Container)]
    return any("lr" in execution.interpreter.items(group) for group in groups if group.kind == "dict")


def _is_scheduled(execution: Execution, call: Call) -> bool:
    """Whether anything but a step or a scaler gets the optimizer: a schedule, a library."""
    return any(
        value is call.result
        for other in execution.trace.calls
        if other.function is None and "GradScaler." not in other.name and isinstance(call.result, Result)
        for value in (*other.arguments, *other.keywords.values())
    )
