"""An optimizer whose gradients are unscaled twice before its step: once to look at their norms, once to clip them.

Each of the two may stand in a function of its own. Only calls that are made in any case count, in the block of the step.
"""

from __future__ import annotations

import ast
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from crashcart.model import Edit, Span
from crashcart.readers.code._edits import alone
from crashcart.readers.code._loops import last_name, receiver, statement
from crashcart.readers.code.source import parents

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.readers.code._loops import Frame, Loops
    from crashcart.readers.code.source import Source

__all__ = ["blocks_of", "unscaled_again", "whole_lines"]


def unscaled_again(loops: Loops, frame: Frame, steps: list[ast.Call]) -> Iterator[tuple[dict[str, Any], ast.Call]]:
    """Two ``unscale_`` of one optimizer in one block, each made in any case and no ``update`` between them."""
    for step in steps:
        stepped = ast.unparse(step.args[0]) if step.args else ""
        block = next((body for body in blocks_of(statement(step)) if statement(step) in body), [])
        before = block[: block.index(statement(step))] if block else []
        found = [
            one
            for at in before
            if isinstance(at, (ast.Expr, ast.Assign, ast.AnnAssign))
            for one in ast.walk(at)
            if isinstance(one, ast.Call) and _unscales(loops, frame, one, stepped)
        ]
        updates = [call.lineno for call in frame.named("update") if loops.is_scaler(receiver(call))]
        for first, second in pairwise(found):
            if not any(first.lineno <= line <= second.lineno for line in updates):
                yield {"what": "unscaled_again", "edits": _dropped(loops, frame, second)}, second
                return


def _dropped(loops: Loops, frame: Frame, call: ast.Call) -> tuple[Edit, ...]:
    """The second ``unscale_`` taken away, also out of a function that is called from nowhere else."""
    home, inner = frame, call
    if last_name(call.func) != "unscale_":
        callees = loops.callees(frame, call)
        if len(callees) != 1 or len(loops.callers(callees[0])) != 1:
            return ()
        home, inner = callees[0], callees[0].named("unscale_")[0]
    at = statement(inner)
    lone = isinstance(at, ast.Expr) and at.value is inner and alone(home.source, at)
    several = any(at in body and len(body) > 1 for body in blocks_of(at))
    return (Edit(whole_lines(home.source, at), ""),) if lone and several else ()


def _unscales(loops: Loops, frame: Frame, call: ast.Call, optimizer: str) -> bool:
    """Whether a call unscales an optimizer in any case: itself, or a function that is given it and does so first of all."""
    if last_name(call.func) == "unscale_":
        return bool(call.args) and ast.unparse(call.args[0]) == optimizer
    for callee in loops.callees(frame, call):
        inner = [
            one.value
            for one in callee.body
            if isinstance(one, ast.Expr) and isinstance(one.value, ast.Call) and last_name(one.value.func) == "unscale_"
        ]
        named = {ast.unparse(one) for one in (*call.args, *(word.value for word in call.keywords))}
        own = any(one.args and ast.unparse(one.args[0]) == optimizer for one in inner)
        if inner and (optimizer in named or (own and optimizer.startswith("self."))):
            return True
    return False


def whole_lines(source: Source, node: ast.stmt) -> Span:
    """The whole lines of a statement."""
    last = node.end_lineno or node.lineno
    end = source.offset(last, 0) + len(source.line(last)) + 1
    return Span(source.path, source.offset(node.lineno, 0), end, node.lineno)


def blocks_of(node: ast.stmt) -> Iterator[list[ast.stmt]]:
    """The blocks of the statement above, one of which holds this one."""
    above = next(iter(parents(node)))
    for part in ("body", "orelse", "finalbody"):
        yield getattr(above, part, [])
