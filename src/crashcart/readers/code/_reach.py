"""Whether every rank comes to a place, from the program's own level down."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from crashcart.readers.code._callers import function_of
from crashcart.readers.code._guards import side_at
from crashcart.readers.code.source import name_of, parents

if TYPE_CHECKING:
    from crashcart.readers.code._callers import Callers
    from crashcart.readers.code.source import Source

__all__ = ["WAITS", "all_come"]

GUARDED = re.compile(r"first|lock|zero|main_process|rank0|once", re.IGNORECASE)
FIRST_ONLY = {"prepare_data", "download_and_prepare", "download"}
WAITS = {"barrier", "monitored_barrier", "wait_for_everyone", "synchronize"}
_DEPTH = 5


def all_come(callers: Callers, source: Source, node: ast.AST, depth: int = _DEPTH) -> bool:
    """Whether every rank comes here: on some way from the file's own level with nothing that lets one go first."""
    if side_at(node, source) in {"first", "others", "alone"} or _under_guard(node):
        return False
    function = function_of(node)
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
    within = function_of(node) or source.tree
    return any(
        name_of(call.func).split(".")[-1] in WAITS and call.lineno > getattr(node, "lineno", 0)
        for call in ast.walk(within)
        if isinstance(call, ast.Call)
    )


def _under_guard(node: ast.AST) -> bool:
    for above in parents(node):
        if isinstance(above, (ast.With, ast.AsyncWith)) and any(
            GUARDED.search(name_of(one.context_expr))
            or (one.optional_vars is not None and GUARDED.search(name_of(one.optional_vars)))
            for one in above.items
        ):
            return True
    return False
