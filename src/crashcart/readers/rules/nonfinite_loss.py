"""What becomes of a round of the training in which a value that the program tests is not finite.

The program is followed once more for each place that tests for NaN or Inf, with the answer of a bad value there and of fine ones
elsewhere; what it then does is compared with a fine round. Three ways go wrong: the batch goes without its backward pass and the scaler
steps all the same; ``update()`` is left out after ``unscale_``; one rank leaves out a backward pass that the others make.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any

from crashcart.model import NotLooked
from crashcart.readers.code.source import parents
from crashcart.readers.interpreter.trace import Call, Leave, Region
from crashcart.readers.interpreter.values import constant_of
from crashcart.readers.rules._rounds import Way, loop_call, same_loop, training_rounds, ways_through
from crashcart.readers.rules._scaler_state import (
    Refusal,
    enabled,
    is_step_event,
    kind_of,
    places_of_birth,
    refusals,
    scaler_of,
    scalers_on,
)
from crashcart.readers.rules._skip_edits import Skip
from crashcart.readers.rules._statements import know_parents, statement_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.model import Fact
    from crashcart.readers.interpreter.execution import Execution

_MOST_PLACES = 4
_MOST_STEPS = 120_000  # of all the times that a program is followed again: about a second
_TESTS = ("isnan", "isinf", "isfinite")
SPREADING = (
    "torch.nn.parallel.DistributedDataParallel",
    "torch.distributed.fsdp.FullyShardedDataParallel",
    "torch.distributed.fsdp.fully_shard",
    "torch.distributed._composable.fsdp.fully_shard",
    "apex.parallel.DistributedDataParallel",
    "deepspeed.initialize",
    "accelerate.Accelerator.prepare",
    "lightning.Fabric.setup",
    "lightning.fabric.Fabric.setup",
    "lightning.Trainer.fit",
    "transformers.Trainer.train",
)


def look(execution: Execution) -> Iterator[Fact]:
    """``code.nonfinite_skip``: what is left out when a value is not finite, and what is done all the same."""
    if not execution.trace.named(*SPREADING) and not scalers_on(execution):
        return  # a batch that is left out harms nobody
    loops = training_rounds(execution)
    tests = [call for call in execution.trace.methods(*_TESTS) if any(loop.holds(call.region) for loop in loops)]
    places = list({id(call.node): call.node for call in tests}.values())[:_MOST_PLACES]
    if not places:
        return
    times = _MOST_STEPS // max(execution.interpreter.steps, 1)
    if times <= len(places):
        execution.not_looked.append(NotLooked("batches that are left out", "the program is too large to follow again"))
        places = places[: max(times - 1, 0)]
    know_parents(call for loop in loops for call in loop.events())
    fine = execution.follow_with_finite(lambda _: True)
    seen: set[int] = set()
    for place in places:
        bad = execution.follow_with_finite(lambda node, place=place: node is not place)  # type: ignore[misc]
        for loop in training_rounds(fine):
            other = same_loop(bad, loop)
            same = places_of_birth(fine, bad)
            for fact, node in _compared(execution, loop, other, same) if other is not None else ():
                if id(node) not in seen:
                    seen.add(id(node))
                    yield fact


def _compared(execution: Execution, loop: Region, other: Region, same: dict[int, object]) -> Iterator[tuple[Fact, ast.AST]]:
    """A fine round, a bad one and a fine one again."""
    fine_ways = [
        way for way in ways_through(loop, is_step_event) if any(kind_of(event) == "backward" for event in way.events)
    ]
    bad_ways = [way for way in ways_through(other, is_step_event) if way.end != "raise"]
    place = _place_of_skip(execution, loop, other)
    if not fine_ways or not bad_ways or place is None:
        return
    event, node = place
    skips = not any(kind_of(each) == "backward" for way in bad_ways for each in way.events)
    refusal, before, way = _refused(fine_ways, bad_ways, same)
    is_on = enabled(scaler_of(refusal.event)) if refusal is not None else False
    if is_on is False and not skips:
        return
    skip = Skip(execution, loop, way or fine_ways[0], event.source, node)
    value: dict[str, Any] = {
        "what": "skipped",
        "before_backward": skips,
        "together": not skips,
        "distributed": bool(execution.trace.named(*SPREADING)),
        "enabled": None,
        "edits": (),
        "edits_together": skip.decide_together(*_test_around(node)) if skips else (),
    }
    if refusal is not None and is_on is not False:
        value["enabled"] = is_on
        if refusal.kind == "no_gradients":
            step = loop_call(refusal.event, other) or refusal.event
            micro = [constant_of(number) for _, _, number in before.periods] if before is not None else []
            value.update(
                what="stepped",
                step=step.evidence,
                edits=skip.leave_out_step(),
                every=micro[0] if micro and type(micro[0]) is int else None,
            )
        else:
            value.update(what="unscaled", edits=skip.close_record())
    yield event.source.fact("code.nonfinite_skip", value, node), node


def _refused(
    fine_ways: list[Way], bad_ways: list[Way], same: dict[int, object]
) -> tuple[Refusal | None, Way | None, Way | None]:
    """The first call that the scaler refuses because a round was bad, the bad round and the fine one."""
    for fine in fine_ways:
        usual = {(each.kind, id(each.event.node)) for each in refusals((*fine.events, *fine.events, *fine.events), same)}
        for bad in bad_ways:
            if not fine.goes_on() or not fine.agrees_with(bad):
                continue
            after = fine.events if bad.goes_on() else ()
            for refusal in refusals((*fine.events, *bad.events, *after), same):
                if (refusal.kind, id(refusal.event.node)) not in usual and refusal.kind != "clipped_scaled":
                    return refusal, bad, fine
    return None, None, None


def _place_of_skip(execution: Execution, loop: Region, other: Region) -> tuple[Leave | Call, ast.stmt] | None:
    """Where the bad round goes another way: the ``return`` or ``continue`` that a fine one does not come to, else the guard around what it leaves out."""
    fine = {id(event.node) for event in loop.events() if isinstance(event, Leave)}
    for event in other.events():
        if (
            isinstance(event, Leave)
            and event.kind != "raise"
            and id(event.node) not in fine
            and isinstance(event.node, ast.stmt)
        ):
            under = [above for above in parents(event.node) if isinstance(above, ast.If)]
            if under and not _answers_test(execution, event):
                return event, event.node
    bad = {id(event.node) for event in other.events() if isinstance(event, Call)}
    for event in loop.events():
        if isinstance(event, Call) and kind_of(event) == "backward" and id(event.node) not in bad:
            for region in _in_first_run(execution, event):
                if region.test is not None and "finite" in region.test.tags and isinstance(region.node, ast.If):
                    return event, region.node
    return None


def _answers_test(execution: Execution, leave: Leave) -> bool:
    """Whether a ``return`` only says that a value is bad: of a function that makes no gradients and whose answer is tested."""
    call = next(iter(leave.calls_above()), None)
    if leave.kind != "return" or call is None or call.function is None:
        return False
    bodies = [
        each.body
        for each in execution.trace.calls
        if each.function is not None and each.function.node is call.function.node and each.body is not None
    ]
    return not any(
        kind_of(event) in {"backward", "scaler.step", "scaler.unscale_"} for body in bodies for event in body.events()
    )


def _in_first_run(execution: Execution, event: Call) -> Iterator[Region]:
    """The regions around the same call where nothing was assumed."""
    for call in execution.trace.methods("backward"):
        if call.node is event.node:
            yield from call.region.above()


def _test_around(node: ast.stmt) -> tuple[ast.If | None, bool]:
    """The test that leads to a skip, and whether it is true for a bad value."""
    if isinstance(node, ast.If):
        return node, False
    test = next((above for above in parents(node) if isinstance(above, ast.If)), None)
    return (test, node in test.body or statement_of(node) in test.body) if test is not None else (None, True)
