"""The counterpart of a wait for the ranks that leave before it."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from crashcart.model import Edit, Span
from crashcart.readers.code._blocks import indent_of

if TYPE_CHECKING:
    from crashcart.readers.code.source import Source

__all__ = ["waits_too"]


def waits_too(source: Source, leaving: ast.If, call: ast.Call) -> tuple[Edit, ...]:
    """The same call for those who are sent away before it: ``if rank != 0: return`` becomes a wait and a return."""
    last = leaving.body[-1]
    if (
        not isinstance(last, (ast.Return, ast.Continue))
        or not isinstance(getattr(last, "value", None), (ast.Constant, type(None)))
        or last.lineno == leaving.lineno
        or not all(isinstance(one, ast.Constant) for one in (*call.args, *(word.value for word in call.keywords)))
    ):
        return ()
    at = source.offset(last.lineno, 0)
    text = f"{indent_of(source, last.lineno)}{source.written(call)}\n"
    return (Edit(Span(source.path, at, at, last.lineno), text),)
