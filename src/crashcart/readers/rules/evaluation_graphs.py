"""Evaluations that build graphs as training does: a model in evaluation mode that runs over data outside of ``no_grad``.

Each batch then keeps its activations until its results are gone. Loops in which anything goes backward, or in which gradients are asked
for, need their graphs; frozen models build none.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from crashcart.readers.code.edits import line_before, wrapped
from crashcart.readers.interpreter.trace import Call, Region
from crashcart.readers.interpreter.values import Constant, Container, Instance, Result, Unknown, constant_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.model import Edit, Fact
    from crashcart.readers.interpreter.execution import Execution
    from crashcart.readers.interpreter.trace import Event

_GRADIENTS = frozenset({"backward", "grad", "requires_grad_", "enable_grad", "vjp", "jacobian", "retain_grad"})


def look(execution: Execution) -> Iterator[Fact]:
    """``code.eval_with_graph``: the function that evaluates, and the edit that switches gradients off in it."""
    if not execution.backwards or _is_switched_off(execution):
        return
    modes = sorted(_modes(execution))
    frozen = {
        id(call.receiver) for call in execution.trace.methods("requires_grad_") if constant_of(call.argument(0)) is False
    }
    seen: set[int] = set()
    for call in execution.trace.calls:
        if not _runs_model(execution, call) or any(_runs_model(execution, above) for above in call.calls_above()):
            continue
        loop = _evaluation_loop(execution, call)
        if loop is None or id(loop.node) in seen or not _in_evaluation(modes, call) or id(_model(call)) in frozen:
            continue
        if any(isinstance(event, Call) and event.method in _GRADIENTS for event in loop.events()):
            continue
        seen.add(id(loop.node))
        place = _place_in(loop, call)
        name = _function_around(loop)
        value = {"function": name.name if name is not None else "the program", "edits": _edits(loop)}
        yield place.fact("code.eval_with_graph", value)


def _is_switched_off(execution: Execution) -> bool:
    """Whether the program switches gradients off for all that follows."""
    return any(
        constant_of(call.argument(0)) is False and not isinstance(call.node, ast.withitem)
        for call in execution.trace.methods("set_grad_enabled")
    )


def _modes(execution: Execution) -> Iterator[tuple[int, bool]]:
    """When models are put into evaluation (true) and back into training."""
    for call in execution.trace.methods("eval", "train"):
        if (
            call.function is None
            and call.name != "eval"
            and call.receiver is not None
            and not call.name.startswith("pandas.")
        ):
            yield call.number, call.method == "eval" or constant_of(call.argument(0, "mode"), True) is False


def _in_evaluation(modes: list[tuple[int, bool]], call: Call) -> bool:
    before = [is_evaluation for number, is_evaluation in modes if number < call.number]
    return bool(before) and before[-1]


def _runs_model(execution: Execution, call: Call) -> bool:
    """Whether a call runs a model and makes a graph."""
    if "graph" not in call.result.tags or _records_none(call.region):
        return False
    if call.function is not None:
        owner = call.function.owner
        return call.method == "forward" and owner is not None and owner.is_a("Module", "LightningModule")
    if call.method == "__call__" and isinstance(call.receiver, Instance):
        return call.receiver.cls.is_a("Module", "LightningModule")
    if call.name.startswith("torch.nn.") and call.method == "__call__":
        return ".modules.loss." not in call.name and not call.name.removesuffix(".__call__").endswith("Loss")
    if not call.name.startswith("?"):
        return False
    callables = execution.interpreter.callables
    return any(
        callables[number][0] is call.receiver and callables[number][1] == call.name
        for number in execution.interpreter.models
    )


def _records_none(region: Region) -> bool:
    """Whether torch records no graph in a region: what a model gave before, with its graph, stands for what it gives there."""
    contexts = [each.value for each in region.above() if each.kind == "with"]
    return any(isinstance(value, Result) and value.name in {"torch.no_grad", "torch.inference_mode"} for value in contexts)


def _model(call: Call) -> object:
    return call.arguments[0] if call.function is not None and call.arguments else call.receiver


def _evaluation_loop(execution: Execution, call: Call) -> Region | None:
    """The outermost loop over data around a call that is no loop of the training."""
    found: Region | None = None
    for region in call.region.above():
        if region.kind in {"maybe", "thread", "worker"}:
            return None
        if region.kind == "loop":
            if execution.is_training_loop(region):
                break
            if _is_fed(execution, region):
                found = region
    return found


def _is_fed(execution: Execution, loop: Region) -> bool:
    """Whether a loop goes over data: a loader, or something that is no range and no list of the program's own."""
    inner = execution.underlying(loop.iterable)
    is_tensor = isinstance(inner, Unknown) and {"tensor", "graph"} & inner.tags
    if inner is None or isinstance(inner, (Constant, Container)) or is_tensor:
        return False
    return not (
        isinstance(inner, Result) and inner.name in {"range", "tqdm.trange", "torch.nn.ModuleList", "torch.nn.Sequential"}
    )


def _place_in(loop: Region, call: Call) -> Event:
    """The call in the loop's own function that leads to the model."""
    place: Event = call
    for above in call.calls_above():
        if not loop.holds(above.region):
            break
        place = above
    return place


def _function_around(loop: Region) -> ast.FunctionDef | ast.AsyncFunctionDef | None:
    for region in loop.above():
        if region.kind in {"call", "maybe"} and region.call is not None and region.call.function is not None:
            node = region.call.function.node
            return node if not isinstance(node, ast.Lambda) else None
    return None


def _edits(loop: Region) -> tuple[Edit, ...]:
    """``@torch.no_grad()`` on a function that only evaluates, else a ``with`` around the loop."""
    source = loop.source
    if source.names.get("torch") != "torch" or not isinstance(loop.node, (ast.For, ast.While)):
        return ()
    function = _function_around(loop)
    body = next((region for region in loop.above() if region.kind == "call"), None)
    trains = body is None or any(isinstance(event, Call) and event.method in {"backward", "step"} for event in body.events())
    if function is not None and not trains:
        first = min([function.lineno, *(decorator.lineno for decorator in function.decorator_list)])
        return (line_before(source, function, "@torch.no_grad()", first=first),)
    return wrapped(source, loop.node, loop.node, ["with torch.no_grad():"], [])
