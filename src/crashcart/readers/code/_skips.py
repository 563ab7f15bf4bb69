"""The changes that make a skipped batch harmless: tell the caller, close the scaler's record, decide on all ranks.

Each function gives edits, or nothing where the code is not shaped so that whole lines can be put in safely.
"""

from __future__ import annotations

import ast
import textwrap
from typing import TYPE_CHECKING

from crashcart.model import Edit, Span
from crashcart.readers.code._edits import alone, indent_of, line_after, line_before, replaced, step_in
from crashcart.readers.code._loops import last_name, loop_of, receiver, statement, within
from crashcart.readers.code.source import FUNCTIONS, name_of, parent

if TYPE_CHECKING:
    from collections.abc import Callable

    from crashcart.readers.code._finite import Branch
    from crashcart.readers.code._loops import Frame, Loops

__all__ = ["flagged", "otherwise", "together", "told", "updated"]

Edits = tuple[Edit, ...]


def told(loops: Loops, frame: Frame, leaves: list[ast.Return], caller: Frame, call: ast.Call) -> Edits:
    """The function says, wherever it leaves, that it left the batch out, and its caller leaves out the step."""
    at = statement(call)
    loop = loop_of(call)
    guarded = _guarded(loops, caller, at) if isinstance(loop, ast.While) else None
    out = _way_out(loop, caller) if guarded is None else ""
    if not leaves or not isinstance(frame.node, FUNCTIONS) or out is None:
        return ()
    if len(loops.callers(frame)) != 1 or not alone(caller.source, at) or getattr(at, "value", None) is not call:
        return ()
    returns = [node for node in frame.source.nodes(ast.Return) if loops.frame(node) is frame]
    answers = any(one not in leaves and one.value is not None and not _none(one.value) for one in returns)
    name = _fresh(caller, "finite" if not answers else "outcome")
    edits = (
        [replaced(frame.source, one, "return None") for one in leaves] if answers else _says_whether(frame, leaves, returns)
    )
    tail: list[str] = []
    start = caller.source.span(at).start
    if isinstance(at, ast.Expr):
        edits.append(Edit(Span(caller.source.path, start, start, at.lineno), f"{name} = "))
    elif isinstance(at, ast.Assign) and len(at.targets) == 1:
        target = at.targets[0]
        if isinstance(target, ast.Name):
            name = target.id
        else:
            edits.append(replaced(caller.source, target, name))
            tail = [f"{caller.source.written(target)} = {name}"]
    else:
        return ()
    if not answers and not isinstance(at, ast.Expr):
        return ()
    if guarded is not None:
        return (*edits, guarded(name)) if not answers else ()
    inner = step_in(caller.source)
    lines = [f"if {name} is None:" if answers else f"if not {name}:"]
    lines += [f"{inner}{line}" for line in [*_clearing(loops, caller), out]]
    edits.append(line_after(caller.source, at, *lines, *tail))
    return tuple(edits)


def _says_whether(frame: Frame, leaves: list[ast.Return], returns: list[ast.Return]) -> list[Edit]:
    """A function that answered nothing says whether the batch went backward."""
    edits = [replaced(frame.source, one, "return False" if one in leaves else "return True") for one in returns]
    last = frame.body[-1]
    if not isinstance(last, ast.Return):
        edits.append(line_after(frame.source, last, "return True", indent=indent_of(frame.source, last)))
    if isinstance(frame.node, FUNCTIONS) and frame.node.returns is not None and _none(frame.node.returns):
        edits.append(replaced(frame.source, frame.node.returns, "bool"))
    return edits


def _guarded(loops: Loops, caller: Frame, at: ast.stmt) -> Callable[[str], Edit] | None:
    """The scaler's calls after a statement put under a condition: a loop that counts its own steps must not be cut short."""
    block = getattr(parent(at), "body", [])
    later = block[block.index(at) + 1 :] if at in block else []
    calls = [call for call in caller.named("unscale_", "step", "update") if loops.is_scaler(receiver(call))]
    held = [number for number, one in enumerate(later) if any(within(call, one) for call in calls)]
    if not held or not all(alone(caller.source, one) for one in later[held[0] : held[-1] + 1]):
        return None
    first, last = later[held[0]], later[held[-1]]
    start, end = caller.source.offset(first.lineno, 0), caller.source.span(last).end
    blanks, inner = indent_of(caller.source, first), step_in(caller.source)
    text = "\n".join(f"{inner}{line}" if line.strip() else line for line in caller.source.text[start:end].split("\n"))
    return lambda name: Edit(Span(caller.source.path, start, end, first.lineno), f"{blanks}if {name}:\n{text}")


def updated(loops: Loops, frame: Frame, branch: Branch) -> Edits:
    """Close the scaler's record before the batch is left out, and clear the gradients that are no numbers."""
    leave = branch.bad[-1]
    unscale = next((call for call in frame.named("unscale_")), None)
    if unscale is None or not alone(frame.source, leave):
        return ()
    scaler = ast.unparse(receiver(unscale))
    clears = any(loops.does(frame, call, "zero_grad") for one in branch.bad for call in frame.calls if within(call, one))
    lines = ([] if clears else _clearing(loops, frame)) + [f"{scaler}.update()"]
    return (line_before(frame.source, leave, *lines),)


def flagged(loops: Loops, frame: Frame, loop: ast.stmt, calls: list[ast.Call]) -> Edits:
    """A loop over parts of a batch remembers whether any of them went backward; else the step is left out."""
    backward = next((call for call in calls if loops.does(frame, call, "backward")), None)
    out = _way_out(loop_of(loop), frame)
    if backward is None or out is None or not alone(frame.source, loop) or not alone(frame.source, statement(backward)):
        return ()
    name = _fresh(frame, "went_backward")
    inner = step_in(frame.source)
    clearing = [f"{inner}{line}" for line in _clearing(loops, frame)]
    noted = line_after(frame.source, statement(backward), f"{name} = True")
    asked = line_after(
        frame.source, loop, f"if not {name}:", *clearing, f"{inner}{out}", indent=indent_of(frame.source, loop)
    )
    if noted.span == asked.span:
        return line_before(frame.source, loop, f"{name} = False"), Edit(noted.span, noted.text + asked.text)
    return line_before(frame.source, loop, f"{name} = False"), noted, asked


def otherwise(loops: Loops, frame: Frame, branch: Branch) -> Edits:
    """Where the backward pass is left out, leave out the rest of the step too."""
    out = _way_out(loop_of(branch.node), frame)
    node = branch.node
    if out is None or branch.bad_is_true or not alone(frame.source, node):
        return ()
    inner = step_in(frame.source)
    lines = [f"{inner}{line}" for line in [*_clearing(loops, frame), out]]
    head = [] if node.orelse else ["else:"]
    if node.orelse and isinstance(node.orelse[0], ast.If):
        return ()
    return (line_after(frame.source, node, *head, *lines, indent=indent_of(frame.source, node)),)


def together(loops: Loops, frame: Frame, branch: Branch) -> Edits:
    """Let all ranks take the same branch: the worst answer of any of them counts for each."""
    node, source = branch.node, frame.source
    chained = isinstance(above := parent(node), ast.If) and node in above.orelse
    tensor = _tensor(loops, frame, branch)
    if tensor is None or chained or not alone(source, node) or source.names.get("torch") != "torch":
        return ()
    name = _fresh(frame, "skip" if branch.bad_is_true else "keep")
    worst = "MAX" if branch.bad_is_true else "MIN"
    inner = step_in(source)
    lines = (
        f"{name} = torch.tensor(float(bool({source.written(node.test)})), device={tensor}.device)",
        "if torch.distributed.is_available() and torch.distributed.is_initialized():",
        f"{inner}torch.distributed.all_reduce({name}, op=torch.distributed.ReduceOp.{worst})",
    )
    if "\n" in source.written(node.test):
        return ()
    return (line_before(source, node, *lines), replaced(source, node.test, f"{name}.item()"))


def _tensor(loops: Loops, frame: Frame, branch: Branch) -> str | None:
    """The name of the tensor that goes backward, where it is set before the branch."""
    for call in frame.calls:
        if not loops.is_backward(call):
            continue
        for one in ast.walk(call):
            if isinstance(one, ast.Name) and one.id in branch.names and _set_before(frame, one.id, branch.node):
                return one.id
    for one in ast.walk(branch.node.test):
        if isinstance(one, ast.Call) and last_name(one.func) == "item" and isinstance(receiver(one), ast.Name):
            return last_name(receiver(one))
    return None


def _set_before(frame: Frame, name: str, node: ast.If) -> bool:
    """Whether a name is set above a branch, or in its very test (``if not isfinite(loss := ...)``)."""
    return any(
        one.id == name and isinstance(one.ctx, ast.Store) and (one.lineno < node.lineno or within(one, node.test))
        for one in frame.source.nodes(ast.Name)
        if within(one, frame.node)
    )


def _way_out(loop: ast.AST | None, frame: Frame) -> str | None:
    """How the rest of a step is left out: the next batch of a loop over data, or the end of a function that answers nothing."""
    if isinstance(loop, (ast.For, ast.AsyncFor)):
        return "continue"
    if loop is None and isinstance(frame.node, FUNCTIONS):
        answers = [node for node in ast.walk(frame.node) if isinstance(node, ast.Return) and node.value is not None]
        return None if answers else "return"
    return None


def _clearing(loops: Loops, frame: Frame) -> list[str]:
    """The lines that clear the gradients, as this function or a method that it calls does it, or from what is stepped."""
    methods = [one for call in frame.calls for one in loops.callees(frame, call) if one.owner is frame.owner is not None]
    for one in [frame, *methods]:
        for call in [*one.named("zero_grad"), *(step for step in one.calls if loops.is_step(step))]:
            lines = _cleared_by(loops, one, call)
            if lines and (one is frame or "self." in lines[0]):
                return lines
    for call in frame.calls:
        for one in loops.callees(frame, call):
            if lines := _through(frame, call, one):
                return lines
    return []


def _through(frame: Frame, call: ast.Call, method: Frame) -> list[str]:
    """The same by way of the object whose method clears: ``self.opt.zero_grad()`` of ``self.amp`` is ``self.amp.opt.zero_grad()``."""
    if method.owner is None or method.owner is frame.owner or not isinstance(call.func, ast.Attribute):
        return []
    through = name_of(call.func.value)
    for one in method.named("zero_grad"):
        at = statement(one)
        on = name_of(receiver(one))
        plain = isinstance(at, ast.Expr) and at.value is one and not one.args and alone(method.source, at)
        if plain and through and on.startswith("self."):
            given = ", ".join(ast.unparse(word) for word in one.keywords if isinstance(word.value, ast.Constant))
            return [f"{through}.{on.removeprefix('self.')}.zero_grad({given})"]
    return []


def _cleared_by(loops: Loops, frame: Frame, call: ast.Call) -> list[str]:
    at = statement(call)
    if not isinstance(at, ast.Expr) or at.value is not call:
        return []
    if last_name(call.func) == "zero_grad":
        line = frame.source.written(at)
    else:
        stepped = call.args[0] if call.args and loops.is_scaler(receiver(call)) else receiver(call)
        line = f"{ast.unparse(stepped)}.zero_grad(set_to_none=True)"
    around = parent(at)
    if isinstance(around, ast.For) and not loop_over_data(around):
        return [f"for {ast.unparse(around.target)} in {ast.unparse(around.iter)}:", f"{step_in(frame.source)}{line}"]
    return textwrap.dedent(line).split("\n")


def loop_over_data(loop: ast.For) -> bool:
    """Whether a loop does more than one thing, as one over optimizers does not."""
    return len(loop.body) > 1


def _fresh(frame: Frame, name: str) -> str:
    used = {one.id for one in frame.source.nodes(ast.Name) if within(one, frame.node)}
    return name if name not in used else f"{name}_batch"


def _none(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and node.value is None
