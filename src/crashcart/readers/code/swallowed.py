"""Errors of a training step that are caught, whatever they are, and not passed on.

``except Exception: continue`` round a backward pass hides every defect, and on several ranks the one that failed goes on with
the next batch while the others wait in this one. A handler that raises again, ends the program, or is for one kind of error
is not meant.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from crashcart.readers.code._edits import alone, line_after, replaced
from crashcart.readers.code._loops import last_name, loop_of, loops_of, within
from crashcart.readers.code.source import inside

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.model import Edit, Fact
    from crashcart.readers.code._loops import Frame, Loops
    from crashcart.readers.code.program import Program

_BROAD = {"Exception", "BaseException", "RuntimeError"}
_SAYS = {"print", "info", "warning", "warn", "error", "debug", "exception", "log", "write", "print_exc", "format_exc", "append",
         "str", "format", "repr", "type", "zero_grad", "empty_cache", "collect"}  # fmt: skip


def look(program: Program) -> Iterator[Fact]:
    """``code.step_error_hidden``: such a handler, with ``raise`` put at its end."""
    loops = loops_of(program)
    for source in program.sources:
        for node in source.nodes(ast.Try):
            if loop_of(node) is None and inside(node, ast.FunctionDef) is None:
                continue
            frame = loops.frame(node)
            calls = [call for call in frame.calls if any(within(call, one) for one in node.body)]
            in_loop = loop_of(node) is not None
            if not in_loop or not any(_one_step(loops, frame, call) for call in calls) or _whole(node, frame, loops):
                continue
            for handler in node.handlers:
                if _hides(handler):
                    last = handler.body[-1]
                    edits = (_raised(frame, last),) if alone(source, last) else ()
                    value = {"distributed": loops.distributed, "edits": edits}
                    yield source.fact("code.step_error_hidden", value, last)


def _one_step(loops: Loops, frame: Frame, call: ast.Call, depth: int = 2) -> bool:
    """Whether a call goes backward once, and is no whole training with a loop of its own."""
    if loops.is_backward(call):
        return True
    return depth > 0 and any(
        loop_of(inner) is None and _one_step(loops, callee, inner, depth - 1)
        for callee in loops.callees(frame, call)
        for inner in callee.calls
    )


def _whole(node: ast.Try, frame: Frame, loops: Loops) -> bool:
    """Whether the loop over batches stands inside the handler: then an error ends the epoch, and is none of one step."""
    return any(
        within(call, one) and loop_of(call) is not loop_of(node) and loops.does(frame, call, "backward")
        for one in node.body
        for call in frame.calls
    )


def _hides(handler: ast.ExceptHandler) -> bool:
    names = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    if not any(one is None or last_name(one) in _BROAD - {"RuntimeError"} for one in names):
        return False
    for one in handler.body:
        for node in ast.walk(one):
            if isinstance(node, (ast.Raise, ast.Return, ast.Break, ast.If)):
                return False
            if isinstance(node, ast.Call) and last_name(node.func) not in _SAYS:
                return False
    return True


def _raised(frame: Frame, last: ast.stmt) -> Edit:
    if isinstance(last, (ast.Pass, ast.Continue)):
        return replaced(frame.source, last, "raise")
    return line_after(frame.source, last, "raise")
