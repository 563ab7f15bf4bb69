"""What the causes of this family share: nothing else ended the run, and names of parameters in lists."""

from __future__ import annotations

from typing import TYPE_CHECKING

from crashcart.cause import compiled
from crashcart.deaths import finished

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.case import Case
    from crashcart.log import Line
    from crashcart.model import Strength

PARAMETER = r"(?<![\w/.])[A-Za-z_]\w*\.(?:\w+\.)*(?:\w+|\{[^}]{0,200}\})"
NO_PARAMETER = (
    r"\.(?:py|pth?|ckpt|bin|safetensors|json|ya?ml|txt|log|com|org|io|html|md|whl|so)$|^(?:https?|www|torch|mmcv|self)\."
)


def ended_badly(case: Case) -> bool:
    """Whether something in the log ended the run by itself; a recording knows whether it came to its end."""
    if case.flight is not None and finished(case):
        return False
    log = case.log
    return bool(log.deaths or log.memory or log.collectives or any(one.kind and not one.survivable for one in log.raised))


def grade(case: Case, strength: Strength) -> Strength:
    """The strength of a sign that needs no crash: weak in a run that something else ended."""
    return "weak" if ended_badly(case) else strength


def lines_with(case: Case, *words: str) -> Iterator[Line]:
    """Kept lines that hold any of the words, which are in lower case."""
    return iter(case.log.index.saying(words))


def parameters(text: str) -> list[str]:
    """Names of model parameters in a piece of text."""
    return [name for name in compiled(PARAMETER).findall(text) if not compiled(NO_PARAMETER).search(name)]
