"""Overrides of the command line as the program's own code reads them: ``--set optim.lr=1e-4`` is text where PyYAML reads it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from crashcart.documents import load_yaml
from crashcart.record import replace

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from crashcart.case import Case
    from crashcart.model import Fact

__all__ = ["as_read"]

# These read overrides themselves, and 1e-4 as a number.
OWN = {"hydra", "omegaconf", "jsonargparse", "yacs", "typed", "mmengine"}
PLAIN = re.compile(r"[\w.+-]+")


def as_read(case: Case, facts: Sequence[Fact]) -> Iterator[Fact]:
    """The facts of a launch, overrides with the value that the program will hold."""
    kinds = {str(one.value) for one in case.all("code.override_reader")}
    loaders = {str(one.value) for one in case.all("code.config_loader")}
    for fact in facts:
        if len(kinds) == 1 and not loaders & OWN and _is_override(fact):
            yield replace(fact, value=_read(kinds, fact))
        else:
            yield fact


def _is_override(fact: Fact) -> bool:
    name, mark, text = fact.evidence.quote.partition("=")
    return (
        fact.origin == "flag"
        and isinstance(fact.value, (int, float))
        and bool(mark)
        and name == fact.spelling
        and not name.startswith("-")
        and bool(PLAIN.fullmatch(text))
    )


def _read(kinds: set[str], fact: Fact) -> object:
    text = fact.evidence.quote.partition("=")[2]
    if kinds == {"text"}:
        return text
    if kinds != {"pyyaml"}:
        return fact.value
    import yaml

    try:
        return load_yaml(text)
    except (yaml.YAMLError, ValueError):
        return fact.value
