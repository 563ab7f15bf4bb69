"""Calls that wait for every rank and that only one side of the ranks makes.

if accelerator.is_main_process:
    accelerator.save_state(path)      # under FSDP or DeepSpeed every rank must call it
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from crashcart.readers.interpreter.libraries.collectives import is_barrier
from crashcart.readers.rules._moves import all_moved_out, moved_out
from crashcart.readers.rules._rank_flow import collectives_of, entry_call, happens, unanswered
from crashcart.readers.rules._rank_writes import waits_too, written_by_first
from crashcart.readers.rules._settings import called_as
from crashcart.readers.rules._statements import statement_of
from crashcart.record import replace

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.model import Edit, Fact
    from crashcart.readers.code.source import Source
    from crashcart.readers.interpreter.execution import Execution
    from crashcart.readers.interpreter.trace import Call, Region
    from crashcart.readers.rules._rank_flow import Collective


def look(execution: Execution) -> Iterator[Fact]:
    """``code.lone_wait``: a call that waits for all, where only one side of the ranks comes."""
    if execution.ranks == 1 or not _is_whole(execution):
        return
    rank_tests = _rank_tests(execution)
    entries: dict[tuple[ast.AST, str], tuple[Call, Region, Collective]] = {}
    for collective in _lone(execution):
        place, guard = entry_call(collective)
        key = place.node, collective.waits
        if key not in entries or (happens(place) and not happens(entries[key][0])):
            entries[key] = place, guard, collective
    guarded_facts = [(guard, _fact(place, guard, collective, rank_tests)) for place, guard, collective in entries.values()]
    for guard, fact in guarded_facts:
        same = [
            each
            for region, each in guarded_facts
            if region.node is guard.node and each.value["waits"] == fact.value["waits"]
        ]
        edits = fact.value["edits"]
        if len(same) > 1 and isinstance(guard.node, ast.If) and all(each.value["edits"] for each in same):
            nodes = [each.value["node"] for each in same]
            edits = all_moved_out(guard.source, guard.node, [statement_of(node) for node in nodes], nodes, rank_tests)
        yield replace(fact, value={**{name: item for name, item in fact.value.items() if name != "node"}, "edits": edits})


def _is_whole(execution: Execution) -> bool:
    """Whether every collective was seen: what was not followed may hold the counterpart."""
    interpreter = execution.interpreter
    if interpreter.exhausted:
        return False
    waiting = {
        above.function.node
        for collective in collectives_of(execution)
        for above in collective.call.calls_above()
        if above.function is not None
    }
    return not waiting & interpreter.left_out


def _lone(execution: Execution) -> list[Collective]:
    """Those that wait always are compared with one another; what waits only for sharded weights by itself."""
    every = collectives_of(execution)
    always = [each for each in every if each.waits == "always"]
    return [*unanswered(always), *(each for each in unanswered(every) if each.waits != "always")]


def _fact(place: Call, guard: Region, collective: Collective, rank_tests: frozenset[str]) -> Fact:
    through = collective.call.evidence if collective.call is not place else None
    edits = _edits(place, guard, collective, rank_tests) if collective.side == "first" else ()
    if (
        edits
        and through is not None
        and collective.waits == "always"
        and place.function is not None
        and not _leaves(guard, place)
    ):
        edits += written_by_first(place)
    value = {
        "call": called_as(place),
        "waits_in": called_as(collective.call),
        "waits": collective.waits,
        "side": collective.side,
        "sure": happens(collective.call),
        "through": through,
        "edits": edits,
        "node": place.node,
    }
    return place.fact("code.lone_wait", value)


def _rank_tests(execution: Execution) -> frozenset[str]:
    """The expressions that ask for the rank, as they are written."""
    return frozenset(ast.unparse(node) for node in execution.interpreter.rank_tests)


def _leaves(guard: Region, place: Call) -> bool:
    """Whether the others were sent away before (``if rank != 0: return``), and the call does not stand in the branch."""
    return isinstance(guard.node, ast.If) and not any(place.node is node for node in ast.walk(guard.node))


def _edits(place: Call, guard: Region, collective: Collective, rank_tests: frozenset[str]) -> tuple[Edit, ...]:
    source: Source = place.source
    if not isinstance(guard.node, ast.If) or not isinstance(place.node, ast.Call):
        return ()
    if _leaves(guard, place):
        return (
            waits_too(source, guard.node, place.node)
            if is_barrier(collective.call) and _only_waits(place, collective)
            else ()
        )
    statement = statement_of(place.node)
    in_test = isinstance(statement, ast.If) and any(node is place.node for node in ast.walk(statement.test))
    if not (isinstance(statement, (ast.Expr, ast.Assign)) or in_test) or statement in guard.node.orelse:
        return ()
    return moved_out(source, guard.node, statement, place.node, rank_tests)


def _only_waits(place: Call, collective: Collective) -> bool:
    """Whether what is called here does nothing but wait, so that all ranks may call it."""
    if place is collective.call or place.body is None:
        return place is collective.call
    done = [event for event in place.body.events() if not getattr(event, "name", "").startswith("torch.distributed.is_")]
    return all(
        event is collective.call or getattr(event, "function", None) is not None or not hasattr(event, "name")
        for event in done
    )
