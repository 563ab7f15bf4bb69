"""Tables of a file as the code names them: ``root["/action"][()]``."""

from __future__ import annotations

import ast

from crashcart.readers.code.source import parent

__all__ = ["read_of"]


def read_of(node: ast.Subscript) -> dict[str, str] | None:
    """A table of a file by its name, and how much of it is taken."""
    inner = node.value
    if not isinstance(inner, ast.Subscript) or (isinstance(parent(node), ast.Subscript) and key_of(node) is not None):
        return None
    key, form = key_of(inner), node.slice
    if key is None or key_of(node) is not None:
        return None
    if isinstance(form, ast.Slice):
        return {"key": key, "form": "whole" if form.lower is None and form.upper is None else "slice"}
    if isinstance(form, ast.Tuple):
        return {"key": key, "form": "slice" if form.elts else "whole"}
    if isinstance(form, ast.Constant) and form.value is Ellipsis:
        return {"key": key, "form": "whole"}
    return {"key": key, "form": "step"}


def key_of(node: ast.Subscript) -> str | None:
    """The name of a table; ``#`` for what is put in when it runs."""
    at = node.slice
    if isinstance(at, ast.Constant) and isinstance(at.value, str):
        return at.value
    if isinstance(at, ast.JoinedStr):
        return "".join(str(one.value) if isinstance(one, ast.Constant) else "#" for one in at.values)
    return None
