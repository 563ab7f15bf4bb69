"""What a training loop does with a loss that is not finite.

Leaving a batch out is right only where everything that follows it is left out too. Three ways go wrong: the function returns
before ``backward()`` and its caller steps the scaler all the same (``No inf checks were recorded``); the loop goes on after
``unscale_`` without ``update`` (the next ``unscale_`` is refused); one rank leaves out a backward pass that the others make.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any

from crashcart.readers.code import _skips
from crashcart.readers.code._finite import branches
from crashcart.readers.code._loops import after, last_name, loop_of, loops_of, receiver, statement, within
from crashcart.readers.code._scaler import enabled
from crashcart.readers.code.source import parents

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.model import Fact
    from crashcart.readers.code._finite import Branch
    from crashcart.readers.code._loops import Frame, Loops
    from crashcart.readers.code.program import Program

_LEAVES = (ast.Return, ast.Continue, ast.Break)


def look(program: Program) -> Iterator[Fact]:
    """``code.nonfinite_skip``: what is left out when a value is not finite, and what is done all the same."""
    loops = loops_of(program)
    for frame in loops.frames:
        if not (loops.inside(frame, "backward") or frame.named("unscale_")):
            continue
        for branch in branches(loops, frame):
            found = _seen(loops, frame, branch)
            if found is not None:
                found.update(together=branch.together, distributed=loops.distributed, enabled=enabled(loops))
                found["edits_together"] = _skips.together(loops, frame, branch)
                at = found.pop("at", branch.node)
                yield frame.source.fact("code.nonfinite_skip", found, at)


def _seen(loops: Loops, frame: Frame, branch: Branch) -> dict[str, Any] | None:
    if not branch.bad or any(_stops(node) for one in branch.bad for node in ast.walk(one)):
        return _guarded(loops, frame, branch) if not branch.bad else None
    calls = [call for call in frame.calls if any(within(call, one) for one in branch.bad)]
    if any(loops.does(frame, call, "backward") for call in calls):
        return None
    leave = branch.bad[-1]
    if not isinstance(leave, _LEAVES):
        return _guarded(loops, frame, branch)
    loop = loop_of(leave) if not isinstance(leave, ast.Return) else None
    region = loop or frame.node
    left_out = [call for call in after(frame.calls, branch.node) if within(call, region)]
    if _unscaled(loops, frame, branch, left_out, calls):
        edits = _skips.updated(loops, frame, branch)
        return {"what": "unscaled", "exit": _word(leave), "at": leave, "edits": edits, "before_backward": False}
    if not any(loops.does(frame, call, "backward") for call in left_out):
        return None
    found: dict[str, Any] = {"what": "skipped", "exit": _word(leave), "at": leave, "edits": (), "before_backward": True}
    if _scaler_steps(loops, frame, left_out):
        return found
    if loop is not None:
        steps = [
            call
            for call in _scaler_steps(loops, frame, after(frame.calls, loop))
            if within(call, loop_of(loop) or frame.node)
        ]
        if steps and not _remembered(frame, loop, steps[0]):
            edits = _skips.flagged(loops, frame, loop, left_out)
            found.update(what="stepped", step=frame.source.evidence(steps[0]), edits=edits)
        return found
    left = _left_to_callers(loops, frame, branch)
    if left is not None:
        caller, call, step = left
        ends = [one.bad[-1] for one in branches(loops, frame) if one.bad]
        edits = _skips.told(loops, frame, [one for one in ends if isinstance(one, ast.Return)], caller, call)
        found.update(what="stepped", step=caller.source.evidence(step), edits=edits)
    return found


def _guarded(loops: Loops, frame: Frame, branch: Branch) -> dict[str, Any] | None:
    """``if isfinite(loss): backward()`` and a step of the scaler that is taken whether or not."""
    fine = [call for call in frame.calls if any(within(call, one) for one in branch.fine)]
    if not any(loops.does(frame, call, "backward") for call in fine):
        return None
    found: dict[str, Any] = {"what": "skipped", "exit": "if", "edits": (), "before_backward": True}
    if any(loops.does(frame, call, "step") for call in fine):
        return found
    loop = loop_of(branch.node)
    steps = [
        call for call in _scaler_steps(loops, frame, after(frame.calls, branch.node)) if within(call, loop or frame.node)
    ]
    if steps:
        edits = _skips.otherwise(loops, frame, branch)
        found.update(what="stepped", step=frame.source.evidence(steps[0]), edits=edits)
    return found


def _left_to_callers(loops: Loops, frame: Frame, branch: Branch, depth: int = 2) -> tuple[Frame, ast.Call, ast.Call] | None:
    """A caller that steps the scaler after the call and does not look at its answer."""
    told = {ast.unparse(target) for one in branch.bad for node in ast.walk(one) if isinstance(node, ast.Assign)
            for target in node.targets}  # fmt: skip
    for caller, call in loops.callers(frame):
        at = statement(call)
        loop = loop_of(call)
        steps = [one for one in _scaler_steps(loops, caller, after(caller.calls, at)) if within(one, loop or caller.node)]
        if not steps:
            if isinstance(at, ast.Return) and depth:
                above = _left_to_callers(loops, caller, branch, depth - 1)
                if above is not None:
                    return above
            continue
        if not _honoured(caller, call, steps[0], told):
            return caller, call, steps[0]
    return None


def _honoured(caller: Frame, call: ast.Call, step: ast.Call, told: set[str]) -> bool:
    """Whether the caller looks at what the function answered before it steps."""
    at = statement(call)
    if isinstance(at, (ast.If, ast.While)):
        return True
    names = set(told)
    if isinstance(at, (ast.Assign, ast.AnnAssign)):
        targets = at.targets if isinstance(at, ast.Assign) else [at.target]
        names |= {one.id for target in targets for one in ast.walk(target) if isinstance(one, ast.Name)}
        names |= {ast.unparse(target) for target in targets}
    elif not told:
        return False
    return _looked_at(caller, at, step, names)


def _remembered(frame: Frame, loop: ast.stmt, step: ast.Call) -> bool:
    """Whether something that the loop sets decides about the step after it."""
    stored = {
        ast.unparse(one)
        for one in ast.walk(loop)
        if isinstance(one, (ast.Name, ast.Attribute)) and isinstance(one.ctx, ast.Store)
    }
    return _looked_at(frame, loop, step, stored)


def _looked_at(frame: Frame, at: ast.stmt, step: ast.Call, names: set[str]) -> bool:
    """Whether a branch between a statement and a step asks one of these names, and holds the step or leaves."""
    for node in frame.source.nodes(ast.If):
        if node.lineno < (at.end_lineno or at.lineno) or node.lineno > step.lineno or not within(node, frame.node):
            continue
        words = {ast.unparse(one) for one in ast.walk(node.test) if isinstance(one, (ast.Name, ast.Attribute))}
        if words & names and (within(step, node) or any(_leaves(one) for one in node.body)):
            return True
    return False


def _leaves(node: ast.stmt) -> bool:
    return any(isinstance(one, (*_LEAVES, ast.Raise)) or _stops(one) for one in ast.walk(node))


def _stops(node: ast.AST) -> bool:
    """Whether a statement ends the program."""
    if isinstance(node, ast.Raise):
        return True
    return isinstance(node, ast.Call) and last_name(node.func) in {"exit", "_exit", "abort", "quit"}


def _unscaled(loops: Loops, frame: Frame, branch: Branch, left_out: list[ast.Call], calls: list[ast.Call]) -> bool:
    """Whether the scaler's record stays open: ``unscale_`` came before, ``update`` is left out."""
    loop = loop_of(branch.node)
    before = [
        call
        for call in frame.named("unscale_")
        if call.lineno < branch.node.lineno and within(call, loop or frame.node) and _on_the_way(call, branch.node)
    ]
    updates = [call for call in left_out if last_name(call.func) == "update" and loops.is_scaler(receiver(call))]
    closed = [call for call in calls if last_name(call.func) == "update" and loops.is_scaler(receiver(call))]
    return bool(before and updates and not closed)


def _on_the_way(call: ast.Call, node: ast.If) -> bool:
    """Whether a call stands on the path to a branch: in the same block, or in a block around it."""
    blocks = [one for one in parents(call) if isinstance(one, (ast.If, ast.ExceptHandler))]
    return all(within(node, block) or _only_guards_scaler(block) for block in blocks)


def _only_guards_scaler(block: ast.AST) -> bool:
    """``if scaler is not None:``, ``if args.clip:``: a branch that the settings decide, the same in each step."""
    return isinstance(block, ast.If) and not any(isinstance(one, (ast.Mod, ast.Call)) for one in ast.walk(block.test))


def _scaler_steps(loops: Loops, frame: Frame, calls: list[ast.Call]) -> list[ast.Call]:
    return [call for call in calls if loops.does(frame, call, "scaler_step")]


def _word(leave: ast.stmt) -> str:
    return {ast.Return: "return", ast.Continue: "continue", ast.Break: "break"}[type(leave)]
