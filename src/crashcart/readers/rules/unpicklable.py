"""What is handed to a process that starts from nothing and cannot be pickled: lambdas, and functions or classes inside others.

A forked worker has everything already; one that is spawned gets it by pickle, which finds functions by their name in a file.
"""

from __future__ import annotations

import ast
import builtins
from typing import TYPE_CHECKING

from crashcart.model import Edit, Span
from crashcart.readers.code.source import FUNCTIONS
from crashcart.readers.interpreter.values import Bound, Constant, Function, Instance, Partial, constant_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.model import Fact
    from crashcart.readers.code.source import Source
    from crashcart.readers.interpreter.execution import Execution
    from crashcart.readers.interpreter.values import Value

_SPAWNS = ("torch.multiprocessing.spawn", "torch.multiprocessing.start_processes")
_HANDED = {"dataset": 0, "collate_fn": 6, "worker_init_fn": 10}


def look(execution: Execution) -> Iterator[Fact]:
    """``code.unpicklable``: what is handed over, to whom, and how many processes get it."""
    for call in execution.trace.named(*_SPAWNS):
        what = _inside_only(call.argument(0, "fn"))
        if what and constant_of(call.argument(4, "start_method"), "spawn") == "spawn":
            sure = call.region.is_certain()
            yield call.fact("code.unpicklable", {"what": what, "to": call.method, "workers": 1, "sure": sure, "edits": ()})
    for loader in execution.loaders:
        if execution.start_method(loader) not in {"spawn", "forkserver"}:
            continue
        workers = constant_of(loader.argument(5, "num_workers", Constant(0)))
        for name, position in _HANDED.items():
            value = loader.argument(position, name)
            what = _inside_only(value)
            if what:
                node, source = loader.call.node, loader.call.source
                written = next((word.value for word in getattr(node, "keywords", ()) if word.arg == name), None)
                edits = _as_function(source, written) if isinstance(written, ast.Lambda) else ()
                facts = {
                    "what": f"{what} as {name}", "to": "the loader's workers", "workers": workers,
                    "sure": loader.call.region.is_certain(), "edits": edits,
                }  # fmt: skip
                yield source.fact("code.unpicklable", facts, written or node)  # type: ignore[arg-type]


def _inside_only(value: Value | None) -> str:
    """What makes an object unknown outside of its function; empty where pickle finds it."""
    while isinstance(value, (Bound, Partial)):
        value = value.receiver if isinstance(value, Bound) else value.function
    if isinstance(value, Function):
        if isinstance(value.node, ast.Lambda):
            return "a lambda"
        return _defined_inside(value.source, value.node, value.name)
    return _defined_inside(value.cls.source, value.cls.node, value.cls.name) if isinstance(value, Instance) else ""


def _defined_inside(source: Source, node: ast.AST, name: str) -> str:
    for above in source.parents(node):
        if isinstance(above, (ast.FunctionDef, ast.AsyncFunctionDef)):
            return f"{name}, which is defined inside of {above.name}()"
    return ""


def _as_function(source: Source, node: ast.Lambda) -> tuple[Edit, ...]:
    """A lambda that uses nothing of its surroundings, as a function of the file."""
    if "\n" in source.written(node):
        return ()
    own = {part.arg for part in ast.walk(node.args) if isinstance(part, ast.arg)}
    own |= {part.id for part in ast.walk(node.body) if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store)}
    top = {
        target.id
        for statement in source.tree.body
        if isinstance(statement, ast.Assign)
        for target in statement.targets
        if isinstance(target, ast.Name)
    }
    top |= {part.name for part in source.tree.body if isinstance(part, (*FUNCTIONS, ast.ClassDef))} | set(source.names)
    used = {part.id for part in ast.walk(node.body) if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Load)}
    statements = [above for above in source.parents(node) if isinstance(above, ast.stmt)]
    if not used <= own | top | set(dir(builtins)) or not statements or "collate" in top:
        return ()
    outer = statements[-1]
    first = min([outer.lineno, *(decorator.lineno for decorator in getattr(outer, "decorator_list", ()))])
    start = source.offset(first, 0)
    text = f"def collate({ast.unparse(node.args)}):\n    return {source.written(node.body)}\n\n\n"
    return Edit(Span(source.path, start, start, first), text), Edit(source.span(node), "collate")
