"""A schedule that counts steps and is stepped once an epoch, as the recording counted: it never leaves its warm-up.

for epoch in ...:                       for epoch in ...:
    for batch in loader:                    for batch in loader:
        optimizer.step()      ->                optimizer.step()
    schedule.step()                             schedule.step()

"lr_scheduler": {"scheduler": schedule} gets "interval": "step" in Lightning, which else steps it once an epoch.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from crashcart.doubts import unwarmed
from crashcart.model import Edit, Span
from crashcart.places import spot_of
from crashcart.readers.code.edits import indent_of, own_lines, replaced
from crashcart.readers.code.source import name_of
from crashcart.readers.remedies._scene import remedy

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.model import Fact
    from crashcart.readers.code.source import Source
    from crashcart.readers.remedies._scene import Scene

_CAUSES = ("silent/not-learning",)
_TITLE = "Step the schedule after each step of the optimizer"
_WHY = "its warm-up counts steps; once an epoch it never comes to its end"
_LOOPS = (ast.For, ast.AsyncFor, ast.While)


def look(scene: Scene) -> Iterator[Fact]:
    """Where the schedule of a rank that never left its warm-up is stepped."""
    found = unwarmed(scene.case.flight) if scene.case.flight is not None else None
    if found is None:
        return
    for source in scene.sources:
        yield from _in_dictionary(source)
        yield from _in_loop(source)
    spot = spot_of(str(found[1].details.get("place")))
    place = scene.at(spot)
    if place is not None and place[0] not in scene.plan.program.sources:
        yield from _in_dictionary(place[0])


def _in_dictionary(source: Source) -> Iterator[Fact]:
    """What ``configure_optimizers`` gives to Lightning: without an interval it steps once an epoch."""
    for node in source.nodes(ast.Dict):
        keys = {key.value: value for key, value in zip(node.keys, node.values, strict=True) if isinstance(key, ast.Constant)}
        if "scheduler" not in keys or None in node.keys:
            continue
        interval = keys.get("interval")
        if isinstance(interval, ast.Constant) and interval.value == "epoch":
            edits = [replaced(source, interval, '"step"')]
        elif interval is None:
            at = source.span(node).end - 1
            head = source.text[:at].rstrip()
            comma = "" if head.endswith(",") else ","
            edits = [Edit(Span(source.path, len(head), len(head), node.lineno), f'{comma} "interval": "step"')]
        else:
            continue
        yield from remedy(_CAUSES, _TITLE, "changes-training", _WHY, edits, source.evidence(node))


def _in_loop(source: Source) -> Iterator[Fact]:
    """A step of the schedule behind the inner loop in which the optimizer steps: it goes into that loop."""
    for statement in source.nodes(ast.Expr):
        call = statement.value
        is_step = isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr == "step"
        if not is_step or not _is_schedule(call) or not own_lines(source, statement):
            continue
        around: ast.stmt | None = source.around(statement, *_LOOPS)
        if not isinstance(around, _LOOPS) or statement not in around.body:
            continue
        before = around.body[: around.body.index(statement)]
        inner = [node for node in before if isinstance(node, _LOOPS)]
        steps = [node for loop in inner for node in ast.walk(loop) if isinstance(node, ast.Expr) and _steps_optimizer(node)]
        if len(inner) == 1 and len(steps) == 1 and source.around(steps[0], *_LOOPS) is inner[0]:
            step = steps[0]
            line = source.line(statement.lineno)
            start = source.offset(statement.lineno, 0)
            gone = Edit(Span(source.path, start, start + len(line) + 1, statement.lineno), "")
            end = source.offset(step.end_lineno or step.lineno, 0) + len(source.line(step.end_lineno or step.lineno))
            text = f"\n{indent_of(source, step.lineno)}{source.written(statement)}"
            edits = [Edit(Span(source.path, end, end, step.lineno), text), gone]
            yield from remedy(_CAUSES, _TITLE, "changes-training", _WHY, edits, source.evidence(statement))
            return


def _is_schedule(call: ast.expr) -> bool:
    name = name_of(call).removesuffix(".step").rpartition(".")[2].lower()
    return "sched" in name or name in {"lr", "warmup", "annealing"}


def _steps_optimizer(statement: ast.Expr) -> bool:
    call = statement.value
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute) or call.func.attr != "step":
        return False
    return not _is_schedule(call)
