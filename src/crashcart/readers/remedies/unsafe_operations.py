"""Operations of the program that are not finite everywhere, where its values or gradients became NaN: each kept from that edge.

Where a batch was looked into tells where to look: with finite inputs it was what leads to the loss, with others what prepares the data.
A loss that had grown before says that the steps were too large; then an operation is no reason.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from crashcart.account import NOT_FINITE
from crashcart.causes.numerics._recorded import broken_losses, had_finite_inputs, has_usual_loss
from crashcart.causes.numerics._series import climbing
from crashcart.causes.numerics.diverged import IMPOSSIBLE_RATE, INFINITE_GRADIENT
from crashcart.deaths import first
from crashcart.readers.code.safe_arithmetic import leading_to_the_loss, safer, unsafe_masks, unsafe_operations
from crashcart.readers.remedies._scene import remedy

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from crashcart.model import Fact
    from crashcart.readers.code.safe_arithmetic import Operation
    from crashcart.readers.code.source import Function, Source
    from crashcart.readers.remedies._scene import Scene

_CAUSES = ("numerics/diverged", "numerics/bad-data", "silent/masked-nan")
_MOST = 3


def look(scene: Scene) -> Iterator[Fact]:
    """The likely operations, at most three; with more of them nobody knows which it was."""
    if _had_grown(scene) or not _lost_numbers(scene):
        return
    found = _found(scene, unsafe_operations) or _found(scene, unsafe_masks)
    for source, operation, is_in_loss in found[:_MOST]:
        if is_in_loss and operation.name != "masked_fill":
            yield source.fact(INFINITE_GRADIENT, {"operation": operation.name}, operation.node)
    if not 0 < len(found) <= _MOST:
        return
    source, operation, _ = found[0]
    written = "; ".join(dict.fromkeys(" ".join(source.written(each.node).split()) for source, each, _ in found))
    title = "Keep the argument of this operation away from 0"
    why = f"`{written}` or its gradient is not finite if its argument is 0 (or 1); for other values it is the same up to rounding"
    if operation.name == "masked_fill":
        title = "Mask with a finite number"
        why = (
            f"`{written}`: a softmax over only minus infinity is NaN; with the smallest finite number all outputs are equal"
        )
    edits = [edit for source, each, _ in found for edit in safer(source, each)]
    yield from remedy(_CAUSES, title, "changes-training", why, edits, source.evidence(operation.node))


def _lost_numbers(scene: Scene) -> bool:
    """Whether anything says that numbers were lost; code alone does not."""
    leader = first(scene.case)
    says = leader is not None and leader.says(NOT_FINITE)
    printed = any(value - value != 0 for metric in scene.case.log.metrics for _, value in metric.values)
    return scene.case.flight is None or says or printed or bool(broken_losses(scene.case))


def _had_grown(scene: Scene) -> bool:
    """Whether the loss had grown before it was no number any more, or the rate is beyond what any optimizer can use."""
    broken = broken_losses(scene.case)
    rate = scene.case.number("train.learning_rate")
    return (
        (bool(broken) and not has_usual_loss(broken[0]))
        or climbing(scene.case) is not None
        or (rate or 0.0) >= IMPOSSIBLE_RATE
    )


def _found(scene: Scene, unsafe: Callable[[Source, Function], Iterator[Operation]]) -> list[tuple[Source, Operation, bool]]:
    """The operations with their files, likeliest first, and whether they lead to the loss."""
    in_loss, inputs = leading_to_the_loss(scene.sources), [broken.event for broken in broken_losses(scene.case)][:1]
    found = [
        (source, operation, not in_loss or id(function) in in_loss)
        for source in scene.sources
        for function in source.functions
        for operation in unsafe(source, function)
        if not _is_only_shown(operation.node)
    ]
    for event in inputs:
        if had_finite_inputs(event):
            found = [each for each in found if each[2]]
        elif event.details.get("fields"):
            found = [each for each in found if not each[2]]
    found = [each for each in found if each[2] or each[1].weight == 0 or each[1].name.startswith("log")]
    return sorted(found, key=lambda each: (not each[2], each[1].weight))


def _is_only_shown(node: ast.AST) -> bool:
    """Whether a value only goes into a message or is only compared."""
    above = getattr(node, "parent", None)
    while above is not None and not isinstance(above, ast.stmt):
        if isinstance(above, ast.JoinedStr) or (
            isinstance(above, ast.Call) and ast.unparse(above.func) in {"print", "float", "math.exp"}
        ):
            return True
        above = getattr(above, "parent", None)
    return False
