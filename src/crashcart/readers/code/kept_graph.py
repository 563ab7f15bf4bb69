"""Losses that are kept over the steps with the graph that made them: ``losses.append(loss)``, ``total += loss``.

Only what goes backward in the same loop is meant, and only where it is kept in something that lives longer than the loop's
body and does not go backward itself; a meter or a log of the program that keeps what it is handed is followed. ``loss.item()``,
``loss.detach()``, ``float(loss)`` and a name that was set to one of them before are fine.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from crashcart.readers.code._callers import callers_of
from crashcart.readers.code._kept_values import cut_off, edits_for, handed_over, sources, uses, went_backward
from crashcart.readers.code._loops import loop_of, loops_of, receiver, within
from crashcart.readers.code.source import FUNCTIONS, inside

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.model import Fact
    from crashcart.readers.code._callers import Callers
    from crashcart.readers.code._loops import Frame, Loops
    from crashcart.readers.code.program import Program


def look(program: Program) -> Iterator[Fact]:
    """``code.graph_kept``: what is kept and in what, with the edit that cuts it off."""
    loops, callers = loops_of(program), callers_of(program)
    for frame in loops.frames:
        for call in [one for one in frame.calls if loops.is_backward(one)]:
            loop = loop_of(call)
            if loop is not None and any(within(one, loop) and loops.does(frame, one, "step") for one in frame.calls):
                yield from _kept(callers, loops, frame, went_backward(call), loop)
        for names, around in _answered(loops, frame):
            yield from _kept(callers, loops, frame, names, around)


def _answered(loops: Loops, frame: Frame) -> Iterator[tuple[set[str], ast.stmt]]:
    """What a step of the program's own went backward with and hands to the loop: ``loss = train_step(batch)``."""
    for call in frame.calls:
        loop, above = loop_of(call), getattr(call, "parent", None)
        if loop is None or not isinstance(above, ast.Assign):
            continue
        meant = loops.callees(frame, call)
        if len(meant) != 1 or not any(loops.is_backward(one) for one in meant[0].calls):
            continue
        target = above.targets[0]
        to = target.elts if isinstance(target, ast.Tuple) else [target]
        found = {one.id for at, one in enumerate(to) if isinstance(one, ast.Name) and _hands(loops, meant[0], at, len(to))}
        if found:
            yield found, loop


def _hands(loops: Loops, step: Frame, at: int, of: int) -> bool:
    """Whether every answer of a step has at this place what went backward, with its graph."""
    backward = {name for call in step.calls if loops.is_backward(call) for name in went_backward(call)}
    answers = [node.value for node in step.source.nodes(ast.Return) if inside(node, *FUNCTIONS) is step.node]
    for answer in answers:
        parts = answer.elts if isinstance(answer, ast.Tuple) else [answer]
        one = parts[at] if len(parts) == of else None
        if not isinstance(one, ast.Name) or one.id not in backward or cut_off(step, one, step.node):
            return False
    return bool(answers)


def _kept(callers: Callers, loops: Loops, frame: Frame, names: set[str], loop: ast.stmt) -> Iterator[Fact]:
    losses = sources(frame, names, loop)
    others = {name for call in frame.calls if loops.is_backward(call) for name in went_backward(call)}
    for kept, holder in (*uses(frame, loop), *handed_over(callers, frame, loop, losses)):
        if not isinstance(kept, ast.Name) or kept.id not in losses or holder in others or holder in losses:
            continue
        if _in_loop(frame, holder, loop) or cut_off(frame, kept, loop):
            continue
        value = {"kept": kept.id, "holder": holder, "edits": edits_for(frame, kept, loop)}
        yield frame.source.fact("code.graph_kept", value, kept)


def _in_loop(frame: Frame, holder: str, loop: ast.stmt) -> bool:
    """Whether the holder is made anew, emptied, or used to go on with, in each round of the loop."""
    for node in frame.source.nodes(ast.Assign):
        if within(node, loop) and any(ast.unparse(target) == holder for target in node.targets):
            value = node.value
            if not (isinstance(value, ast.BinOp) and holder in {ast.unparse(value.left), ast.unparse(value.right)}):
                return True
    return any(
        within(call, loop) and ast.unparse(receiver(call)) == holder for call in frame.named("clear", "pop", "popleft")
    )
