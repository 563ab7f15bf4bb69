"""Calls of a gradient scaler in an order that it refuses, or in which clipping does not do what its number says.

Two rounds of the training loop are put one after the other, and `_scaler_state` tells what the scaler would say.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from crashcart.readers.interpreter.trace import Call, Region
from crashcart.readers.interpreter.values import Constant, Unknown
from crashcart.readers.rules._rounds import Way, loop_call, pairs, training_rounds, ways_through
from crashcart.readers.rules._scaler_edits import add_unscale, add_update, drop_unscale, move_unscale
from crashcart.readers.rules._scaler_state import Refusal, enabled, is_step_event, kind_of, refusals, scaler_of, scalers_on
from crashcart.readers.rules._statements import know_parents

if TYPE_CHECKING:
    import ast
    from collections.abc import Iterator

    from crashcart.model import Fact
    from crashcart.readers.interpreter.execution import Execution


def look(execution: Execution) -> Iterator[Fact]:
    """``code.scaler_order``: what is out of order, and whether this job is sure to come to it."""
    if not scalers_on(execution):
        return
    seen: set[tuple[str, int]] = set()
    for loop in training_rounds(execution):
        know_parents(call for call in loop.events())
        every = list(ways_through(loop, is_step_event))
        ways = [way for way in every if _goes_backward(way)]
        yield from _steps_without_gradients(loop, ways, every)
        for first, second in pairs(ways):
            for refusal in refusals((*first.events, *second.events)):
                value = _judged(execution, loop, ways, refusal, first, second)
                place = _place(refusal, loop)
                if value is not None and (value["what"], id(place.node)) not in seen:
                    seen.add((value["what"], id(place.node)))
                    yield place.fact("code.scaler_order", value)


def _steps_without_gradients(loop: Region, ways: list[Way], every: list[Way]) -> Iterator[Fact]:
    """A round that leaves the backward pass out and lets the scaler step all the same; for a loss that is not finite `nonfinite_loss` tells."""
    for way in every if ways else ():
        if _goes_backward(way):
            continue
        missing = [refusal for refusal in refusals((*ways[0].events, *way.events)) if refusal.kind == "no_gradients"]
        events = {id(event) for event in way.events}
        passes = [event for event in ways[0].events if isinstance(event, Call) and kind_of(event) == "backward"]
        tests = [
            region for event in passes for region in event.region.above() if region.kind == "branch" and loop.holds(region)
        ]
        if any(region.test is not None and "finite" in region.test.tags for region in tests):
            continue
        for refusal in missing:
            if id(refusal.event) in events and enabled(scaler_of(refusal.event)) is not False:
                about = {"enabled": enabled(scaler_of(refusal.event)), "sure": False, "what": "no_gradients", "edits": ()}
                yield refusal.event.fact("code.scaler_order", {**about, "pass": passes[0].evidence})
                return


def _goes_backward(way: Way) -> bool:
    """Whether gradients are made; what becomes of a batch that is left out is told by `nonfinite_loss`."""
    return any(kind_of(event) == "backward" for event in way.events)


def _place(refusal: Refusal, loop: Region) -> Call:
    """Where the loop's own function makes the call."""
    return loop_call(refusal.event, loop) or refusal.event


def _judged(
    execution: Execution, loop: Region, ways: list[Way], refusal: Refusal, first: Way, second: Way
) -> dict[str, Any] | None:
    step = refusal.event if kind_of(refusal.event).startswith("scaler.") else refusal.earlier
    scaler = scaler_of(step) if step is not None else None
    is_on = enabled(scaler)
    if step is None or is_on is False:
        return None
    value: dict[str, Any] = {"enabled": is_on, "sure": is_on is True and loop.is_certain() and _always(refusal.event, loop)}
    updates = [call for call in execution.trace.methods("update") if kind_of(call) == "scaler.update"]
    if refusal.kind == "stepped_again" and not updates and not _handed_on(execution, scaler):
        return {**value, "what": "never_updated", "edits": add_update(refusal.event)}
    if refusal.kind == "clipped_scaled" and not _unscaled_before(ways, refusal.event):
        late = [
            event for way in ways for event in way.events if isinstance(event, Call) and kind_of(event) == "scaler.unscale_"
        ]
        return {**value, "what": "clipped_scaled", "edits": add_unscale(refusal.event, step, late, loop)}
    if refusal.kind == "unscaled_again" and updates and refusal.earlier is not None:
        if refusal.earlier is not refusal.event and _in_one_way(second, refusal):
            edits = drop_unscale(execution, refusal.event)
            return {
                **value,
                "what": "unscaled_again",
                "edits": edits,
                "sure": value["sure"] and _always(refusal.earlier, loop),
            }
        period = _left_out_by(first, second)
        if period is not None and _whole_number(period) != 1:
            clips = [event for event in second.events if isinstance(event, Call) and kind_of(event) == "clip"]
            edits = move_unscale(refusal.event, clips, _branch_of_step(second, loop), loop)
            every = _whole_number(period)
            return {
                **value,
                "what": "unscaled_twice",
                "every": every,
                "sure": value["sure"] and every is not None,
                "edits": edits,
            }
    return None


def _whole_number(value: object) -> int | None:
    """A known whole number."""
    return value.value if isinstance(value, Constant) and type(value.value) is int else None


def _left_out_by(first: Way, second: Way) -> object | None:
    """The number of rounds after which the update is made, where the first of two rounds leaves it out for that reason."""
    if any(kind_of(event) == "scaler.update" for event in first.events):
        return None
    taken = {text: sense for text, sense, _ in second.periods}
    return next((value for text, sense, value in first.periods if taken.get(text, sense) is not sense), None)


def _in_one_way(way: Way, refusal: Refusal) -> bool:
    """Whether both calls are made in one round, one under no other condition than the other."""
    if not any(event is refusal.earlier for event in way.events):
        return False
    one, other = (set(map(id, _conditions(event))) for event in (refusal.event, refusal.earlier) if event is not None)
    return one <= other or other <= one


def _conditions(event: Call) -> list[Region]:
    return [region for region in event.region.above() if region.kind in {"branch", "maybe", "handler"}]


def _always(event: Call, loop: Region) -> bool:
    """Whether each round comes to an event; what is done once in several rounds counts."""
    for region in event.region.above():
        if region is loop:
            return True
        is_period = isinstance(region.test, Unknown) and region.test.modulus is not None
        if (region.kind == "branch" and not is_period) or region.kind in {"maybe", "handler", "rank"}:
            return False
    return False


def _unscaled_before(ways: list[Way], clip: Call) -> bool:
    """Whether any way unscales before a clipping."""
    for way in ways:
        for event in way.events:
            if event is clip:
                break
            if kind_of(event) == "scaler.unscale_":
                return True
    return False


def _branch_of_step(way: Way, loop: Region) -> ast.AST | None:
    """The branch, once in several rounds, in which the scaler steps."""
    for event in way.events:
        if kind_of(event) == "scaler.step":
            for region in event.region.above():
                if region is loop:
                    break
                if region.kind == "branch" and isinstance(region.test, Unknown) and region.test.modulus is not None:
                    return region.node
    return None


def _handed_on(execution: Execution, scaler: object) -> bool:
    """Whether a scaler is given to a library, which may update it."""
    return any(
        value is scaler
        for call in execution.trace.calls
        if call.function is None
        for value in (*call.arguments, *call.keywords.values())
    )
