"""Whether every rank comes to a place, from the program's own level down."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from crashcart.readers.code._callers import function_of
from crashcart.readers.code._guards import side_at
from crashcart.readers.code.source import name_of, parent, parents

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.readers.code._callers import Callers
    from crashcart.readers.code.source import Source

__all__ = ["WAITS", "all_come", "first_comes"]

GUARDED = re.compile(r"first|lock|zero|main_process|rank0|once", re.IGNORECASE)
FIRST_ONLY = {"prepare_data", "download_and_prepare", "download"}
WAITS = {"barrier", "monitored_barrier", "wait_for_everyone", "synchronize"}
_DEPTH = 5
_SHORT = 3


def all_come(callers: Callers, source: Source, node: ast.AST, depth: int = _DEPTH) -> bool:
    """Whether every rank comes here: on some way from the file's own level with nothing that lets one go first."""
    if side_at(node, source) in {"first", "others", "alone"} or _under_guard(callers, source, node):
        return False
    function = function_of(node)
    if _after_wait(callers, source, node, function or source.tree):
        return False
    if function is None:
        return callers.runs(source, node)
    if function.name in FIRST_ONLY or depth == 0 or any(_in_turns(callers, source, one) for one in function.decorator_list):
        return False
    sites = callers.calling(source, function)
    if any(_goes_first(*site) for site in sites):
        return False
    return any(all_come(callers, *site, depth - 1) for site in sites)


def first_comes(callers: Callers, source: Source, node: ast.AST, depth: int = _DEPTH) -> bool:
    """Whether the first rank comes here by itself, on some way."""
    if side_at(node, source) == "first":
        return True
    function = function_of(node)
    if function is None or depth == 0:
        return False
    return any(first_comes(callers, *site, depth - 1) for site in callers.calling(source, function))


def _in_turns(callers: Callers, source: Source, decorator: ast.expr) -> bool:
    """``@rank_zero_first``, or a decorator of the program in which some wait."""
    meant = callers.meant(source, decorator)
    return bool(GUARDED.search(name_of(decorator))) or any(True for _, one in meant for _ in _waits(one))


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
    if any(
        any(isinstance(one, ast.Yield) for one in ast.walk(function)) and any(_waits(function))
        for _, function in callers.meant(source, call)
    ):
        return True
    name = name_of(call.func).split(".")[-1]
    enters = (one for _, one in callers.functions.get("__enter__", ()))
    return any(getattr(parent(one), "name", "") == name and any(_waits(parent(one) or one)) for one in enters)


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


def _after_wait(callers: Callers, source: Source, node: ast.AST, within: ast.AST) -> bool:
    """``if rank != 0: barrier()`` before it, ``if rank == 0: barrier()`` behind it: the others come when the first is through.

    Either may stand in a function of the program that does only that.
    """
    line = getattr(node, "lineno", 0)
    sides = sorted((at, side) for at, side in _sided(callers, source, within) if side in {"first", "others"})
    before = [side for at, side in sides if at < line]
    return before[-1:] == ["others"] and ("first" not in before or any(at > line and side == "first" for at, side in sides))


def _sided(callers: Callers, source: Source, within: ast.AST) -> Iterator[tuple[int, str]]:
    """The lines on which only some ranks wait."""
    for call in ast.walk(within):
        if not isinstance(call, ast.Call):
            continue
        name = name_of(call.func).split(".")[-1]
        if name in WAITS or name == "sleep" or "wait" in name:  # also for a file, or a word in a store
            yield call.lineno, side_at(call, source) or ""
        for at, function in callers.meant(source, call):
            if len(function.body) <= _SHORT:
                yield from ((call.lineno, side_at(one, at) or "") for one in _waits(function))


def _waits(within: ast.AST) -> Iterator[ast.Call]:
    for one in ast.walk(within):
        if isinstance(one, ast.Call) and name_of(one.func).split(".")[-1] in WAITS:
            yield one
