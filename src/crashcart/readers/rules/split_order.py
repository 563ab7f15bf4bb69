"""A list of episodes cut in two as it stands: the first for training, the rest for evaluation.

names = sorted(file["episodes"])
cut = int(0.8 * len(names))
train, val = names[:cut], names[cut:]

Which episodes come into which part is then known by their names; a list that is shuffled, or comes in the order of a file system,
says nothing.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from crashcart.numbers import to_float
from crashcart.readers.code._paths import given_to
from crashcart.readers.code.program import program_of
from crashcart.readers.code.source import FUNCTIONS, inside, name_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.model import Fact
    from crashcart.readers.code.source import Function, Source
    from crashcart.readers.interpreter.execution import Execution

SHUFFLES = ("shuffle", "permutation", "randperm", "sample", "random_split", "train_test_split")
ROUNDS = {"int", "round"}


def look(execution: Execution) -> Iterator[Fact]:
    """``code.split_in_order``: the share, or the number, of the first part."""
    for source in program_of(execution).sources:
        if "h5py" not in source.text and "episode" not in source.text.lower():
            continue
        seen: set[tuple[ast.AST | None, str]] = set()
        for node in source.nodes(ast.Subscript):
            where = inside(node, *FUNCTIONS)
            function = where if isinstance(where, FUNCTIONS) else None
            name = name_of(node.value)
            if not isinstance(node.slice, ast.Slice) or not name or (function, name) in seen or node.slice.step is not None:
                continue
            at = _cut(source, function, node, name)
            if at is not None and _in_order(source, function, name):
                seen.add((function, name))
                yield source.fact("code.split_in_order", at, node)


def _cut(source: Source, function: Function | None, node: ast.Subscript, name: str) -> dict[str, float] | None:
    """Where a list is cut, if both parts are taken: ``names[:cut]`` and ``names[cut:]``."""
    part = node.slice
    if not isinstance(part, ast.Slice) or part.lower is not None or part.upper is None:
        return None
    written = source.written(part.upper)
    other = any(
        isinstance(one.slice, ast.Slice)
        and one.slice.upper is None
        and one.slice.lower is not None
        and name_of(one.value) == name
        and source.written(one.slice.lower) == written
        for one in ast.walk(function or source.tree)
        if isinstance(one, ast.Subscript)
    )
    given = given_to(source, part.upper.id, function) if isinstance(part.upper, ast.Name) else [part.upper]
    return _place(source, given[0], name) if other and len(given) == 1 else None


def _place(source: Source, node: ast.expr, name: str) -> dict[str, float] | None:
    """``int(0.8 * len(names))``, ``len(names) * 9 // 10``, ``len(names) - 2``, ``-2``, ``40``."""
    if isinstance(node, ast.Call) and name_of(node.func) in ROUNDS and len(node.args) == 1:
        node = node.args[0]
    text = source.written(node).replace(f"len({name})", "1.0")
    try:
        value = ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError):
        value = None
    if isinstance(value, int) and not isinstance(value, bool):
        return {"count": value}
    parts = [one for one in ast.walk(node) if isinstance(one, (ast.Name, ast.Call, ast.Attribute))]
    own = f"len({name})"
    if source.written(node).count(own) != 1 or any(source.written(one) not in {own, "len", name, "self"} for one in parts):
        return None
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Sub) and isinstance(node.right, ast.Constant):
        return {"count": -node.right.value} if type(node.right.value) is int else None
    words = text.replace("//", "/").replace("(", " ").replace(")", " ").split()
    numbers = [number for word in words if _is_number(word) and (number := to_float(word)) is not None]
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult) and len(numbers) == 2:  # noqa: PLR2004 - share and length
        return {"share": numbers[0] * numbers[1]}
    if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.FloorDiv, ast.Div)) and len(numbers) == 3:  # noqa: PLR2004
        return {"share": numbers[0] * numbers[1] / numbers[2]} if numbers[2] else None
    return None


def _is_number(text: str) -> bool:
    return text.replace(".", "", 1).isdigit()


def _in_order(source: Source, function: Function | None, name: str) -> bool:
    """Whether the list is sorted by name, and not shuffled before it is cut."""
    given = given_to(source, name, function)
    whole = ast.unparse(function) if function is not None else source.text
    sort = any(isinstance(one, ast.Call) and name_of(one.func) == "sorted" for one in given) or f"{name}.sort()" in whole
    return len(given) == 1 and sort and not any(f"{word}({name}" in whole for word in SHUFFLES)
