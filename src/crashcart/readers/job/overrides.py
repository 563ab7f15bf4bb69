"""Overrides of the command line with the value that the program's own code makes of them: ``--set optim.lr=1e-4`` is text for PyYAML."""

from __future__ import annotations

from typing import TYPE_CHECKING

from crashcart.record import replace

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from crashcart.case import Case
    from crashcart.model import Fact

__all__ = ["as_read"]


def as_read(case: Case, facts: Sequence[Fact]) -> Iterator[Fact]:
    """The facts of a launch, overrides with the value that the program will hold."""
    read = {fact.value["spelling"]: fact.value["value"] for fact in case.all("code.override_read")}
    for fact in facts:
        is_override = fact.origin == "flag" and fact.spelling in read and fact.evidence.quote.startswith(f"{fact.spelling}=")
        yield replace(fact, value=read[fact.spelling]) if is_override else fact
