"""Batches that each rank leaves out by itself, by what the batch holds: ``if src.numel() > max_tokens: continue``.

The ranks have other batches, so that one leaves out a backward pass in which the others wait, or pairs its gradients with those of
another step. A test of a number that all ranks agreed on, or of the number of the round, is the same everywhere.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from crashcart.readers.code.source import parents
from crashcart.readers.rules._rounds import training_rounds, ways_through
from crashcart.readers.rules._scaler_state import is_step_event, kind_of
from crashcart.readers.rules._skip_edits import Skip
from crashcart.readers.rules._statements import know_parents
from crashcart.readers.rules.nonfinite_loss import SPREADING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.model import Fact
    from crashcart.readers.interpreter.execution import Execution
    from crashcart.readers.interpreter.trace import Leave, Region


def look(execution: Execution) -> Iterator[Fact]:
    """``code.batch_left_out``: the test by which a rank leaves out its batch, and the edit with which all do it together."""
    if not execution.trace.named(*SPREADING):
        return
    for loop in training_rounds(execution):
        know_parents(loop.events())
        for leave in execution.trace.leaves:
            test = _test_of_batch(leave, loop)
            backwards = [call for call in execution.backwards if loop.holds(call.region) and call.number > leave.number]
            if test is None or not backwards:
                continue
            ways = [
                way for way in ways_through(loop, is_step_event) if any(kind_of(event) == "backward" for event in way.events)
            ]
            edits = (
                Skip(execution, loop, ways[0], leave.source, test).decide_together(test, bad_is_true=True) if ways else ()
            )
            yield leave.source.fact("code.batch_left_out", {"edits": edits}, test)
            return


def _test_of_batch(leave: Leave, loop: Region) -> ast.If | None:
    """The test of a ``continue`` in the body of a training loop that asks about what the loop got for this round."""
    region = leave.region
    if leave.kind != "continue" or region.kind != "branch" or region.parent is not loop or region.test is None:
        return None
    node = loop.node
    test = next((above for above in parents(leave.node) if isinstance(above, ast.If)), None)
    if (
        {"agreed", "finite"} & region.test.tags
        or test is None
        or leave.node not in test.body
        or not isinstance(node, ast.For)
    ):
        return None
    asked = {name.id for name in ast.walk(test.test) if isinstance(name, ast.Name)}
    return test if asked & _names_of_batch(node) else None


def _names_of_batch(loop: ast.For) -> set[str]:
    """The names that a round gets, without the number of an ``enumerate``."""
    target = loop.target
    is_counted = (
        isinstance(loop.iter, ast.Call) and isinstance(loop.iter.func, ast.Name) and loop.iter.func.id == "enumerate"
    )
    parts = target.elts[1:] if is_counted and isinstance(target, ast.Tuple) else [target]
    return {name.id for part in parts for name in ast.walk(part) if isinstance(name, ast.Name)}
