"""The order in which a training loop calls its gradient scaler.

``unscale_`` in every micro-step while ``update`` comes once for several; clipping gradients that are still multiplied by the
scale; ``step`` without any ``update`` in the whole program. Classes that wrap a scaler keep their own order and are left
alone, and so are functions that only hand the scaler on.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any

from crashcart.model import Edit, Span
from crashcart.readers.code._edits import alone, indent_of, line_after, line_before, step_in
from crashcart.readers.code._loops import last_name, loop_of, loops_of, receiver, statement, within
from crashcart.readers.code._operands import operand
from crashcart.readers.code._scaler import enabled
from crashcart.readers.code._unscaled_again import blocks_of, unscaled_again, whole_lines
from crashcart.readers.code.source import name_of, parents

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from crashcart.model import Fact
    from crashcart.readers.code._loops import Frame, Loops
    from crashcart.readers.code.program import Program

_CLIPS = ("clip_grad_norm_", "clip_grad_norm", "clip_grad_value_")


def look(program: Program) -> Iterator[Fact]:
    """``code.scaler_order``: what is out of order, where, and what decides about it."""
    loops = loops_of(program)
    for frame in loops.frames:
        steps = [call for call in frame.named("step") if loops.is_step(call) and loops.is_scaler(receiver(call))]
        if not steps or "scaler" in (frame.owner.name.lower() if frame.owner is not None else ""):
            continue
        for seen, call in [one for rule in RULES for one in rule(loops, frame, steps)]:
            seen["enabled"] = enabled(loops)
            yield frame.source.fact("code.scaler_order", seen, statement(call))


def _twice(loops: Loops, frame: Frame, steps: list[ast.Call]) -> Iterator[tuple[dict[str, Any], ast.Call]]:
    """``unscale_`` outside of the branch in which the same loop steps."""
    for call in frame.named("unscale_"):
        loop = loop_of(call)
        for step in steps:
            branch = _branch(step, loop)
            if loop is None or branch is None or not within(step, loop) or within(call, branch) or _branch(call, loop):
                continue
            every = _every(branch.test)
            yield (
                {
                    "what": "unscaled_twice",
                    "every": operand(loops, frame, every) if every is not None else {"name": "", "number": None},
                    "edits": _moved(loops, frame, call, branch),
                },
                call,
            )
            break


def _branch(call: ast.Call, loop: ast.AST | None) -> ast.If | None:
    """The branch around a call, within a loop, that is taken once in several steps."""
    for above in parents(call):
        if above is loop:
            return None
        if isinstance(above, ast.If) and _every(above.test) is not None and not within(call, above.test):
            return above
    return None


def _every(test: ast.expr) -> ast.expr | None:
    """The n of ``(step + 1) % n == 0``."""
    for one in ast.walk(test):
        if isinstance(one, ast.BinOp) and isinstance(one.op, ast.Mod):
            return one.right
    return None


def _moved(loops: Loops, frame: Frame, call: ast.Call, branch: ast.If) -> tuple[Edit, ...]:
    """``unscale_``, and the clipping that follows it, moved into the branch; what else stands between stays where it is."""
    source = frame.source
    first = statement(call)
    block = next((body for body in blocks_of(first) if first in body), [])
    if branch not in block or block.index(branch) < block.index(first):
        return ()
    between = block[block.index(first) : block.index(branch)]
    moved = [one for one in between if one is first or _clips(loops, frame, one)]
    stays = [one for one in between if one not in moved]
    if _tied(moved, [*stays, branch.test, *branch.orelse, *block[block.index(branch) + 1 :]]) or _tied(stays, moved):
        return ()  # what was made there is used where it would not be made in each step
    if not all(alone(source, one) for one in [*between, *branch.body]):
        return ()
    inner = branch.body[0]
    more = indent_of(source, inner)[len(indent_of(source, first)) :]
    at = source.offset(inner.lineno, 0)
    spans = [whole_lines(source, one) for one in moved]
    text = "".join(
        f"{more}{line}\n" if line.strip() else "\n"
        for span in spans
        for line in source.text[span.start : span.end - 1].split("\n")
    )
    return *(Edit(span, "") for span in spans), Edit(Span(source.path, at, at, inner.lineno), text)


def _tied(makers: list[ast.stmt], users: Sequence[ast.AST]) -> bool:
    """Whether something uses a name that one of these statements sets."""
    made = {name_of(node) for one in makers for node in ast.walk(one) if isinstance(getattr(node, "ctx", None), ast.Store)}
    used = {name_of(node) for one in users for node in ast.walk(one) if isinstance(node, (ast.Name, ast.Attribute))}
    return bool(made & used)


def _clips(loops: Loops, frame: Frame, node: ast.stmt) -> bool:
    """Whether a statement clips gradients, itself or by a function of the program, and is no loop of its own."""
    calls = [one for one in ast.walk(node) if isinstance(one, ast.Call)]
    trains = any(loops.does(frame, one, what) for one in calls for what in ("backward", "step"))
    return any(_is_clip(loops, frame, one) for one in calls) and not trains and not isinstance(node, ast.While)


def _is_clip(loops: Loops, frame: Frame, call: ast.Call) -> bool:
    return any(loops.does(frame, call, name) for name in _CLIPS)


def _unclipped(loops: Loops, frame: Frame, steps: list[ast.Call]) -> Iterator[tuple[dict[str, Any], ast.Call]]:
    """A clipping of gradients before the scaler's step, with no ``unscale_`` in the function or in what it calls."""
    if any(loops.inside(other, "unscale_") for other, _ in loops.callers(frame)):
        return
    if loops.inside(frame, "unscale_"):
        yield from _too_late(loops, frame, steps)
        return
    for clip in [call for call in frame.calls if _is_clip(loops, frame, call)]:
        later = [step for step in steps if step.lineno > clip.lineno and _same_round(step, clip)]
        if not later or not later[0].args:
            continue
        at = statement(clip)
        lines = [f"{ast.unparse(receiver(later[0]))}.unscale_({ast.unparse(later[0].args[0])})"]
        each = loop_of(later[0])
        if each is not loop_of(clip) and isinstance(each, ast.For):
            head = f"for {ast.unparse(each.target)} in {ast.unparse(each.iter)}:"
            lines = [head, f"{step_in(frame.source)}{lines[0]}"]
        edits = (line_before(frame.source, at, *lines),) if alone(frame.source, at) else ()
        yield {"what": "clipped_scaled", "edits": edits}, clip
        return


def _too_late(loops: Loops, frame: Frame, steps: list[ast.Call]) -> Iterator[tuple[dict[str, Any], ast.Call]]:
    """A clipping with its ``unscale_`` below it in the same block: the two statements have changed places."""
    unscales = [call for call in frame.calls if loops.does(frame, call, "unscale_")]
    for clip in [call for call in frame.calls if _is_clip(loops, frame, call)]:
        at = statement(clip)
        block = next((body for body in blocks_of(at) if at in body), [])
        below = [one for one in unscales if statement(one) in block[block.index(at) + 1 :]] if at in block else []
        above = [one for one in unscales if one not in below]
        if not below or above or not any(step.lineno > below[0].lineno for step in steps):
            continue
        late = statement(below[0])
        edits: tuple[Edit, ...] = ()
        if (
            isinstance(late, ast.Expr)
            and alone(frame.source, late)
            and alone(frame.source, at)
            and late.lineno == late.end_lineno
        ):
            edits = line_before(frame.source, at, frame.source.written(late)), Edit(whole_lines(frame.source, late), "")
        yield {"what": "clipped_scaled", "edits": edits}, clip
        return


def _same_round(step: ast.Call, clip: ast.Call) -> bool:
    """Whether the scaler steps in the same round of a loop as the clipping, for one optimizer or for each of several."""
    loop = loop_of(step)
    if loop is loop_of(clip):
        return True
    named = {one.id for given in step.args for one in ast.walk(given) if isinstance(one, ast.Name)}
    several = isinstance(loop, ast.For) and isinstance(loop.target, ast.Name) and loop.target.id in named
    return several and loop_of(loop) is loop_of(clip) if loop is not None else False


def _no_update(loops: Loops, frame: Frame, steps: list[ast.Call]) -> Iterator[tuple[dict[str, Any], ast.Call]]:
    """A scaler that steps in a loop and that nothing in the program ever updates."""
    for step in steps:
        name = last_name(receiver(step))
        updated = any(last_name(receiver(call)) == name for other in loops.frames for call in other.named("update"))
        if updated or (loop_of(step) is None and not loops.callers(frame)) or _handed_on(loops, name):
            continue
        at = statement(step)
        edits = (line_after(frame.source, at, f"{name_of(receiver(step))}.update()"),) if alone(frame.source, at) else ()
        yield {"what": "never_updated", "edits": edits}, step
        return


def _handed_on(loops: Loops, name: str) -> bool:
    """Whether a scaler is given to code that is not the program's own, which may update it."""
    for frame in loops.frames:
        for call in frame.calls:
            given = [*call.args, *(one.value for one in call.keywords)]
            if any(last_name(one) == name for one in given) and not loops.callees(frame, call):
                return True
    return False


RULES = (_twice, unscaled_again, _unclipped, _no_update)
