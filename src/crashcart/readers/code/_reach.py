"""Whether every rank comes to a place, from the program's own level down."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from crashcart.readers.code._callers import function_of
from crashcart.readers.code._guards import side_at
from crashcart.readers.code.source import name_of, parents

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.readers.code._callers import Callers
    from crashcart.readers.code.source import Source

__all__ = ["WAITS", "all_come"]

GUARDED = re.compile(r"first|lock|zero|main_process|rank0|once", re.IGNORECASE)
FIRST_ONLY = {"prepare_data", "download_and_prepare", "download"}
WAITS = {"barrier", "monitored_barrier", "wait_for_everyone", "synchronize"}
_DEPTH = 5


def all_come(callers: Callers, source: Source, node: ast.AST, depth: int = _DEPTH) -> bool:
    """Whether every rank comes here: on some way from the file's own level with nothing that lets one go first."""
    if side_at(node, source) in {"first", "others", "alone"} or _under_guard(callers, source, node):
        return False
    function = function_of(node)
    if _after_wait(source, node, function or source.tree):
        return False
    if function is None:
        return callers.runs(source, node)
    if function.name in FIRST_ONLY or depth == 0 or any(GUARDED.search(name_of(one)) for one in function.decorator_list):
        return False
    sites = callers.calling(source, function)
    if any(_goes_first(*site) for site in sites):
        return False
    return any(all_come(callers, *site, depth - 1) for site in sites)


def _goes_first(source: Source, node: ast.AST) -> bool:
    """``if rank == 0: prepare()`` and then a wait of all: who comes later finds it done."""
    if side_at(node, source) != "first":
        return False
    return any(call.lineno > getattr(node, "lineno", 0) for call in _waits(function_of(node) or source.tree))


def _under_guard(callers: Callers, source: Source, node: ast.AST) -> bool:
    for above in parents(node):
        if isinstance(above, (ast.With, ast.AsyncWith)) and any(
            GUARDED.search(name_of(one.context_expr))
            or (one.optional_vars is not None and GUARDED.search(name_of(one.optional_vars)))
            or (isinstance(one.context_expr, ast.Call) and _lets_in(callers, source, one.context_expr))
            for one in above.items
        ):
            return True
        if isinstance(above, ast.For) and _one_by_one(above, node):
            return True
    return False


def _lets_in(callers: Callers, source: Source, call: ast.Call) -> bool:
    """``with in_order(rank):`` by a function of the program that waits before or after what it yields to."""
    return any(
        any(isinstance(one, ast.Yield) for one in ast.walk(function)) and any(_waits(function))
        for _, function in callers.meant(source, call)
    )


def _one_by_one(loop: ast.For, node: ast.AST) -> bool:
    """``for turn in range(world_size): if rank == turn: load()`` with a wait of all in each turn."""
    turn = name_of(loop.target)
    asked = any(
        isinstance(one, ast.If)
        and isinstance(one.test, ast.Compare)
        and turn in {name_of(part) for part in (one.test.left, *one.test.comparators)}
        for one in parents(node)
    )
    return asked and any(_waits(loop))


def _after_wait(source: Source, node: ast.AST, within: ast.AST) -> bool:
    """``if rank != 0: barrier()`` before it, ``if rank == 0: barrier()`` behind it: the others come when the first is through."""
    line = getattr(node, "lineno", 0)
    sides = sorted((call.lineno, side_at(call, source) or "") for call in _waits(within))
    before = [side for at, side in sides if at < line and side in {"first", "others"}]
    return before[-1:] == ["others"] and ("first" not in before or any(at > line and side == "first" for at, side in sides))


def _waits(within: ast.AST) -> Iterator[ast.Call]:
    for one in ast.walk(within):
        if isinstance(one, ast.Call) and name_of(one.func).split(".")[-1] in WAITS:
            yield one
