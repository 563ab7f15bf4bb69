"""A call whose result nobody uses, left out when it fails: with a line that says so, while the program goes on."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from crashcart.readers.code.edits import own_lines, tried

if TYPE_CHECKING:
    from crashcart.model import Edit
    from crashcart.readers.code.source import Source

__all__ = ["left_out", "stands_alone"]


def stands_alone(source: Source, statement: ast.stmt) -> bool:
    """Whether a statement is a call, and nothing else, on lines of its own."""
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call) and own_lines(source, statement)


def left_out(source: Source, statement: ast.stmt, kind: str, remark: str = "") -> list[Edit]:
    """The statement in a ``try`` that prints the failure."""
    if (
        not stands_alone(source, statement)
        or not isinstance(statement, ast.Expr)
        or not isinstance(statement.value, ast.Call)
    ):
        return []
    called = ast.unparse(statement.value.func)
    what = (
        called if called.replace(".", "").isidentifier() else "a call"
    )  # nothing that is handed over: it may be a password
    line = f'print(f"{what} was left out: {{problem!r}}", flush=True)'
    return tried(source, statement, statement, f"except {kind} as problem:{remark}", line)
