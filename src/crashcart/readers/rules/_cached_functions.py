"""Functions that remember every answer for good, and the edit that lets them remember a few."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from crashcart.model import Edit
from crashcart.readers.rules._lazy_handles import add_imports

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from crashcart.readers.code.source import Source
    from crashcart.readers.interpreter.execution import Execution
    from crashcart.readers.interpreter.trace import Call

__all__ = ["bounded_cache", "cached_by_chance", "cached_functions"]


def cached_functions(execution: Execution) -> Iterator[tuple[Call, ast.expr]]:
    """Calls, in workers, of functions under ``functools.cache`` or ``lru_cache(maxsize=None)``, each function once."""
    yield from _cached(call for call in execution.trace.calls if execution.in_worker(call) is not None)


def cached_by_chance(execution: Execution) -> Iterator[tuple[Call, ast.expr]]:
    """Such calls in the training or in a worker with arguments of chance: nearly every one is new, and each answer stays."""
    calls = (call for call in execution.trace.calls if execution.in_worker(call) is not None or execution.is_training(call))
    yield from _cached(
        call for call in calls if any("random" in value.tags for value in (*call.arguments, *call.keywords.values()))
    )


def _cached(calls: Iterable[Call]) -> Iterator[tuple[Call, ast.expr]]:
    seen: set[int] = set()
    for call in calls:
        function = call.function
        if function is None or "functools.cache" not in function.decorators or id(function.node) in seen:
            continue
        if isinstance(function.node, ast.Lambda):
            continue
        seen.add(id(function.node))
        for decorator in function.node.decorator_list:
            written = ast.unparse(decorator.func if isinstance(decorator, ast.Call) else decorator)
            if written.rpartition(".")[2] in {"cache", "lru_cache"}:
                yield call, decorator


def bounded_cache(source: Source, decorator: ast.expr, count: int) -> tuple[Edit, ...]:
    """The decorator with a bound."""
    written = source.written(decorator.func if isinstance(decorator, ast.Call) else decorator)
    module = written.rpartition(".")[0] or "functools"
    name = written if written == "lru_cache" else f"{module}.lru_cache"
    needed = add_imports(source, "functools") if name == "functools.lru_cache" else ()
    return (Edit(source.span(decorator), f"{name}(maxsize={count})"), *needed)
