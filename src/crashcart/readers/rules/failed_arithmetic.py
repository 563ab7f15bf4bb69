"""Numbers of this job with which the program fails: a size that comes out as zero, a division by zero, a check that does not hold.

The program was followed with the numbers of its launch, so that a failure is one of this job. Told are those that come of settings: a
size of zero, or a relation of several numbers (of which the ranks may be one). What may be caught is not told.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any

from crashcart.readers.interpreter.values import Constant
from crashcart.readers.rules._nearest import nearest_setting
from crashcart.readers.rules._statements import know_parents

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.model import Evidence, Fact
    from crashcart.readers.interpreter.execution import Execution
    from crashcart.readers.interpreter.trace import Failure, Region

__all__ = ["is_arithmetic", "look", "may_be_caught"]

_SIZES = frozenset({"ZeroDivisionError", "ValueError", "IndexError"})


def look(execution: Execution) -> Iterator[Fact]:
    """``code.failed_arithmetic``: what fails, with which settings, and the nearest setting with which it does not."""
    for failure in execution.trace.failures:
        settings = _numbers(failure)
        if settings is None or not settings:
            continue
        know_parents([failure])
        drawn = _is_drawn(failure)
        if not (failure.region.is_certain() or drawn) or may_be_caught(failure.region):
            continue
        value: dict[str, Any] = {
            "error": failure.error,
            "says": failure.says,
            "text": _text(failure),
            "settings": [(fact.spelling or fact.name, fact.value) for fact in settings],
            "places": (*_birth(failure), *(fact.evidence for fact in settings)),
            "sure": not drawn,
            "change": None if drawn else nearest_setting(execution, failure, settings),
        }
        yield failure.fact("code.failed_arithmetic", value)
        if not drawn:
            return  # what comes behind it is never reached


def is_arithmetic(failure: Failure) -> bool:
    """Whether a failure is one of numbers that come of settings."""
    return bool(_numbers(failure))


def _numbers(failure: Failure) -> list[Fact] | None:
    """The settings behind a failure, all numbers; None where it is no matter of arithmetic."""
    origins = list(dict.fromkeys(fact for value in failure.values for fact in value.origins))
    numeric = [fact for fact in origins if _is_numeric(fact.value)]
    is_size = failure.error in _SIZES and not isinstance(failure.node, ast.Raise)
    if len(numeric) < len(origins) or not all(isinstance(value, Constant) or is_size for value in failure.values):
        return None
    with_ranks = any(fact.name.startswith("launch.") for fact in numeric)
    return numeric if (is_size and _is_number_failure(failure)) or len(numeric) > 1 or with_ranks else None


def _is_number_failure(failure: Failure) -> bool:
    """Whether the values themselves are numbers, and no text that could not be converted."""
    return all(not isinstance(value, Constant) or _is_numeric(value.value) for value in failure.values)


def _is_numeric(value: object) -> bool:
    if isinstance(value, list):
        return all(map(_is_numeric, value))
    if isinstance(value, str):
        return value.strip().lstrip("-").isdigit()  # of the environment
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _is_drawn(failure: Failure) -> bool:
    """Whether chance decides alone about a failure."""
    region = failure.region
    is_chance = (
        region.kind == "branch" and region.test is not None and "random" in region.test.tags and region.node is failure.node
    )
    return is_chance and region.parent is not None and region.parent.is_certain()


def may_be_caught(region: Region) -> bool:
    """Whether a ``try`` stands around it with a handler that does not raise again in any case."""
    return any(
        above.kind == "try" and any(map(_goes_on, getattr(above.node, "handlers", None) or ())) for above in region.above()
    )


def _goes_on(handler: ast.ExceptHandler) -> bool:
    """Whether the program goes on behind a handler: it does not end with ``raise``, and holds no way out before."""
    leaves = (ast.Return, ast.Continue, ast.Break)
    return not isinstance(handler.body[-1], ast.Raise) or any(
        isinstance(node, leaves) for statement in handler.body for node in ast.walk(statement)
    )


def _text(failure: Failure) -> str:
    """The expression or check as it is written."""
    value = failure.values[0] if failure.values else None
    if isinstance(value, Constant) and value.node is not None and value.source is not None:
        return value.source.written(value.node)
    node = failure.node.test if isinstance(failure.node, ast.Assert) else failure.node
    if isinstance(node, ast.Raise):
        test = getattr(getattr(node, "parent", None), "test", None)
        node = test if isinstance(test, ast.expr) else node
    return failure.source.written(node) if isinstance(node, ast.expr) else failure.source.line(failure.line).strip()


def _birth(failure: Failure) -> list[Evidence]:
    """Where a number that fails was calculated."""
    return [
        value.source.evidence(value.node)
        for value in failure.values
        if isinstance(value, Constant) and value.node is not None and value.source is not None and value.origins
    ]
