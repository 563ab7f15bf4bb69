"""A learning rate that the recording saw far from the one that the optimizer was made with, and the line that makes it so.

for epoch in ...:                       for epoch in ...:
    for batch in loader:                    for batch in loader:
        optimizer.step()      ->                optimizer.step()
    schedule.step()                             schedule.step()                it counts steps, and never left its warm-up

"lr_scheduler": {"scheduler": schedule} gets "interval": "step" in Lightning, which else steps it once an epoch.

LambdaLR(optimizer, lambda step: step // warm)          step / warm            0 up to the end of the warm-up
if n < warm: return peak * n / (warm // accumulate)     / warm                 as many times the peak at the end of it
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from crashcart.causes.numerics.diverged import RATE_ABOVE
from crashcart.doubts import highest_rate, unwarmed
from crashcart.model import Edit, Evidence, Fact, Span
from crashcart.places import spot_of
from crashcart.readers.code.edits import indent_of, own_lines, replaced
from crashcart.readers.code.source import name_of
from crashcart.readers.remedies._scene import remedy
from crashcart.record import replace

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.readers.code.source import Source
    from crashcart.readers.remedies._scene import Scene

_CAUSES, _TOO_HIGH = ("silent/not-learning",), ("numerics/diverged",)
_TITLE = "Step the schedule after each step of the optimizer"
_WHY = "its warm-up counts steps; once an epoch it never comes to its end"
_LOOPS = (ast.For, ast.AsyncFor, ast.While)
_ABOVE, _MOST = 1.5, 4  # times the rate that the optimizer was made with; lines
_DIVISIONS = (ast.Div, ast.FloorDiv)


def look(scene: Scene) -> Iterator[Fact]:
    """Where the schedule of a rank that never left its warm-up is stepped; where a rate of 0, or one above all others, is worked out."""
    flight = scene.case.flight
    rates = highest_rate(flight) if flight is not None else None
    if flight is None or rates is None:
        return
    found, (made, top) = unwarmed(flight), rates
    spot = spot_of(str(found[1].details.get("place"))) if found is not None else None
    place = scene.at(spot)
    sources = [*scene.sources, *([place[0]] if place is not None and place[0] not in scene.sources else [])]
    floors = [(source, edit) for source in sources for edit in _floors(source)] if top == 0 else []
    for source in sources if found is not None else ():
        yield from _in_dictionary(source, [edit for own, edit in floors if own is source])
        yield from _in_loop(source)
    if len(floors) == 1:
        why = "a whole division gives 0 up to the end of the warm-up"
        source, edit = floors[0]
        seen = Evidence("code", source.line(edit.span.line).strip(), f"{source.path}:{edit.span.line}")
        yield from remedy(_CAUSES, "Divide without rounding down", "changes-training", why, [edit], seen)
    if top > made * _ABOVE:
        yield from _above(sources, made, top)


def _floors(source: Source) -> Iterator[Edit]:
    """The whole divisions in the function that a schedule is made with."""
    for call in source.nodes(ast.Call):
        if source.called(call.func).endswith("LambdaLR") and len(call.args) > 1:
            name = name_of(call.args[1])
            named = [function for function in source.functions if function.name == name]
            for node in (node for each in (call.args[1], *named) for node in ast.walk(each)):
                if isinstance(node, ast.BinOp) and isinstance(node.op, ast.FloorDiv):
                    start, end = source.span(node.left).end, source.span(node.right).start
                    at = source.text.index("//", start, end)
                    yield Edit(Span(source.path, at, at + 2, node.lineno), "/")


def _above(sources: list[Source], made: float, top: float) -> Iterator[Fact]:
    """The lines that work out a rate above that of the optimizer, and a ramp among them that goes beyond its peak."""
    lines: list[Evidence] = []
    for source in sources:
        for assign in source.nodes(ast.Assign):
            target = assign.targets[0]
            if isinstance(target, ast.Subscript) and isinstance(target.slice, ast.Constant) and target.slice.value == "lr":
                lines.append(source.evidence(assign))
                called = {
                    name_of(call.func).rpartition(".")[2] for call in ast.walk(assign.value) if isinstance(call, ast.Call)
                }
                functions = [(each, function) for each in sources for function in each.functions if function.name in called]
                lines += [
                    each.evidence(node)
                    for each, function in functions
                    for node in ast.walk(function)
                    if isinstance(node, ast.Return)
                ]
    if lines:
        yield Fact(RATE_ABOVE, {"made": made, "top": top, "places": lines[:_MOST]}, lines[0], "code")
    ramps = [(source, *ramp) for source in sources for ramp in _ramps(source)]
    if len(ramps) == 1:
        source, length, divisor = ramps[0]
        why = f"it goes up as long as `{length}` says and is divided by less: at its end it is as many times the peak"
        span = source.span(divisor)
        if source.text[span.start - 1] + source.text[span.end] == "()":  # these held only the division
            span = replace(span, start=span.start - 1, end=span.end + 1)
        edits = [Edit(span, length)]
        yield from remedy(_TOO_HIGH, "End the warm-up at its peak", "changes-training", why, edits, source.evidence(divisor))


def _ramps(source: Source) -> Iterator[tuple[str, ast.expr]]:
    """A ramp that holds below a length and is divided by a part of that length: the length, and the divisor."""
    choices: list[ast.If | ast.IfExp] = [*source.nodes(ast.If), *source.nodes(ast.IfExp)]
    for node in choices:
        test, body = node.test, node.body if isinstance(node, ast.If) else [node.body]
        if not isinstance(test, ast.Compare) or not isinstance(test.ops[0], (ast.Lt, ast.LtE)):
            continue
        length = ast.unparse(test.comparators[0])
        for division in (each for part in body for each in ast.walk(part)):
            if isinstance(division, ast.BinOp) and isinstance(division.op, _DIVISIONS):
                right, counted = division.right, {name_of(name) for name in ast.walk(division.left)}
                is_part = (
                    isinstance(right, ast.BinOp) and isinstance(right.op, _DIVISIONS) and ast.unparse(right.left) == length
                )
                if is_part and name_of(test.left) in counted:
                    yield length, right


def _in_dictionary(source: Source, more: list[Edit]) -> Iterator[Fact]:
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
        yield from remedy(_CAUSES, _TITLE, "changes-training", _WHY, [*more, *edits], source.evidence(node))


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
