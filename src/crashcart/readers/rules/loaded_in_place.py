"""Checkpoints that every rank loads to the card they were saved from.

Without ``map_location`` a tensor that was saved from ``cuda:0`` goes to ``cuda:0``, whichever rank loads it: every rank then holds the
whole checkpoint on one card, beside the training. With the state of the optimizer that is three times the model.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from crashcart.model import Edit, Span
from crashcart.readers.interpreter.values import Constant, Value

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.model import Fact
    from crashcart.readers.interpreter.execution import Execution
    from crashcart.readers.interpreter.trace import Call


def look(execution: Execution) -> Iterator[Fact]:
    """``code.loaded_in_place``: such a load of model and optimizer by all ranks, with ``map_location="cpu"`` put into it."""
    if execution.ranks == 1 or any(name.startswith("torch_xla") for name in execution.trace.by_name):
        return  # of torch_xla, what is saved comes from the host
    seen: set[int] = set()
    for call in execution.trace.named("torch.load"):
        is_placed = call.argument(1, "map_location") is not None or not call.complete
        if is_placed or call.region.ranks() or id(call.node) in seen:
            continue
        if _restores_optimizer(execution, call) and not _was_just_saved(execution, call):
            seen.add(id(call.node))
            yield call.fact("code.loaded_in_place", {"edits": _to_host(call)})


def _restores_optimizer(execution: Execution, call: Call) -> bool:
    """Whether an optimizer gets its state back from what is loaded here, and something else too."""
    tag = f"loaded:{call.number}"
    restored = [
        each
        for each in execution.trace.methods("load_state_dict")
        if any(tag in value.tags for value in (*each.arguments, *each.keywords.values()))
    ]
    optimizers = [each for each in restored if execution.is_optimizer(each.receiver)]
    return bool(optimizers) and len(restored) > len(optimizers)


def _was_just_saved(execution: Execution, call: Call) -> bool:
    """Whether the program saved it itself a moment before: state that is put aside stays where it is."""
    path = call.argument(0, "f")
    return any(
        _is_same(save.argument(1, "f"), path) and save.number < call.number for save in execution.trace.named("torch.save")
    )


def _is_same(one: Value | None, other: Value | None) -> bool:
    if isinstance(one, Constant) and isinstance(other, Constant):
        return bool(one.value == other.value)
    return one is other and one is not None


def _to_host(call: Call) -> tuple[Edit, ...]:
    node, source = call.node, call.source
    if not isinstance(node, ast.Call) or not node.args:
        return ()
    end = source.offset(node.args[-1].end_lineno or node.lineno, node.args[-1].end_col_offset or 0)
    return (Edit(Span(source.path, end, end, node.lineno), ', map_location="cpu"'),)
