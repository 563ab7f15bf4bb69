"""What a program will refuse at its start: seen in the command, the config files and the folder before it is started."""

from __future__ import annotations

from typing import TYPE_CHECKING

from crashcart.model import Sign

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.case import Case

__all__ = ["foreseen"]


def foreseen(case: Case) -> Iterator[Sign]:
    """Each thing for which the program ends within seconds, and what is odd and worth knowing."""
    for fact in case.all("arguments.refused"):
        yield Sign("decisive", fact.value["says"], (fact.evidence,))
    yield from _files(case)


def _files(case: Case) -> Iterator[Sign]:
    """Config files that cannot be parsed, that hold one text, several documents, or a key twice."""
    loader = case.facts["config.loader"].value if "config.loader" in case.facts else ""
    for fact in case.all("config.unreadable"):
        yield Sign("decisive", str(fact.value).rstrip("."), (fact.evidence,))
    for fact in case.all("config.document"):
        if isinstance(fact.value, str) and ":" in fact.value:
            told = "the file is one long text for every loader: a blank is missing after a colon"
            yield Sign("decisive", told, (fact.evidence,))
    for fact in case.all("config.duplicate"):
        refused = loader in {"omegaconf", "hydra", "ruamel"}
        told = f"{fact.value} stands twice" + (
            ", and this loader refuses the file" if refused else ": the later one counts, silently"
        )
        yield Sign("decisive" if refused else "weak", told, (fact.evidence,), fatal=refused)
