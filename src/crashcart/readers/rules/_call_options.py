"""A call of a library written with one more option: ``DataLoader(data, 16)`` becomes ``DataLoader(data, 16, drop_last=True)``."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from crashcart.readers.code.edits import replaced

if TYPE_CHECKING:
    from crashcart.model import Edit
    from crashcart.readers.interpreter.trace import Call

__all__ = ["with_option"]


def with_option(call: Call, option: str, text: str) -> tuple[Edit, ...]:
    """The edit after which a call gives this option, also where it may be among ``**options``."""
    node = call.node
    if not isinstance(node, ast.Call):
        return ()
    written = next((keyword.value for keyword in node.keywords if keyword.arg == option), None)
    if written is not None:
        return (replaced(call.source, written, text),)
    unpacked = [keyword.value for keyword in node.keywords if keyword.arg is None]
    if unpacked:  # what comes last in a dictionary counts
        given = call.source.written(unpacked[-1])
        return (replaced(call.source, unpacked[-1], f'{{**{given}, "{option}": {text}}}'),) if len(unpacked) == 1 else ()
    arguments = [*node.args, *(keyword.value for keyword in node.keywords)]
    if not arguments:
        return ()
    last = max(arguments, key=lambda each: (each.end_lineno or 0, each.end_col_offset or 0))
    return (replaced(call.source, last, f"{call.source.written(last)}, {option}={text}"),)
