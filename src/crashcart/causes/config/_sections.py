"""Which setting of a config a place in the code reads: by its last name, and by its section where the code says that too."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from crashcart.case import Case
    from crashcart.model import Fact

__all__ = ["key_of", "meets", "same_section", "section_of", "squeezed"]


def squeezed(name: str) -> str:
    """A name as names are compared: case, dashes and underscores do not count."""
    return name.replace("_", "").replace("-", "").lower()


def meets(told: str, key: str) -> bool:
    """Whether what the code asks for is this key: ``*_lr`` is what it asks for with ``cfg[f"{name}_lr"]``."""
    start, star, end = squeezed(told).partition("*")
    return start == key if not star else len(key) > len(start + end) and key.startswith(start) and key.endswith(end)


def key_of(fact: Fact) -> str:
    """The last part of a setting's name, without an index, as names are compared."""
    return squeezed(fact.spelling.rpartition(".")[2].partition("[")[0])


def section_of(fact: Fact) -> str:
    """The part before it."""
    return squeezed(fact.spelling.rpartition(".")[0].rpartition(".")[2])


def same_section(case: Case, use: Fact, fact: Fact) -> bool:
    """Whether a use reads this setting and not one of the same name in another section, where the config has that one."""
    section = squeezed(str(use.value.get("above", "")))
    if not section or section == section_of(fact):
        return True
    ending = f"{section}.{key_of(fact)}"
    return not any(
        one.origin == "file" and squeezed(one.spelling).endswith(ending) for group in case.seen.values() for one in group
    )
