"""The nearest number for a setting with which the same program does not fail, found by following it again."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from crashcart.deadline import attempt

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from crashcart.model import Fact
    from crashcart.readers.interpreter.execution import Execution
    from crashcart.readers.interpreter.trace import Failure

__all__ = ["nearest_setting"]

_MOST_STEPS_OF_PROGRAM = 20_000
_MOST_TRIES = 24
_SECONDS = 0.15  # of processor time for all tries: what fails is told without the nearest number too
_ORDER = ("accum", "micro", "sequence", "per_gpu", "per_device", "batch")


def nearest_setting(execution: Execution, failure: Failure, settings: Sequence[Fact]) -> tuple[Fact, int] | None:
    """A setting that stands in a file or in the launch, and its nearest value with which this failure is gone."""
    if execution.interpreter.steps > _MOST_STEPS_OF_PROGRAM:
        return None
    found: list[tuple[int, int, Fact, int]] = []
    attempt(partial(_try_settings, execution, failure, settings, found), _SECONDS, None)
    return min(found, key=lambda each: each[:2])[2:] if found else None


def _try_settings(
    execution: Execution, failure: Failure, settings: Sequence[Fact], found: list[tuple[int, int, Fact, int]]
) -> None:
    for fact in settings:
        if type(fact.value) is not int or fact.span is None or fact.name.startswith("launch."):
            continue
        value = _first_that_passes(execution, failure, fact, settings)
        if value is not None:
            found.append((_rank(fact), abs(value - fact.value), fact, value))


def _first_that_passes(execution: Execution, failure: Failure, fact: Fact, settings: Sequence[Fact]) -> int | None:
    for value in _candidates(fact.value, [other.value for other in settings if other is not fact]):
        again = execution.follow_with_setting(fact, value)
        if not any(other.node is failure.node and other.region.is_certain() for other in again.trace.failures):
            return value
    return None


def _candidates(value: int, others: Sequence[object]) -> Iterator[int]:
    """Numbers around a value, and those that the others suggest: equal to them, or a multiple."""
    near = [value + sign * distance for distance in range(1, _MOST_TRIES // 4) for sign in (1, -1)]
    for other in others:
        if type(other) is int and other > 0:
            near += [other, (value // other) * other, (value // other + 1) * other]
    tried = sorted({number for number in near if number >= 1 and number != value}, key=lambda number: abs(number - value))
    yield from tried[:_MOST_TRIES]


def _rank(fact: Fact) -> int:
    """What is changed first: the accumulation, then a size of a device, then the rest."""
    name = f"{fact.spelling} {fact.name}".lower().replace("-", "_")
    return next((number for number, word in enumerate(_ORDER) if word in name), len(_ORDER))
