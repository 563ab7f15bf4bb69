"""Losses and outputs that are kept over the steps together with their graphs: memory on the device grows with every step.

history.append(loss)        a list that was there before the training loop, and that nothing empties
running += loss             a sum that no round of the loop begins anew

What was detached, or turned into a number, has no graph. A sum that goes backward itself is meant to have one.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from crashcart.readers.code.edits import replaced
from crashcart.readers.interpreter.trace import Call, Write
from crashcart.readers.interpreter.values import Choice, Instance, Unknown
from crashcart.readers.rules._growth import deep_tags, growths, holder_text, is_bounded

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.model import Edit, Fact
    from crashcart.readers.code.source import Source
    from crashcart.readers.interpreter.execution import Execution
    from crashcart.readers.interpreter.trace import Event, Region
    from crashcart.readers.interpreter.values import Value


def look(execution: Execution) -> Iterator[Fact]:
    """``code.graph_kept``: what is kept, in what, and the edit that cuts it off."""
    if execution.is_cut_short:
        return  # what was not followed may empty the list
    seen: set[int] = set()
    for event, value, holder in (*_in_containers(execution), *_in_sums(execution)):
        place, expression = _handed_over(execution, event)
        if id(place.node) in seen:
            continue
        seen.add(id(place.node))
        kept = place.source.written(expression) if expression is not None else "a loss"
        edits = _detached(place.source, expression, value) if expression is not None else ()
        yield place.fact("code.graph_kept", {"kept": kept, "holder": holder, "edits": edits})


def _in_containers(execution: Execution) -> Iterator[tuple[Event, Value, str]]:
    for growth in growths(execution):
        loop = _training_loop(execution, growth.event)
        if loop is None or not growth.outlives(loop) or "graph" not in deep_tags(execution, growth.value):
            continue
        if not _is_alternative(growth.event) and not is_bounded(
            execution, growth.container, growth.event.region.loops()[-1]
        ):
            yield growth.event, growth.value, holder_text(growth.event)


def _in_sums(execution: Execution) -> Iterator[tuple[Event, Value, str]]:
    """``running += loss`` and ``self.total = self.total + loss``."""
    for write in execution.trace.writes:
        if not _adds_to_itself(write) or "graph" not in write.value.tags or isinstance(write.value, Choice):
            continue
        loop = _training_loop(execution, write)
        if loop is not None and not _outlives(write, loop):
            continue
        if loop is None or _goes_backward(execution, write) or _begins_anew(execution, write, loop):
            continue
        if _adds_an_argument(execution, write) and not _was_given_a_graph(write):
            continue
        yield write, write.value, holder_text(write)


def _training_loop(execution: Execution, event: Event) -> Region | None:
    """The nearest loop around something in which the model is trained."""
    loops = [region for region in event.region.loops() if execution.is_training_loop(region)]
    return loops[0] if loops else None


def _outlives(write: Write, loop: Region) -> bool:
    """Whether what is added to was there before the loop: a name of the function around it, or an object that was made before it."""
    if isinstance(write.owner, Instance):
        return write.owner.call is not None and write.owner.call.number <= loop.number
    for region in write.region.above():
        if region is loop:
            return True
        if region.kind in {"call", "maybe", "module"}:
            return False
    return False


def _is_alternative(event: Event) -> bool:
    """Whether it is one of several things that a call may mean."""
    return any(region.kind == "branch" and region.node is event.node for region in event.region.above())


def _adds_to_itself(write: Write) -> bool:
    node = write.node
    if isinstance(node, ast.AugAssign):
        return isinstance(node.op, ast.Add)
    if not isinstance(node, ast.Assign) or not isinstance(node.value, ast.BinOp) or not isinstance(node.value.op, ast.Add):
        return False
    target = ast.unparse(node.targets[0])
    return target in {ast.unparse(node.value.left), ast.unparse(node.value.right)}


def _adds_an_argument(execution: Execution, write: Write) -> bool:
    """Whether what is added is made of nothing but the arguments of the function that adds it, as in a meter."""
    call, added = next(write.calls_above(), None), _kept_expression(execution, write)
    if call is None or call.function is None or added is None:
        return False
    parameters = call.function.node.args
    names = {each.arg for each in (*parameters.posonlyargs, *parameters.args, *parameters.kwonlyargs)}
    return {part.id for part in ast.walk(added) if isinstance(part, ast.Name)} <= names - {"self"}


def _was_given_a_graph(write: Write) -> bool:
    """Whether an argument has a graph: the sum so far may have one by what was followed before all was known of a loop."""
    call = next(write.calls_above())
    return any("graph" in argument.tags for argument in (*call.arguments, *call.keywords.values()))


def _goes_backward(execution: Execution, write: Write) -> bool:
    """Whether the sum itself goes backward, as a loss of several parts does."""
    holder = holder_text(write)
    return any(
        isinstance(call.node, ast.Call)
        and isinstance(call.node.func, ast.Attribute)
        and call.source is write.source
        and any(
            isinstance(part, (ast.Name, ast.Attribute)) and call.source.written(part) == holder
            for part in ast.walk(call.node)
        )
        for call in execution.backwards
    )


def _begins_anew(execution: Execution, write: Write, loop: Region) -> bool:
    """Whether a round of the loop gives the name another value: 0, or what was detached."""
    others = [each for each in execution.trace.writes if each is not write and each.name == write.name]
    return any(
        each.owner is write.owner and loop.holds(each.region) and not _adds_to_itself(each) and each.source is write.source
        for each in others
    )


# ---- where it is handed over, and the edit


def _handed_over(execution: Execution, event: Event) -> tuple[Event, ast.expr | None]:
    """The place where the program hands the value to whoever keeps it, and the expression there.

    A meter of the program's own keeps what it is given: the place to change is the call in the training loop.
    """
    place, expression = event, _kept_expression(execution, event)
    for call in event.calls_above():
        if call.function is None or call.region.kind == "maybe":
            break
        arguments = [*call.arguments, *call.keywords.values()]
        with_graph = [argument for argument in arguments if "graph" in argument.tags]
        if not with_graph or not isinstance(call.node, ast.Call):
            break
        handed = _argument_expression(call, with_graph[0])
        if handed is None:
            break
        place, expression = call, handed
    return place, expression


def _argument_expression(call: Call, value: Value) -> ast.expr | None:
    node = call.node
    assert isinstance(node, ast.Call)  # noqa: S101 - asked by the caller
    for name, argument in call.keywords.items():
        if argument is value:
            return next((keyword.value for keyword in node.keywords if keyword.arg == name), None)
    offset = len(call.arguments) - len(node.args)  # the receiver comes first
    position = next((number for number, argument in enumerate(call.arguments) if argument is value), None)
    if position is None or not 0 <= position - offset < len(node.args) or offset not in {0, 1}:
        return None
    return node.args[position - offset]


def _kept_expression(execution: Execution, event: Event) -> ast.expr | None:
    node = event.node
    if isinstance(event, Call) and isinstance(node, ast.Call) and node.args:
        expression: ast.expr | None = node.args[-1]
        values = [event.arguments[-1]] if event.arguments else []
    elif isinstance(node, ast.AugAssign):
        expression, values = node.value, []
    elif isinstance(node, ast.Assign) and isinstance(node.value, ast.BinOp) and isinstance(event, Write):
        target = ast.unparse(node.targets[0])
        expression = node.value.right if ast.unparse(node.value.left) == target else node.value.left
        values = []
    elif isinstance(node, ast.Assign):
        expression, values = node.value, []
    else:
        return None
    if isinstance(expression, (ast.Tuple, ast.List)) and values:
        items = execution.items(values[0])
        pairs = zip(expression.elts, items, strict=False)
        return next((part for part, item in pairs if "graph" in deep_tags(execution, item)), expression)
    return expression


def _detached(source: Source, expression: ast.expr, value: Value) -> tuple[Edit, ...]:
    """The value without its graph; of a mapping of losses each of its tensors."""
    if not isinstance(expression, (ast.Name, ast.Attribute, ast.Subscript)):
        return ()
    text = source.written(expression)
    if isinstance(value, Unknown) and value.kind == "mapping":
        tensor = "torch.is_tensor(value)" if source.names.get("torch") == "torch" else 'hasattr(value, "detach")'
        each = f"value.detach() if {tensor} else value"
        return (replaced(source, expression, f"{{key: {each} for key, value in {text}.items()}}"),)
    return (replaced(source, expression, f"{text}.detach()"),)
