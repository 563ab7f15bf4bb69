"""A call of the program handed to a piece of `crashcart.train` that takes the same arguments.

For programs that use the library already, and where a patch without it would be more than a line.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from crashcart.model import Edit, Span
from crashcart.readers.code.edits import replaced

if TYPE_CHECKING:
    from crashcart.readers.code.source import Source

__all__ = ["handed_to"]


def handed_to(source: Source, call: ast.Call, piece: str) -> tuple[Edit, ...]:
    """The call under the piece's name, and the import of it where the file lacks it."""
    known = next((name for name, full in source.names.items() if full == f"crashcart.train.{piece}"), None)
    if known is not None:
        return (replaced(source, call.func, known),)
    if piece in source.names or any(isinstance(node, ast.Name) and node.id == piece for node in source.nodes(ast.Name)):
        return ()  # the name is taken
    return (_imported(source, piece), replaced(source, call.func, piece))


def _imported(source: Source, piece: str) -> Edit:
    """A line after the imports with which the file begins; where it has none, after its docstring."""
    last = 0
    for node in source.tree.body:
        says = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        if not isinstance(node, (ast.Import, ast.ImportFrom)) and not says:
            break
        last = node.end_lineno or node.lineno
    at = source.offset(last + 1, 0) if last else 0
    return Edit(Span(source.path, at, at, last + 1), f"from crashcart.train import {piece}\n")
