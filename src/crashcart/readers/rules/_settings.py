"""A value of the program as a fact: where it comes from, and the place to change it."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any

from crashcart.model import Fact
from crashcart.readers.code.source import name_of
from crashcart.readers.interpreter.values import Constant, Container
from crashcart.record import replace

if TYPE_CHECKING:
    from crashcart.model import Evidence
    from crashcart.readers.interpreter.execution import Execution
    from crashcart.readers.interpreter.trace import Call, Event
    from crashcart.readers.interpreter.values import Value

__all__ = ["called_as", "evidence_of", "fact_of", "plain_of"]


def fact_of(execution: Execution, name: str, value: Value | None, event: Event) -> Fact | None:
    """A known value under a canonical name; None where it is not known.

    A setting that reaches its place unchanged keeps its own place and spelling, so that it can be changed there. What is written
    as a number in the code can be changed there. What is calculated has the place where it is used.
    """
    plain = plain_of(execution, value)
    if plain is None and not (isinstance(value, Constant) and value.value is None):
        return None
    origins = value.origins if value is not None else ()
    if len(origins) >= 1 and (isinstance(value, Container) or (isinstance(value, Constant) and value.direct)):
        origin = origins[0]
        same = origin.value == plain
        value = origin.value if same and not isinstance(plain, bool) else plain
        return replace(origin, name=name, value=value, span=origin.span if same else None)
    if origins:
        return Fact(name, plain, event.evidence, "code", spelling=origins[0].spelling)
    span = None
    if isinstance(value, Constant) and value.node is not None and value.source is not None:
        span = value.source.span(value.node)
    evidence = event.evidence
    if span is not None and value.source is not None:  # type: ignore[union-attr]
        evidence = value.source.evidence(value.node)  # type: ignore[union-attr]
    return Fact(name, plain, evidence, "code", span=span)


def plain_of(execution: Execution, value: Value | None) -> Any:  # noqa: ANN401 - plain data
    """Plain data, where all of a value is known; None where it is not."""
    if isinstance(value, Constant):
        return value.value
    if isinstance(value, Container) and value.kind in {"list", "tuple"}:
        items, complete = execution.interpreter.listed(value)
        if complete and all(isinstance(item, Constant) for item in items):
            return [item.value for item in items]  # type: ignore[attr-defined]
    return None


def called_as(call: Call) -> str:
    """What is called, as it is written where that says it: ``dist.barrier``; behind a partial or another name, in full."""
    written = name_of(call.node.func) if isinstance(call.node, ast.Call) else ""
    return written if written.rpartition(".")[2] == call.method or call.function is not None else call.name


def evidence_of(*values: Value | None) -> tuple[Evidence, ...]:
    """Where the settings behind values stand."""
    return tuple(dict.fromkeys(fact.evidence for value in values if value is not None for fact in value.origins))
