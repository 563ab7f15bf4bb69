"""The job's own Python code, read and never run: facts with their places, so that causes never see a syntax tree.

A rule is a module of this folder with a function ``look(program)`` that yields facts named ``code.*`` (what was seen, with
all that a cause needs to judge it) or settings with the origin ``default`` (what a parser in the code gives where the user
says nothing). It never judges: whether a ``return`` before the scaler's step is deadly depends on the launch and the config.
"""

from __future__ import annotations

import importlib
import os
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

from crashcart.deadline import Allowance, too_long
from crashcart.documents import is_deep_tree
from crashcart.errors import our_errors
from crashcart.model import NotLooked
from crashcart.readers.code.program import without_collecting

if TYPE_CHECKING:
    from crashcart.model import Fact
    from crashcart.readers.code.program import Program

__all__ = ["facts_of", "rules_allowance"]

NOT_RULES = {"__init__", "source", "program"}
_ALL_RULES_SECONDS, _LEAST_SECONDS = 2.5, 0.02
_FAIR = 8.0  # times its even share that one rule may take, so that a slow one leaves time for the others


def facts_of(program: Program, allowance: Allowance | None = None) -> dict[str, list[Fact]]:
    """What every rule saw, by name; several programs can share one ``allowance`` of time."""
    found: dict[str, list[Fact]] = {fact.name: program.refused for fact in program.refused[:1]}
    allowance = allowance or rules_allowance()
    rules = _rules()
    nothing: list[Fact] = []
    with without_collecting():
        for number, rule in enumerate(rules):
            allowance.share = max(_LEAST_SECONDS, _FAIR * allowance.left / (len(rules) - number))
            facts, in_time = allowance.attempt(partial(_seen, rule, program), nothing)
            if not in_time:
                what = rule.__name__.rpartition(".")[2].replace("_", " ")
                program.not_looked.append(NotLooked(f"{what} in the code", too_long(allowance.share)))
            for fact in facts:
                found.setdefault(fact.name, []).append(fact)
    return found


def rules_allowance() -> Allowance:
    """The time of all rules together."""
    return Allowance(_ALL_RULES_SECONDS, _ALL_RULES_SECONDS)


def _seen(rule: Any, program: Program) -> list[Fact]:  # noqa: ANN401 - a module
    """What one rule saw; one that cannot bear a program must not cost the others' answer."""
    facts: list[Fact] = []
    with our_errors(rule.__name__, lambda *told: program.not_looked.append(NotLooked(*told))):
        try:
            facts.extend(rule.look(program))
        except RecursionError:
            if not _leave_out_deep(program):
                raise
            return _seen(rule, program)
    return facts


def _leave_out_deep(program: Program) -> bool:
    """Take the files out of the program that are nested too deeply; whether there was one."""
    deep = [source for source in program.sources if is_deep_tree(source.tree)]
    program.not_looked += [NotLooked(source.path, "is nested too deeply to be read") for source in deep]
    program.sources = [source for source in program.sources if source not in deep]
    for source in program.sources:
        source.neighbours = program.sources
    return bool(deep)


@lru_cache(maxsize=1)
def _rules() -> tuple[Any, ...]:
    names = sorted(name.removesuffix(".py") for name in os.listdir(os.path.dirname(__file__)) if name.endswith(".py"))
    return tuple(
        importlib.import_module(f"{__name__}.{name}") for name in names if name not in NOT_RULES and not name.startswith("_")
    )
