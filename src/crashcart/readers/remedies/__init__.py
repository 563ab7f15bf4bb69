"""Patches made at the scene of a death or a hang: the program's own lines there, changed so that the same job passes.

A remedy is a module with a function ``look(scene)`` that yields facts ``scene.remedy``, each with the causes that it cures and a
``Fix`` with its edits. It sees what happened (the exception and its frames, or where everybody stood), the parsed files around these
places and the program as it was followed. It makes an edit only where there is one reading of the code; else it says nothing, and the
cause's own words stay. Which cause it was is not for a remedy to say: it is asked for only by the cause that was found.
"""

from __future__ import annotations

import importlib
import os
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

from crashcart.deadline import Allowance, too_long
from crashcart.errors import our_errors
from crashcart.readers.remedies._scene import REMEDY

if TYPE_CHECKING:
    from crashcart.model import Fact
    from crashcart.readers.remedies._scene import Scene

__all__ = ["remedies_of"]

_SAFETIES = ("exact", "same-recipe", "changes-training", "by-hand")
_ALL_SECONDS, _EACH_SECONDS = 0.8, 0.3


def remedies_of(scene: Scene) -> list[Fact]:
    """What every remedy offers, the safest first, in the time that they have together; then what else they saw."""
    found: list[Fact] = []
    allowance = Allowance(_ALL_SECONDS, _EACH_SECONDS)
    nothing: list[Fact] = []
    for module in _modules():
        facts, in_time = allowance.attempt(partial(_offered, module, scene), nothing)
        if not in_time:
            what = module.__name__.rpartition(".")[2].replace("_", " ")
            scene.case.could_not_look(f"a patch ({what})", too_long(allowance.share))
        found += [fact for fact in facts if fact.value not in [known.value for known in found]]
    offered = [fact for fact in found if fact.name == REMEDY]
    offered.sort(key=lambda fact: _SAFETIES.index(fact.value[1].safety))
    return [*offered, *(fact for fact in found if fact.name != REMEDY)]


def _offered(module: Any, scene: Scene) -> list[Fact]:  # noqa: ANN401 - a module
    facts: list[Fact] = []
    with our_errors(module.__name__, scene.case.could_not_look):
        facts.extend(module.look(scene))
    return facts


@lru_cache(maxsize=1)
def _modules() -> tuple[Any, ...]:
    names = sorted(name.removesuffix(".py") for name in os.listdir(os.path.dirname(__file__)) if name.endswith(".py"))
    return tuple(importlib.import_module(f"{__name__}.{name}") for name in names if not name.startswith("_"))
