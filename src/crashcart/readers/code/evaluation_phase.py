"""Evaluations that build graphs in the midst of a function that trains as well.

model.eval()
for batch in val_loader:              between ``eval()`` and the training loop, and no ``no_grad`` round it
losses.append(step(batch, model))
model.train()
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from crashcart.readers.code._blocks import wrapped
from crashcart.readers.code._loops import loops_of, statement, within
from crashcart.readers.code.evaluation import DATA, GRADIENTS, HELD, called_model, models_of
from crashcart.readers.code.source import parent

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.model import Fact
    from crashcart.readers.code._loops import Frame, Loops
    from crashcart.readers.code.program import Program

__all__ = ["look"]


def look(program: Program) -> Iterator[Fact]:
    """``code.eval_with_graph``, as for a function of its own; the edit puts the loop under ``no_grad``."""
    loops = loops_of(program)
    for frame in loops.frames:
        if not frame.named("eval") or not any(loops.is_backward(call) for call in frame.calls):
            continue
        for loop in _phases(frame):
            forward = called_model(loops, frame, loop, models_of(frame))
            if forward is None or _switched(loops, frame, loop):
                continue
            known = frame.source.names.get("torch") == "torch"
            edits = wrapped(frame.source, loop, loop, ["with torch.no_grad():"], []) if known else ()
            value = {"function": frame.name or "the program", "edits": edits}
            yield frame.source.fact("code.eval_with_graph", value, forward)


def _phases(frame: Frame) -> Iterator[ast.For]:
    """The loops over data that follow an ``eval()`` in the same block, up to the next ``train()``."""
    for call in frame.named("eval"):
        put = statement(call)
        if not isinstance(put, ast.Expr) or put.value is not call or call.args:
            continue
        block = next((one for one in _blocks(parent(put)) if put in one), [])
        for one in block[block.index(put) + 1 :] if block else []:
            if isinstance(one, ast.Expr) and ast.unparse(one).endswith(".train()"):
                break
            if isinstance(one, ast.For) and DATA.search(ast.unparse(one.iter)):
                yield one


def _blocks(above: ast.AST | None) -> Iterator[list[ast.stmt]]:
    for name in ("body", "orelse", "finalbody"):
        block = getattr(above, name, None)
        if isinstance(block, list):
            yield block


def _switched(loops: Loops, frame: Frame, loop: ast.For) -> bool:
    """Whether the loop says anything about gradients, or stands in or calls what does."""
    node = frame.source.span(frame.node) if not isinstance(frame.node, ast.Module) else None
    text = frame.source.text[node.start : node.end] if node is not None else frame.source.text
    if GRADIENTS.search(text):
        return True
    inner = [call for call in frame.calls if within(call, loop)]
    return any(loops.does(frame, call, what) for call in inner for what in ("backward", "step", *HELD))
