"""Batches that are cut into parts of ``len(batch) // n`` samples each.

Where the batch holds fewer samples than there are parts, every part is empty; where it does not divide, samples are lost in
each step. ``split(len(x) // n)`` and ``range(0, len(x), len(x) // n)`` fail outright with a size of 0. Whether a program looks after
the rest is tried: it is followed once more with a batch that does not divide.
"""

from __future__ import annotations

import ast
import math
from typing import TYPE_CHECKING, Any

from crashcart.readers.interpreter.intervals import bounds_of
from crashcart.readers.interpreter.values import Unknown, constant_of
from crashcart.readers.rules._chunk_edits import cut_without_loss
from crashcart.readers.rules._settings import evidence_of
from crashcart.readers.rules._statements import know_parents, statement_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.model import Fact
    from crashcart.readers.interpreter.execution import Execution
    from crashcart.readers.interpreter.trace import Division, Slice

_MOST_SAMPLES = 1 << 20
_NEAR = 2  # calls around: the function that cuts, and the one that asks for the parts


def look(execution: Execution) -> Iterator[Fact]:
    """``code.chunks``: how many parts, of what, how they are cut, and the edits that cut without loss."""
    divisions = {division.node: division for division in execution.trace.divisions if _is_of_training(execution, division)}
    if not divisions:
        return
    know_parents(divisions.values())
    counts = {node: constant_of(division.parts) for node, division in divisions.items()}
    whole = math.lcm(*(count for count in counts.values() if type(count) is int and count > 1))
    again = execution.follow_with_samples(2 * whole - 1) if 1 < whole < _MOST_SAMPLES else execution
    for node, division in divisions.items():
        is_step, count = _is_step(execution, division), counts[node]
        slices = _slices(execution, division) if not is_step else []
        if type(count) is not int or count < 1 or not (slices or is_step):
            continue
        later = next((each for each in again.trace.divisions if each.node is node), None)
        if slices and count > 1 and (later is None or not _loses(again, later, 2 * whole - 1)):
            continue
        yield division.source.fact("code.chunks", _describe(execution, division, slices), statement_of(node))


def _describe(execution: Execution, division: Division, slices: list[Slice]) -> dict[str, Any]:
    counted = division.counted
    size = counted.bound if isinstance(counted, Unknown) and counted.kind == "batch" else None
    node = division.node
    return {
        "form": "slices" if slices else "step",
        "parts": constant_of(division.parts),
        "parts_text": division.source.written(node.right) if isinstance(node, ast.BinOp) else "",
        "batch": constant_of(size),
        "places": evidence_of(division.parts, size),
        "edits": cut_without_loss(execution, division, slices),
    }


def _is_of_training(execution: Execution, division: Division) -> bool:
    """Whether the number of parts is no number of the code itself, and the parts go backward near by."""
    node = division.node
    if not isinstance(node, ast.BinOp) or isinstance(node.right, ast.Constant):
        return False
    around = [region for region in division.region.above() if region.kind == "call"][:_NEAR]
    return execution.is_training(division) or any(
        region.holds(call.region) for region in around for call in execution.backwards
    )


def _slices(execution: Execution, division: Division) -> list[Slice]:
    """The slices of what was counted, which are made in the same round."""
    return [
        each for each in execution.trace.slices if _is_same(each.owner, division.counted) and each.number > division.number
    ]


def _is_same(owner: object, counted: object) -> bool:
    return owner is counted


def _is_step(execution: Execution, division: Division) -> bool:
    """Whether the quotient is the size of a part for ``split``, or the step of a range."""
    for call in (*execution.trace.methods("split"), *execution.trace.named("range")):
        place = 2 if call.name == "range" else None
        values = call.arguments[2:3] if place is not None else (*call.arguments, *call.keywords.values())
        if any(value is division.result for value in values):
            return True
    return False


def _loses(execution: Execution, division: Division, size: int) -> bool:
    """Whether samples are left out of the parts of a batch that does not divide."""
    stops = [bounds_of(each.stop) for each in _slices(execution, division)]
    return bool(stops) and all(stop is not None and stop[1] < size for stop in stops)
