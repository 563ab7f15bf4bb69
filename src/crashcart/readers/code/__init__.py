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
from crashcart.model import NotLooked
from crashcart.readers.code.program import without_collecting

if TYPE_CHECKING:
    from crashcart.model import Fact
    from crashcart.readers.code.program import Program

__all__ = ["facts_of"]

NOT_RULES = {"__init__", "source", "program"}
_ALL_RULES_SECONDS, _RULE_SECONDS = 2.0, 0.7
_PER_MEGABYTE = 3.0  # more for a large project: its rules take about one second for a megabyte
RAISE_OUR_ERRORS = False  # the test suite sets this, so that our errors fail it


def facts_of(program: Program) -> dict[str, list[Fact]]:
    """What every rule saw, by name."""
    found: dict[str, list[Fact]] = {fact.name: program.refused for fact in program.refused[:1]}
    size = sum(len(source.text) for source in program.sources)
    allowance = Allowance(_ALL_RULES_SECONDS + _PER_MEGABYTE * size / 1e6, _RULE_SECONDS + _PER_MEGABYTE * size / 1e7)
    nothing: list[Fact] = []
    with without_collecting():
        for rule in _rules():
            facts, in_time = allowance.attempt(partial(_seen, rule, program), nothing)
            if not in_time:
                what = rule.__name__.rpartition(".")[2].replace("_", " ")
                program.not_looked.append(NotLooked(f"{what} in the code", too_long(allowance.share)))
            for fact in facts:
                found.setdefault(fact.name, []).append(fact)
    return found


def _seen(rule: Any, program: Program) -> list[Fact]:  # noqa: ANN401 - a module
    """What one rule saw; one that cannot bear a program must not cost the others' answer."""
    try:
        return list(rule.look(program))
    except Exception as problem:
        if RAISE_OUR_ERRORS:
            raise
        program.not_looked.append(NotLooked(rule.__name__, f"crashcart's own error: {problem!r}", "please report it"))
        return []


@lru_cache(maxsize=1)
def _rules() -> tuple[Any, ...]:
    names = sorted(name.removesuffix(".py") for name in os.listdir(os.path.dirname(__file__)) if name.endswith(".py"))
    return tuple(
        importlib.import_module(f"{__name__}.{name}") for name in names if name not in NOT_RULES and not name.startswith("_")
    )
