"""Evaluations that build graphs: ``model.eval()``, a loop over a loader, the model called, and no ``torch.no_grad()`` anywhere.

``eval()`` switches dropout off and nothing else. A ``no_grad`` counts wherever it is: in the function, as its decorator, in
what it calls to have its output, round the call in a caller or in the caller's caller. Hooks of Lightning and of the
Hugging Face Trainer are called under one.
"""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from crashcart.readers.code._edits import line_before
from crashcart.readers.code._loops import last_name, loops_of, receiver, within
from crashcart.readers.code.source import FUNCTIONS, parents

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.model import Fact
    from crashcart.readers.code._loops import Frame, Loops
    from crashcart.readers.code.program import Program

__all__ = ["DATA", "GRADIENTS", "HELD", "called_model", "look", "models_of"]

HELD = {"no_grad", "inference_mode", "set_grad_enabled", "set_grad", "_no_grad"}
DATA = re.compile(r"load|data|batch|iter|_dl\b|valid|val_|test|split", re.IGNORECASE)
GRADIENTS = re.compile(r"requires_grad|autograd|enable_grad|\.grad\b|no_grad|inference_mode")
_HOOKS = re.compile(
    r"^(?:validation|test|predict|training)_(?:step|epoch_end)$|^on_|^(?:evaluate|predict|prediction)_(?:step|loop)$|^evaluation_loop$"
)


def look(program: Program) -> Iterator[Fact]:
    """``code.eval_with_graph``: such a function, whether what it gets is kept with its graph, and the decorator as an edit."""
    loops = loops_of(program)
    if not any(loops.is_backward(call) for frame in loops.frames for call in frame.calls):
        return  # nothing trains here: what is not kept costs nothing worth telling
    for frame in loops.frames:
        if not isinstance(frame.node, FUNCTIONS) or not frame.named("eval") or _HOOKS.search(frame.name):
            continue
        forward = _forward(loops, frame)
        if forward is None or _has_gradients(loops, frame) or _held_above(loops, frame):
            continue
        decorated = frame.node.decorator_list
        first = min([frame.node.lineno, *(one.lineno for one in decorated)])
        known = frame.source.names.get("torch") == "torch"
        edits = (line_before(frame.source, frame.node, "@torch.no_grad()", first=first),) if known else ()
        yield frame.source.fact("code.eval_with_graph", {"function": frame.name, "edits": edits}, forward)


def _forward(loops: Loops, frame: Frame) -> ast.Call | None:
    """The call of the model that was put into evaluation, in a loop over data."""
    models = models_of(frame)
    for loop in frame.source.nodes(ast.For):
        if within(loop, frame.node) and DATA.search(ast.unparse(loop.iter)):
            call = called_model(loops, frame, loop, models)
            if call is not None:
                return call
    return None


def models_of(frame: Frame) -> set[str]:
    """What is put into evaluation in a function."""
    return {
        ast.unparse(receiver(call)) for call in frame.named("eval") if not call.args and isinstance(call.func, ast.Attribute)
    } - {"pd", "self.df", "df"}


def called_model(loops: Loops, frame: Frame, loop: ast.For, models: set[str]) -> ast.Call | None:
    """The call in a loop that runs one of the models, itself or in what it calls."""
    for call in frame.calls:
        if not within(call, loop) or within(call, loop.iter):
            continue
        if ast.unparse(call.func) in models:
            return call
        if any(ast.unparse(one) in models for one in call.args) and loops.callees(frame, call):
            return call
        if any(_calls(callee, models) for callee in loops.callees(frame, call)):
            return call
    return None


def _calls(method: Frame, models: set[str]) -> bool:
    """Whether a method of the same object calls its model: ``self.loss(batch)`` with ``self.model(x)`` in it."""
    own = {model for model in models if model.startswith("self.")}
    return any(ast.unparse(call.func) in own for call in method.calls)


def _has_gradients(loops: Loops, frame: Frame) -> bool:
    """Whether the function, or what it calls, says anything about gradients: goes backward, asks for them, switches them off."""
    span = frame.source.span(frame.node) if isinstance(frame.node, FUNCTIONS) else None
    if span is None or GRADIENTS.search(frame.source.text[span.start : span.end]) or loops.inside(frame, "backward"):
        return True
    decorators = frame.node.decorator_list if isinstance(frame.node, FUNCTIONS) else []
    if any(last_name(getattr(one, "func", one)) in HELD for one in decorators):
        return True
    return any(loops.inside(frame, name) for name in HELD) or "@torch.jit" in ast.unparse(frame.node)[:200]


def _held_above(loops: Loops, frame: Frame, depth: int = 3) -> bool:
    """Whether every place that calls it is under ``no_grad``, or none is seen: then a framework may call it under one."""
    sites = [(caller, call) for caller, call in loops.callers(frame) if caller is not frame]
    if not sites:
        return True
    return all(
        _under(call)
        or _decorated(caller)
        or (
            depth > 0
            and isinstance(caller.node, FUNCTIONS)
            and bool(loops.callers(caller))
            and _held_above(loops, caller, depth - 1)
        )
        for caller, call in sites
    )


def _under(call: ast.Call) -> bool:
    for above in parents(call):
        if isinstance(above, (ast.With, ast.AsyncWith)):
            names = {last_name(getattr(item.context_expr, "func", item.context_expr)) for item in above.items}
            if names & HELD:
                return True
        if isinstance(above, FUNCTIONS):
            return False
    return False


def _decorated(frame: Frame) -> bool:
    decorators = frame.node.decorator_list if isinstance(frame.node, FUNCTIONS) else []
    return any(last_name(getattr(one, "func", one)) in HELD for one in decorators)
