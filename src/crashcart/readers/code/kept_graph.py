"""Losses that are kept over the steps with the graph that made them: ``losses.append(loss)``, ``total += loss``.

Only what goes backward in the same loop is meant, and only where it is kept in something that lives longer than the loop's
body and does not go backward itself; a meter or a log of the program that keeps what it is handed is followed. ``loss.item()``, ``loss.detach()``, ``float(loss)`` and a name that was set to one of
them before are fine.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from crashcart.readers.code._callers import callers_of
from crashcart.readers.code._edits import replaced
from crashcart.readers.code._keepers import handed, stores
from crashcart.readers.code._loops import last_name, loop_of, loops_of, receiver, within
from crashcart.readers.code.source import parents

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.model import Edit, Fact
    from crashcart.readers.code._callers import Callers
    from crashcart.readers.code._loops import Frame, Loops
    from crashcart.readers.code.program import Program

_CUTS = {"item", "detach", "detach_", "float", "tolist", "numpy", "no_grad", "inference_mode"}


def look(program: Program) -> Iterator[Fact]:
    """``code.graph_kept``: what is kept and in what, with the edit that cuts it off."""
    loops, callers = loops_of(program), callers_of(program)
    for frame in loops.frames:
        for call in [one for one in frame.calls if loops.is_backward(one)]:
            loop = loop_of(call)
            if loop is not None and any(within(one, loop) and loops.does(frame, one, "step") for one in frame.calls):
                yield from _kept(callers, loops, frame, call, loop)


def _kept(callers: Callers, loops: Loops, frame: Frame, backward: ast.Call, loop: ast.stmt) -> Iterator[Fact]:
    losses = _sources(frame, _went_backward(backward), loop)
    others = {name for call in frame.calls if loops.is_backward(call) for name in _went_backward(call)}
    for kept, holder in (*_uses(frame, loop), *_handed_over(callers, frame, loop, losses)):
        if not isinstance(kept, ast.Name) or kept.id not in losses or holder in others or holder in losses:
            continue
        if _in_loop(frame, holder, loop) or _cut_off(frame, kept, loop):
            continue
        value = {"kept": kept.id, "holder": holder, "edits": _edits(frame, kept, loop)}
        yield frame.source.fact("code.graph_kept", value, kept)


def _went_backward(call: ast.Call) -> set[str]:
    """The names of what goes backward: ``loss`` of ``scaler.scale(loss / n).backward()`` and ``accelerator.backward(loss)``."""
    inner: list[ast.AST] = list(call.args)
    at = receiver(call)
    inner += [at] if not isinstance(at, ast.Call) else at.args
    if isinstance(at, ast.Attribute) and call.args:
        inner = list(call.args)
    return {one.id for node in inner for one in ast.walk(node) if isinstance(one, ast.Name) and one.id != "self"}


def _sources(frame: Frame, names: set[str], loop: ast.stmt) -> set[str]:
    """Those names, and the mapping that one was taken from: ``loss = out["loss"]``."""
    found = set(names)
    for node in frame.source.nodes(ast.Assign):
        if not within(node, loop) or not isinstance(node.value, ast.Subscript):
            continue
        if any(isinstance(target, ast.Name) and target.id in names for target in node.targets):
            base = node.value.value
            found |= {base.id} if isinstance(base, ast.Name) and isinstance(node.value.slice, ast.Constant) else set()
    return found


def _uses(frame: Frame, loop: ast.stmt) -> Iterator[tuple[ast.expr, str]]:
    """What is appended or added in a loop, and to what."""
    for call in frame.named("append"):
        if within(call, loop) and len(call.args) == 1:
            given = call.args[0]
            for one in given.values if isinstance(given, ast.Dict) else [given]:
                yield one, ast.unparse(receiver(call))
    for node in frame.source.nodes(ast.AugAssign):
        if within(node, loop) and isinstance(node.op, ast.Add):
            yield node.value, ast.unparse(node.target)
    for plain in frame.source.nodes(ast.Assign):
        if within(plain, loop) and isinstance(plain.value, ast.BinOp) and isinstance(plain.value.op, ast.Add):
            target, both = ast.unparse(plain.targets[0]), plain.value
            for one, other in ((both.left, both.right), (both.right, both.left)):
                if ast.unparse(other) == target:
                    yield one, target


def _handed_over(callers: Callers, frame: Frame, loop: ast.stmt, losses: set[str]) -> Iterator[tuple[ast.expr, str]]:
    """What is given to a function of the program that keeps it: ``self.log.update(loss=loss)``, ``meter.update(loss)``."""
    for call in frame.calls:
        given = [*call.args, *(word.value for word in call.keywords)]
        if not within(call, loop) or not any(isinstance(one, ast.Name) and one.id in losses for one in given):
            continue
        meant = callers.meant(frame.source, call)
        for _, function in meant if len(meant) == 1 else ():
            yield from ((value, holder) for name, value in handed(function, call) for holder in stores(function, name)[:1])


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


def _cut_off(frame: Frame, kept: ast.Name, loop: ast.stmt) -> bool:
    """Whether the name was last set to something without a graph, or stands where no graph is made."""
    before = [
        node
        for node in frame.source.nodes(ast.Assign)
        if within(node, loop)
        and node.lineno < kept.lineno
        and any(isinstance(target, ast.Name) and target.id == kept.id for target in node.targets)
    ]
    if before and any(isinstance(one, ast.Call) and last_name(one.func) in _CUTS for one in ast.walk(before[-1].value)):
        return True
    withs = [one for one in parents(kept) if isinstance(one, (ast.With, ast.AsyncWith))]
    return any(
        isinstance(one, ast.Call) and last_name(one.func) in _CUTS
        for above in withs
        for item in above.items
        for one in ast.walk(item.context_expr)
    )


def _edits(frame: Frame, kept: ast.Name, loop: ast.stmt) -> tuple[Edit, ...]:
    """The value without its graph; of a mapping of losses each of its tensors."""
    mapping = any(
        isinstance(node.value, ast.Name) and node.value.id == kept.id and within(node, loop)
        for node in frame.source.nodes(ast.Subscript)
    )
    if not mapping:
        return (replaced(frame.source, kept, f"{kept.id}.detach()"),)
    if frame.source.names.get("torch") != "torch":
        return ()
    each = "value.detach() if torch.is_tensor(value) else value"
    return (replaced(frame.source, kept, f"{{key: {each} for key, value in {kept.id}.items()}}"),)
