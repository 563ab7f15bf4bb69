"""Functions that remember every answer, and the edit that lets them remember a few."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from crashcart.model import Edit
from crashcart.readers.code._lazily import imported
from crashcart.readers.code.source import keyword

if TYPE_CHECKING:
    from crashcart.readers.code.source import Function, Source

__all__ = ["few", "remembers"]


def remembers(source: Source, function: Function) -> ast.expr | None:
    """The decorator that keeps every answer of a function: ``functools.cache``, ``lru_cache(maxsize=None)``."""
    for one in function.decorator_list:
        name = source.called(one.func if isinstance(one, ast.Call) else one)
        if name == "functools.cache":
            return one
        if name == "functools.lru_cache" and isinstance(one, ast.Call):
            most = keyword(one, "maxsize", 0)
            if isinstance(most, ast.Constant) and most.value is None:
                return one
    return None


def few(source: Source, decorator: ast.expr, count: int) -> tuple[Edit, ...]:
    """The decorator with a bound."""
    written = source.written(decorator.func if isinstance(decorator, ast.Call) else decorator)
    module = written.rpartition(".")[0] or "functools"
    name = written if written == "lru_cache" else f"{module}.lru_cache"
    needed = imported(source, "functools") if name == "functools.lru_cache" else ()
    return (Edit(source.span(decorator), f"{name}(maxsize={count})"), *needed)
