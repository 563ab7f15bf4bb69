"""What is handed to a process that starts from nothing and cannot be pickled: lambdas, and functions or classes inside others.

A forked worker has everything already; one that is spawned gets it by pickle, which finds functions by their name in a file.
"""

from __future__ import annotations

import ast
import builtins
from typing import TYPE_CHECKING

from crashcart.model import Edit, Span
from crashcart.readers.code._callers import callers_of, function_of
from crashcart.readers.code.source import FUNCTIONS, keyword, name_of, parent, parents

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.model import Fact
    from crashcart.readers.code.program import Program
    from crashcart.readers.code.source import Source

SPAWNS = ("torch.multiprocessing.spawn", "torch.multiprocessing.start_processes")
HANDED = ("collate_fn", "worker_init_fn", "dataset")


def look(program: Program) -> Iterator[Fact]:
    """``code.unpicklable``: what is handed over, to whom, and how many workers there are where the call says."""
    callers = callers_of(program)
    for source in program.sources:
        spawned = _start_method(program, source) == "spawn"
        for call in source.calls(*SPAWNS):
            method = keyword(call, "start_method")
            what = _inside_only(source, keyword(call, "fn", 0))
            if what and not (isinstance(method, ast.Constant) and method.value != "spawn"):
                value = {
                    "what": what,
                    "to": name_of(call.func),
                    "workers": 1,
                    "sure": callers.certain(source, call),
                    "edits": (),
                }
                yield source.fact("code.unpicklable", value, call)
        for call in source.calls("DataLoader"):
            context = keyword(call, "multiprocessing_context")
            named = context.value if isinstance(context, ast.Constant) else None
            if named not in {"spawn", "forkserver"} and (context is not None or not spawned):
                continue
            workers = keyword(call, "num_workers", 5)
            number = workers.value if isinstance(workers, ast.Constant) else None if workers is not None else 0
            for name in HANDED:
                given = keyword(call, name, 0 if name == "dataset" else None)
                what = _inside_only(source, given)
                if what and given is not None:
                    value = {
                        "what": f"{what} as {name}", "to": "the loader's workers", "workers": number,
                        "sure": callers.certain(source, call), "edits": _named(source, given),
                    }  # fmt: skip
                    yield source.fact("code.unpicklable", value, given)


def _start_method(program: Program, own: Source) -> str | None:
    """The start method that the program sets for all: in its entry file, or where the loader is."""
    for source in (one for one in program.sources if one is own or one.path == program.entry):
        for call in source.calls("set_start_method"):
            if call.args and isinstance(call.args[0], ast.Constant):
                return str(call.args[0].value)
    return None


def _inside_only(source: Source, node: ast.expr | None) -> str:
    """What makes an object unknown outside of its function; empty where pickle finds it."""
    if isinstance(node, ast.Lambda):
        return "a lambda"
    if isinstance(node, ast.Call):
        node = node.func
    if not isinstance(node, ast.Name):
        return ""
    home = function_of(node)
    kinds = (*FUNCTIONS, ast.ClassDef)
    local = [one for one in source.nodes(ast.FunctionDef, ast.ClassDef) if one.name == node.id]  # type: ignore[attr-defined]
    if home is None or not local or any(parent(one) is source.tree for one in local):
        return ""
    around = {one for one in parents(node) if isinstance(one, kinds)}
    return f"{node.id}, which is defined inside of {home.name}()" if any(parent(one) in around for one in local) else ""


def _named(source: Source, node: ast.expr) -> tuple[Edit, ...]:
    """A lambda that uses nothing of its surroundings, as a function of the file."""
    if not isinstance(node, ast.Lambda) or "\n" in source.written(node):
        return ()
    own = {one.arg for one in ast.walk(node.args) if isinstance(one, ast.arg)}
    own |= {one.id for one in ast.walk(node.body) if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store)}
    top = {
        one.id
        for part in source.tree.body
        if isinstance(part, ast.Assign)
        for one in part.targets
        if isinstance(one, ast.Name)
    }
    top |= {part.name for part in source.tree.body if isinstance(part, (*FUNCTIONS, ast.ClassDef))} | set(source.names)
    used = {one.id for one in ast.walk(node.body) if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Load)}
    above = [one for one in parents(node) if isinstance(one, ast.stmt)]
    if not used <= own | top | set(dir(builtins)) or not above or "collate" in top:
        return ()
    outer = above[-1]
    first = min([outer.lineno, *(one.lineno for one in getattr(outer, "decorator_list", ()))])
    at = source.offset(first, 0)
    arguments, body = ast.unparse(node.args), source.written(node.body)
    text = f"def collate({arguments}):\n    return {body}\n\n\n"
    return Edit(Span(source.path, at, at, first), text), Edit(source.span(node), "collate")
