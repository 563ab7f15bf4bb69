"""Whether the gradient scalers of a program are switched on."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any

from crashcart.readers.code._loops import last_name
from crashcart.readers.code._operands import operand
from crashcart.readers.code.source import keyword, parent

if TYPE_CHECKING:
    from crashcart.readers.code._loops import Frame, Loops

__all__ = ["enabled"]


def enabled(loops: Loops) -> dict[str, Any]:
    """What ``GradScaler(enabled=...)`` says: on where nothing is said, else the setting behind it.

    ``enabled=(dtype == "float16")`` is the setting with what it is compared to; a scaler that is only made under a condition
    is as good as that condition.
    """
    for frame in loops.frames:
        for call in frame.named("GradScaler"):
            given = keyword(call, "enabled")
            above = parent(call)
            if given is None and isinstance(above, ast.IfExp) and call is above.body:
                given = above.test
            if given is None:
                return {"name": "", "number": True if not isinstance(parent(parent(call) or call), ast.If) else None}
            return _compared(loops, frame, given)
    return {"name": "", "number": None}


def _compared(loops: Loops, frame: Frame, given: ast.expr) -> dict[str, Any]:
    if isinstance(given, ast.Compare) and len(given.ops) == 1 and isinstance(given.ops[0], ast.Eq):
        wanted = given.comparators[0]
        word = wanted.value if isinstance(wanted, ast.Constant) else last_name(wanted)
        found = operand(loops, frame, given.left)
        return {**found, "equals": word} if isinstance(word, str) else {"name": "", "number": None}
    return operand(loops, frame, given)
