"""Threads that outlive the work: started, not daemons, never ended. The interpreter waits for them at its end."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from crashcart.model import Edit, Span
from crashcart.readers.code._callers import HOOKS, callers_of, function_of
from crashcart.readers.code.source import FUNCTIONS, keyword, name_of, parent

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.model import Fact
    from crashcart.readers.code._callers import Callers
    from crashcart.readers.code.program import Program
    from crashcart.readers.code.source import Source


def look(program: Program) -> Iterator[Fact]:
    """``code.endless_thread`` and ``code.group_left``: a process group that nobody takes down."""
    callers = callers_of(program)
    for source in program.sources:
        for call in source.calls("threading.Thread"):
            daemon = keyword(call, "daemon")
            target = keyword(call, "target", 1)
            if daemon is not None or target is None or ".daemon" in source.text or "setDaemon" in source.text:
                continue
            if _endless(callers, source, target) and _is_started(callers, source, call):
                end = source.span(call).end - 1
                comma = "" if source.text[:end].rstrip().endswith(("(", ",")) else ", "
                edit = Edit(Span(source.path, end, end, call.end_lineno or call.lineno), f"{comma}daemon=True")
                yield source.fact("code.endless_thread", {"target": name_of(target), "edits": (edit,)}, call)
    starts = [
        source.fact("code.group_left", "", call) for source in program.sources for call in source.calls("init_process_group")
    ]
    if starts and not any("destroy_process_group" in source.text for source in program.sources):
        yield starts[0]


def _is_started(callers: Callers, source: Source, call: ast.Call) -> bool:
    """Whether anybody calls the function that makes the thread; what is offered and never used harms nobody."""
    function = function_of(call)
    if function is None or HOOKS.fullmatch(function.name):
        return True
    return bool(callers.calling(source, function) or callers.sites.get(function.name))


def _endless(callers: Callers, source: Source, target: ast.expr) -> bool:
    """Whether the function of a thread is a loop that nothing ends."""
    for _, function in callers.meant(source, target):
        for loop in (one for one in ast.walk(function) if isinstance(one, ast.While)):
            always = isinstance(loop.test, ast.Constant) and bool(loop.test.value)
            leaves = any(isinstance(one, (ast.Break, ast.Return, ast.Raise)) for part in loop.body for one in ast.walk(part))
            if (
                always
                and not leaves
                and (parent(loop) is function or isinstance(parent(loop), (ast.Try, ast.With, *FUNCTIONS)))
            ):
                return True
    return False
