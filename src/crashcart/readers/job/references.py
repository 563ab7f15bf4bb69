"""References between settings, as OmegaConf follows them: ``num_workers: ${loader.workers}``, ``logs/${name}/weights``.

A setting that is nothing but a reference has the value, the place and the span of what it refers to: there a patch must be made.
What is computed when the program runs (``${now:...}``, ``${oc.env:...}``), relative, or leads in a circle stays as it is written.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from crashcart.record import replace

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from crashcart.model import Fact

__all__ = ["resolved"]

WHOLE = re.compile(r"\$\{([A-Za-z_][\w.\[\]-]*)\}")
_DEEPEST = 8
_LONGEST = 1000


def resolved(facts: Sequence[Fact], flags: Iterable[Fact]) -> list[Fact]:
    """The facts with their references followed; what a flag says goes before what a file says."""
    known = {fact.spelling: fact for fact in facts if fact.spelling}
    known |= {fact.spelling.lstrip("+-"): fact for fact in flags if fact.spelling}
    following = _Following(known)
    return [following.end(fact) for fact in facts]


def _refers(fact: Fact) -> bool:
    return isinstance(fact.value, str) and "${" in fact.value and len(fact.value) < _LONGEST


class _Following:
    """Each setting is followed once: ten references to ten references each would be followed without end."""

    def __init__(self, known: dict[str, Fact]) -> None:
        self.known = known
        self.ends: dict[str, Fact] = {}
        self.open: set[str] = set()

    def end(self, fact: Fact) -> Fact:
        """A setting with what it refers to put in."""
        if not _refers(fact):
            return fact
        whole = WHOLE.fullmatch(fact.value)
        if whole is None:
            return replace(fact, value=WHOLE.sub(self.said, fact.value)[:_LONGEST])
        end = self.named(whole[1])
        if end is None or _refers(end):
            return fact
        return replace(fact, value=end.value, evidence=end.evidence, span=end.span)

    def named(self, name: str) -> Fact | None:
        """The setting of that name, followed to its end; None where there is none, or it leads back to itself."""
        if name in self.ends:
            return self.ends[name]
        if name not in self.known or name in self.open or len(self.open) > _DEEPEST:
            return None
        self.open.add(name)
        end = self.end(self.known[name])
        self.open.discard(name)
        self.ends[name] = end
        return end

    def said(self, part: re.Match[str]) -> str:
        """A reference within a text as the text that it stands for."""
        end = self.named(part[1])
        return part[0] if end is None or isinstance(end.value, (list, dict)) else str(end.value)
