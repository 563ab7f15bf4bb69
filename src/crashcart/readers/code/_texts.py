"""What text an expression of the code is, as far as the code says it: paths put together from constants and its own place.

DATA_DIR + "/cube"      os.path.join(ROOT, "h5")      Path(__file__).resolve().parent / "data"      os.path.dirname(__file__)

``os.environ.get("DATA", "data")`` is its default, and ``variables_in`` says that somebody may have set another.
"""

from __future__ import annotations

import ast
import os
from typing import TYPE_CHECKING

from crashcart.readers.code._paths import given_to
from crashcart.readers.code.source import name_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.readers.code.source import Source

__all__ = ["in_a_folder", "text_of", "variables_in"]

JOINED = {"join", "Path", "PurePath", "str", "expanduser", "glob", "iglob", "list", "sorted", "joinpath"}
# What leaves a path the file that it is.
SAME = {"abspath", "realpath", "normpath", "resolve", "absolute", "fspath", "as_posix", "expanduser"}
ENVIRONMENT = {"os.environ.get", "os.getenv", "os.environ.setdefault"}
_DEPTH = 8


def text_of(source: Source, node: ast.expr, depth: int = _DEPTH) -> str:
    """The text that an expression is; empty where a part of it is not known."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else ""
    if depth == 0:
        return ""
    if isinstance(node, ast.Name):
        if node.id == "__file__":
            return source.path
        given = given_to(source, node.id, None)
        return text_of(source, given[0], depth - 1) if len(given) == 1 else ""
    if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Div)):
        left, right = text_of(source, node.left, depth - 1), text_of(source, node.right, depth - 1)
        return (left + ("/" if isinstance(node.op, ast.Div) else "") + right) if left and right else ""
    if isinstance(node, ast.JoinedStr):
        values = [one.value if isinstance(one, ast.FormattedValue) else one for one in node.values]
        return _all(source, values, depth, "")
    if isinstance(node, (ast.Attribute, ast.Subscript)):
        return _above(source, node, depth)
    return _called(source, node, depth) if isinstance(node, ast.Call) else ""


def variables_in(source: Source, node: ast.expr, depth: int = _DEPTH) -> Iterator[str]:
    """The variables of the environment that may put another text in the place of an expression."""
    for one in ast.walk(node):
        if isinstance(one, ast.Call) and source.called(one.func) in ENVIRONMENT:
            first = one.args[0] if one.args else None
            yield str(first.value) if isinstance(first, ast.Constant) else ""
        elif isinstance(one, ast.Name) and depth:
            given = given_to(source, one.id, None)
            yield from variables_in(source, given[0], depth - 1) if len(given) == 1 else ()


def in_a_folder(source: Source, call: ast.Call) -> bool:
    """``folder.glob("*.h5")``: a pattern that counts from another folder than the one where the program runs."""
    name = source.called(call.func)
    return name.rpartition(".")[2] in {"glob", "iglob"} and not name.startswith("glob")


def _called(source: Source, call: ast.Call, depth: int) -> str:
    if source.called(call.func) in ENVIRONMENT:
        return text_of(source, call.args[1], depth - 1) if len(call.args) > 1 else ""
    of = call.func.value if isinstance(call.func, ast.Attribute) else None
    name = call.func.attr if isinstance(call.func, ast.Attribute) else name_of(call.func)
    if in_a_folder(source, call) or (name == "joinpath" and of is not None):
        where = text_of(source, of, depth - 1) if of is not None else ""
        parts = _all(source, call.args, depth, "/")
        return f"{where}/{parts}" if where and parts else ""
    if name == "dirname" and len(call.args) == 1:
        return _folder(text_of(source, call.args[0], depth - 1))
    if name in SAME:
        one = call.args[0] if call.args else of
        return text_of(source, one, depth - 1) if one is not None else ""
    return _all(source, call.args, depth, "/") if name in JOINED else ""


def _above(source: Source, node: ast.Attribute | ast.Subscript, depth: int) -> str:
    """``Path(__file__).parent`` and ``Path(__file__).parents[1]``."""
    if isinstance(node, ast.Attribute):
        return _folder(text_of(source, node.value, depth - 1)) if node.attr == "parent" else ""
    many, at = node.value, node.slice
    if not (isinstance(many, ast.Attribute) and many.attr == "parents" and isinstance(at, ast.Constant)):
        return ""
    text = text_of(source, many.value, depth - 1)
    for _ in range(at.value + 1 if isinstance(at.value, int) and 0 <= at.value < _DEPTH else 0):
        text = _folder(text)
    return text


def _folder(path: str) -> str:
    """The folder of a path; above the place where the program was found it is told in full."""
    if not path:
        return ""
    above = os.path.dirname(path)
    return above or (os.path.dirname(os.path.abspath(".")) if path == "." else ".")


def _all(source: Source, nodes: list[ast.expr], depth: int, between: str) -> str:
    parts = [text_of(source, one, depth - 1) for one in nodes]
    return between.join(parts) if parts and all(parts) else ""
