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
    return [_followed(fact, known, _DEEPEST) if _refers(fact) else fact for fact in facts]


def _refers(fact: Fact) -> bool:
    return isinstance(fact.value, str) and "${" in fact.value and len(fact.value) < _LONGEST


def _followed(fact: Fact, known: dict[str, Fact], depth: int) -> Fact:
    if depth == 0 or not _refers(fact):
        return fact
    whole = WHOLE.fullmatch(fact.value)
    if whole is not None:
        target = known.get(whole[1])
        if target is None:
            return fact
        end = _followed(target, known, depth - 1)
        if _refers(end):
            return fact
        return replace(fact, value=end.value, evidence=end.evidence, span=end.span)

    def said(part: re.Match[str]) -> str:
        target = known.get(part[1])
        value = _followed(target, known, depth - 1).value if target is not None else None
        return part[0] if value is None or isinstance(value, (list, dict)) else str(value)

    return replace(fact, value=WHOLE.sub(said, fact.value)[:_LONGEST])
