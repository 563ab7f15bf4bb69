"""What a launch puts into the environment, joined with what the program takes from it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from crashcart.model import Fact
from crashcart.names import canonical

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["PREFIX", "taken"]

PREFIX = "environment_number."  # a number under any name: it counts only where the program asks for it


def taken(facts: Sequence[Fact], asked: Sequence[Fact]) -> tuple[list[Fact], list[Fact]]:
    """The facts of the launch with the variables that the program reads, and the defaults that come from variables."""
    numbers = {fact.spelling: fact for fact in facts if fact.name.startswith(PREFIX)}
    plain = [fact for fact in facts if fact.name not in {one.name for one in numbers.values()}]
    defaults: list[Fact] = []
    for one in asked:
        variable, key = str(one.value["variable"]), str(one.value["key"])
        given = numbers.get(variable)
        value = given.value if given is not None else one.value["default"]
        if value is None:
            continue
        evidence = given.evidence if given is not None else one.evidence
        span = given.span if given is not None else None
        if given is not None:
            plain.append(Fact(f"environment.{variable}", value, evidence, "environment", variable, span))
        if key:
            name = canonical(key.lstrip("-")) or f"default.{key.lstrip('-')}"
            origin = "environment" if given is not None and key.isupper() else "default"
            defaults.append(Fact(name, value, evidence, origin, key, span))
    return plain, defaults
