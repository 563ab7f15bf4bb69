"""Data that a loop over files reads as a whole and keeps in memory for good.

A list that only feeds a mean is let go again; what counts is what an attribute of the data set holds in the end, and what goes
into it as it was read: ``file["x"][()].shape`` keeps a number.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any

from crashcart.readers.code.samples import key_of
from crashcart.readers.code.source import FUNCTIONS, inside, name_of, parents

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.readers.code.source import Source

__all__ = ["held_whole"]

READS = {"numpy.load", "np.load", "torch.load", "pickle.load", "cv2.imread", "Image.open", "PIL.Image.open", "imread"}
JOINS = {"stack", "concatenate", "cat", "array", "vstack", "list", "tuple", "asarray"}
SAME = {"astype", "copy", "float", "half", "long", "numpy", "contiguous", "to", "permute", "transpose"}


def held_whole(source: Source, loop: ast.For | ast.ListComp) -> dict[str, Any] | None:
    """Tables by their names, or whole files; nothing where none stays."""
    named: dict[str, list[ast.AST]] = {}
    for node in ast.walk(loop):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            named.setdefault(node.targets[0].id, []).append(node.value)
    keys: list[str] = []
    files = False
    for value in _kept(loop):
        for one in (value, *(found for name in _names(value) for found in named.get(name, ()))):
            for node in ast.walk(one):
                if isinstance(node, ast.Subscript) and _whole(node) and _as_it_is(node, one):
                    key = key_of(node.value) if isinstance(node.value, ast.Subscript) else None
                    keys += [key] if key else []
                elif isinstance(node, ast.Call) and source.called(node.func) in READS and _as_it_is(node, one):
                    files = files or not any(word.arg == "mmap_mode" for word in node.keywords)
    return {"keys": keys, "files": files} if keys or files else None


def _kept(loop: ast.For | ast.ListComp) -> Iterator[ast.expr]:
    """What goes into an attribute, at once or through a list of the function."""
    if isinstance(loop, ast.ListComp):
        statement = next((one for one in parents(loop) if isinstance(one, ast.stmt)), None)
        if isinstance(statement, ast.Assign) and name_of(statement.targets[0]).startswith("self."):
            yield loop.elt
        return
    function = inside(loop, *FUNCTIONS)
    for node in ast.walk(loop):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr in {"append", "extend"}
            and node.args
        ):
            into = name_of(node.func.value)
            if into.startswith("self.") or (function is not None and _given_away(function, into)):
                yield node.args[0]
        elif (
            isinstance(node, ast.Assign)
            and isinstance(node.targets[0], ast.Subscript)
            and name_of(node.targets[0]).startswith("self.")
        ):
            yield node.value


def _given_away(function: ast.AST, name: str) -> bool:
    """Whether an attribute is given the list, or one array of all of it."""
    for node in ast.walk(function):
        if isinstance(node, ast.Assign) and name_of(node.targets[0]).startswith("self."):
            value = node.value
            if isinstance(value, ast.Call) and name_of(value.func).rpartition(".")[2] in JOINS and value.args:
                value = value.args[0]
            if isinstance(value, ast.Name) and value.id == name:
                return True
    return False


def _names(value: ast.expr) -> set[str]:
    return {one.id for one in ast.walk(value) if isinstance(one, ast.Name) and _as_it_is(one, value)}


def _as_it_is(node: ast.AST, top: ast.AST) -> bool:
    """Whether a node becomes part of a value whole: nothing above it takes a shape, a length or an item of it."""
    if node is top:
        return True
    for above in parents(node):
        if isinstance(above, ast.Attribute) and above.attr not in SAME:
            return False
        if isinstance(above, ast.Subscript) or (
            isinstance(above, ast.Call) and name_of(above.func) in {"len", "int", "float", "max", "min"}
        ):
            return False
        if above is top:
            return True
    return True


def _whole(node: ast.Subscript) -> bool:
    """``[()]``, ``[:]`` and ``[...]`` of a table by its name."""
    if not isinstance(node.value, ast.Subscript):
        return False
    at = node.slice
    empty = isinstance(at, ast.Tuple) and not at.elts
    return (
        empty
        or (isinstance(at, ast.Slice) and at.lower is None and at.upper is None)
        or (isinstance(at, ast.Constant) and at.value is Ellipsis)
    )
