"""What a program that was followed shows, as facts: one rule a module, found by folder.

A rule has a function ``look(execution)`` that yields facts: ``code.*`` for what was seen, with all that a cause needs to judge it, or
settings under their canonical names. It asks the trace for calls and writes and never looks at syntax, except to place an edit.
It never judges: whether a ``return`` before the scaler's step is deadly depends on the launch and the config.
"""

from __future__ import annotations

import importlib
import os
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

from crashcart.deadline import Allowance, too_long
from crashcart.errors import our_errors
from crashcart.model import NotLooked

if TYPE_CHECKING:
    from crashcart.model import Fact
    from crashcart.readers.interpreter.execution import Execution

__all__ = ["facts_of"]

_ALL_RULES_SECONDS, _LEAST_SECONDS = 2.0, 0.02
_FAIR = 8.0  # times its even share that one rule may take, so that a slow one leaves time for the others


def facts_of(execution: Execution) -> dict[str, list[Fact]]:
    """What every rule saw, by name, in the time that they have together."""
    found: dict[str, list[Fact]] = {}
    allowance = Allowance(_ALL_RULES_SECONDS, _ALL_RULES_SECONDS)
    rules = _rules()
    for source in {call.source.path: call.source for call in execution.trace.calls}.values():
        source.know_parents()
    for number, rule in enumerate(rules):
        allowance.share = max(_LEAST_SECONDS, _FAIR * allowance.left / (len(rules) - number))
        facts: list[Fact] = []  # what it saw until its time was up is kept
        _, in_time = allowance.attempt(partial(_look, rule, execution, facts), None)
        if not in_time:
            what = rule.__name__.rpartition(".")[2].replace("_", " ")
            execution.not_looked.append(NotLooked(f"{what} in the code", too_long(allowance.share)))
        for fact in facts:
            found.setdefault(fact.name, []).append(fact)
    return found


def _look(rule: Any, execution: Execution, facts: list[Fact]) -> None:  # noqa: ANN401 - a module
    """Collect what one rule sees; a rule that fails must not hide the results of the others."""
    with our_errors(rule.__name__, lambda *problem: execution.not_looked.append(NotLooked(*problem))):
        for fact in rule.look(execution):
            facts.append(fact)  # noqa: PERF402 - one by one, since the time may be up in the midst of them


@lru_cache(maxsize=1)
def _rules() -> tuple[Any, ...]:
    names = sorted(name.removesuffix(".py") for name in os.listdir(os.path.dirname(__file__)) if name.endswith(".py"))
    return tuple(importlib.import_module(f"{__name__}.{name}") for name in names if not name.startswith("_"))
