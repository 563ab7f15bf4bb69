"""What ends before the loop that asks it: an iterator over a loader, a schedule with a fixed number of steps.

batch = next(batches)           StopIteration: begun again, as the next epoch
scheduler.step()                ValueError: Tried to step 101 times. The specified number of total steps is 100
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from crashcart.readers.code.edits import own_lines, tried, wrapped
from crashcart.readers.remedies._scene import remedy, statement_at

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.model import Fact
    from crashcart.readers.code.source import Source
    from crashcart.readers.remedies._scene import Scene

_CAUSES = ("code/bug", "data/empty-or-short", "config/missing-or-wrong", "config/batch-arithmetic")


def look(scene: Scene) -> Iterator[Fact]:
    """At the innermost own line."""
    for raised in scene.raises[:1]:
        spot = raised.frames[-1] if raised.frames else None
        source = scene.source(spot.file) if spot is not None else None
        statement = statement_at(source, spot.line) if source is not None and spot is not None else None
        if source is None or statement is None or not own_lines(source, statement):
            return
        if raised.kind == "StopIteration" and scene.has_trained:
            yield from _begun_again(source, statement)
        elif "Tried to step" in raised.words and "total steps" in raised.words:
            yield from _not_beyond(source, statement)


def _begun_again(source: Source, statement: ast.stmt) -> Iterator[Fact]:
    calls = [
        node
        for node in ast.walk(statement)
        if isinstance(node, ast.Call) and source.called(node.func) == "next" and len(node.args) == 1
    ]
    if len(calls) != 1 or not isinstance(statement, (ast.Assign, ast.Expr)):
        return
    name = source.written(calls[0].args[0])
    made = [
        assign
        for assign in source.nodes(ast.Assign)
        if isinstance(assign.value, ast.Call)
        and source.called(assign.value.func) == "iter"
        and any(source.written(target) == name for target in assign.targets)
    ]
    again = {source.written(assign.value) for assign in made}
    if len(again) == 1 and "\n" not in source.written(statement):
        lines = (f"{name} = {next(iter(again))}", source.written(statement))
        edits = tried(source, statement, statement, "except StopIteration:  # the next epoch", *lines)
        why = "at its end the iterator starts again, like the next epoch does"
        yield from remedy(
            _CAUSES, "Restart the data when they are used up", "changes-training", why, edits, source.evidence(statement)
        )


def _not_beyond(source: Source, statement: ast.stmt) -> Iterator[Fact]:
    call = statement.value if isinstance(statement, ast.Expr) else None
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute) or call.func.attr != "step":
        return
    schedule = source.written(call.func.value)
    edits = wrapped(source, statement, statement, [f"if {schedule}.last_epoch < {schedule}.total_steps:"], [])
    why = "after its last step the rate stays constant; it is better to give the schedule the number of steps in the loop"
    yield from remedy(
        _CAUSES, "Stop stepping the schedule at its end", "changes-training", why, edits, source.evidence(statement)
    )
