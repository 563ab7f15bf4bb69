"""Whether the gradient scalers of a program are switched on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from crashcart.readers.code._operands import operand
from crashcart.readers.code.source import keyword

if TYPE_CHECKING:
    from crashcart.readers.code._loops import Loops

__all__ = ["enabled"]


def enabled(loops: Loops) -> dict[str, Any]:
    """What ``GradScaler(enabled=...)`` says: on where nothing is said, else the setting behind it."""
    for frame in loops.frames:
        for call in frame.named("GradScaler"):
            given = keyword(call, "enabled")
            return {"name": "", "number": True} if given is None else operand(loops, frame, given)
    return {"name": "", "number": None}
