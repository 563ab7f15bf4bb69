"""Loops that go backward and step, and never clear the gradients: each step then adds to all before it.

Clearing counts wherever it can be reached: in the function with its inner functions, in what it calls, in what calls it, in
a class of the program that has a ``step`` of its own.
"""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from crashcart.readers.code._edits import alone, line_after
from crashcart.readers.code._loops import loop_of, loops_of, receiver, statement, within

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.model import Fact
    from crashcart.readers.code._loops import Frame, Loops
    from crashcart.readers.code.program import Program

_CLEARS = re.compile(r"zero_?grad|clear_?grad|\.grad\s*=\s*None|grad\.(?:zero_|detach_)|\.grad\.data\.zero_", re.IGNORECASE)
_MADE = re.compile(r"^torch\.optim\.|^(?:Adam|AdamW|SGD|RMSprop|Adagrad|Lion|Adafactor|LAMB)$|(?:optim)\.(?:Adam|SGD)")


def look(program: Program) -> Iterator[Fact]:
    """``code.never_cleared``: the step of an optimizer that the program made itself, with the line that clears."""
    loops = loops_of(program)
    if not any(_MADE.search(frame.source.called(call.func)) for frame in loops.frames for call in frame.calls):
        return
    own = [node for source in program.sources for node in source.nodes(ast.ClassDef) if _steps_itself(node)]
    for frame in loops.frames:
        for step in [call for call in frame.calls if loops.is_step(call)] if not own else []:
            loop = loop_of(step)
            if loop is None or _made_in(frame, step, loop) or _cleared(loops, frame):
                continue
            if not any(within(call, loop) and loops.does(frame, call, "backward") for call in frame.calls):
                continue
            at = statement(step)
            stepped = step.args[0] if step.args and loops.is_scaler(receiver(step)) else receiver(step)
            name = ast.unparse(stepped)
            edits = (line_after(frame.source, at, f"{name}.zero_grad(set_to_none=True)"),) if alone(frame.source, at) else ()
            yield frame.source.fact("code.never_cleared", {"optimizer": name, "edits": edits}, at)
            break


def _steps_itself(node: ast.ClassDef) -> bool:
    methods = {one.name for one in node.body if isinstance(one, ast.FunctionDef)}
    return "step" in methods and bool(_CLEARS.search(ast.unparse(node)))


def _made_in(frame: Frame, step: ast.Call, loop: ast.stmt) -> bool:
    """Whether the loop makes the optimizer anew in each round."""
    name = ast.unparse(receiver(step))
    return any(
        within(node, loop) and any(ast.unparse(target) == name for target in node.targets)
        for node in frame.source.nodes(ast.Assign)
    )


def _cleared(loops: Loops, frame: Frame) -> bool:
    """Whether gradients are cleared in a function, below it or above it."""
    near = {frame.node: frame}
    for _ in range(2):
        for one in list(near.values()):
            for caller, _call in loops.callers(one):
                near.setdefault(caller.node, caller)
    for _ in range(3):
        for one in list(near.values()):
            for call in one.calls:
                for callee in loops.callees(one, call):
                    near.setdefault(callee.node, callee)
    return any(_CLEARS.search(_text(one)) for one in near.values())


def _text(frame: Frame) -> str:
    if isinstance(frame.node, ast.Module):
        return frame.source.text
    span = frame.source.span(frame.node)
    return frame.source.text[span.start : span.end]
