"""What a stretch of code keeps of the losses that it computes, in what, and how it would keep the number alone."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from crashcart.readers.code._edits import replaced
from crashcart.readers.code._keepers import handed, stores
from crashcart.readers.code._loops import last_name, receiver, within
from crashcart.readers.code.source import parents

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.model import Edit
    from crashcart.readers.code._callers import Callers
    from crashcart.readers.code._loops import Frame

__all__ = ["cut_off", "edits_for", "handed_over", "sources", "uses", "went_backward"]

_CUTS = {"item", "detach", "detach_", "float", "tolist", "numpy", "no_grad", "inference_mode"}
_ADDS = ("append", "appendleft", "extend")
_COPIES = {"dict", "copy", "list", "tuple"}
_COUNTS = re.compile(r"(?i)step|iter|idx|index|epoch|^i$|^it$|batch")


def went_backward(call: ast.Call) -> set[str]:
    """The names of what goes backward: ``loss`` of ``scaler.scale(loss / n).backward()`` and ``accelerator.backward(loss)``."""
    inner: list[ast.AST] = list(call.args)
    at = receiver(call)
    inner += [at] if not isinstance(at, ast.Call) else at.args
    if isinstance(at, ast.Attribute) and call.args:
        inner = list(call.args)
    return {one.id for node in inner for one in ast.walk(node) if isinstance(one, ast.Name) and one.id != "self"}


def sources(frame: Frame, names: set[str], region: ast.AST) -> set[str]:
    """Those names, and what one was taken from: ``loss = out["loss"]``, ``loss = out.loss``."""
    found = set(names)
    for node in frame.source.nodes(ast.Assign):
        if not within(node, region) or not isinstance(node.value, (ast.Subscript, ast.Attribute)):
            continue
        if any(isinstance(target, ast.Name) and target.id in names for target in node.targets):
            found |= {at.id for at in [node.value.value] if isinstance(at, ast.Name) and _by_name(node.value)} - {"self"}
    return found


def _by_name(node: ast.Subscript | ast.Attribute) -> bool:
    return isinstance(node.slice, ast.Constant) if isinstance(node, ast.Subscript) else "loss" in node.attr


def uses(frame: Frame, region: ast.AST) -> Iterator[tuple[ast.expr, str]]:
    """What is appended, added or put under the number of a step, and to what."""
    for call in frame.named(*_ADDS):
        if within(call, region) and len(call.args) == 1:
            yield from ((one, ast.unparse(receiver(call))) for one in _parts(call.args[0]))
    for node in frame.source.nodes(ast.AugAssign):
        if within(node, region) and isinstance(node.op, ast.Add):
            yield from ((one, ast.unparse(node.target)) for one in _parts(node.value))
    for plain in frame.source.nodes(ast.Assign):
        if not within(plain, region):
            continue
        target = plain.targets[0]
        if isinstance(plain.value, ast.BinOp) and isinstance(plain.value.op, ast.Add):
            both = plain.value
            for one, other in ((both.left, both.right), (both.right, both.left)):
                if ast.unparse(other) == ast.unparse(target):
                    yield from ((part, ast.unparse(target)) for part in _parts(one))
        elif isinstance(target, ast.Subscript) and _COUNTS.search(last_name(target.slice)):
            yield from ((part, ast.unparse(target.value)) for part in _parts(plain.value))


def _parts(given: ast.expr) -> list[ast.expr]:
    """A value, or the values in a mapping, a row or a copy: ``{"loss": loss}``, ``(step, loss)``, ``dict(out)``."""
    if isinstance(given, ast.Dict):
        return list(given.values)
    if isinstance(given, (ast.List, ast.Tuple)):
        return list(given.elts)
    if isinstance(given, ast.Call) and last_name(given.func) in _COPIES:
        return list(given.args) or [at for at in [receiver(given)] if isinstance(at, ast.Name)]
    return [given]


def handed_over(callers: Callers, frame: Frame, region: ast.AST, losses: set[str]) -> Iterator[tuple[ast.expr, str]]:
    """What is given to a function of the program that keeps it: ``self.log.update(loss=loss)``, ``meter.update(loss)``."""
    for call in frame.calls:
        given = [*call.args, *(word.value for word in call.keywords)]
        if not within(call, region) or not any(isinstance(one, ast.Name) and one.id in losses for one in given):
            continue
        meant = callers.meant(frame.source, call)
        for _, function in meant if len(meant) == 1 else ():
            yield from ((value, holder) for name, value in handed(function, call) for holder in stores(function, name)[:1])


def cut_off(frame: Frame, kept: ast.Name, region: ast.AST) -> bool:
    """Whether the name was last set to something without a graph, or stands where no graph is made."""
    before = [
        node
        for node in frame.source.nodes(ast.Assign)
        if within(node, region)
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


def edits_for(frame: Frame, kept: ast.Name, region: ast.AST) -> tuple[Edit, ...]:
    """The value without its graph; of a mapping of losses each of its tensors."""
    mapping = any(
        isinstance(node.value, ast.Name) and node.value.id == kept.id and within(node, region)
        for node in frame.source.nodes(ast.Subscript)
    )
    if mapping:
        tensor = "torch.is_tensor(value)" if frame.source.names.get("torch") == "torch" else 'hasattr(value, "detach")'
        each = f"value.detach() if {tensor} else value"
        return (replaced(frame.source, kept, f"{{key: {each} for key, value in {kept.id}.items()}}"),)
    if kept.id in sources(frame, {"loss", "losses"}, region) - {"loss", "losses"}:
        return ()  # an object with a loss among its parts: how to keep the rest of it only its author knows
    return (replaced(frame.source, kept, f"{kept.id}.detach()"),)
