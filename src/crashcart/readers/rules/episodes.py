"""Whole episodes in the code: which are left out without a word, and where all must have one length.

index += [(path, t) for t in range(n - chunk + 1)]   nothing of a short episode     code.short_left_out
if n < chunk: continue                               the same
counts.append(max(0, n - chunk + 1))                 the same
torch.stack(all_actions)                             whole episodes, of one length  code.stacked_whole

``n`` is the number of rows of a table of a file. What a loader's worker does leaves nothing out of the data set.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any

from crashcart.numbers import to_int
from crashcart.readers.interpreter.lengths import Length, LengthTest, RunningTotal
from crashcart.readers.interpreter.libraries.data_files import table_key
from crashcart.readers.interpreter.trace import Call, Event, Leave, Region
from crashcart.readers.interpreter.values import Container, Result, constant_of
from crashcart.record import record

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.model import Fact, Span
    from crashcart.readers.interpreter.execution import Execution
    from crashcart.readers.interpreter.values import Constant, Value

_STACKS = ("torch.stack", "numpy.stack")
_KEEPS = frozenset({"append", "extend", "add", "update", "insert", "appendleft"})
_COMPREHENSIONS = (ast.ListComp, ast.GeneratorExp, ast.DictComp, ast.SetComp)


@record(frozen=True)
class Threshold:
    """A place where an episode counts only from a length on; ``windows`` where each place at which a chunk fits is a sample."""

    region: Region
    node: Any  # an expression or a statement
    rows: Length
    least: int
    windows: bool = False


def look(execution: Execution) -> Iterator[Fact]:
    """The facts above, each place once."""
    seen: set[int] = set()
    numbers = (*_ranges(execution), *_counts(execution))
    for threshold in (*(each for each in numbers if not _is_long_enough(each)), *_tests(execution)):
        is_new = id(threshold.node) not in seen and threshold.region.worker is None
        if is_new and threshold.least > 1 and _is_table(threshold.rows.counted):
            seen.add(id(threshold.node))
            yield threshold.region.source.fact("code.short_left_out", _describe(threshold), threshold.node)
    for call in execution.trace.named(*_STACKS):
        if _holds_whole_tables(execution, call):
            yield call.fact("code.stacked_whole", {"sure": call.region.is_certain()})


def _is_long_enough(threshold: Threshold) -> bool:
    """Whether only long episodes come to a place, as short ones are padded, or passed over, elsewhere."""
    return any(
        isinstance(region.test, LengthTest)
        and region.test.rows.counted is threshold.rows.counted
        and region.test.if_enough is region.sense
        and region.test.least >= threshold.least
        for region in threshold.region.above()
        if region.kind == "branch"
    )


def _describe(threshold: Threshold) -> dict[str, Any]:
    """From which length on an episode counts, and the numbers that make it so; the largest can be changed."""
    parts = sorted(threshold.rows.parts, key=lambda part: part.value)
    settings = [part.origins[0] for part in parts if part.origins]
    return {
        "least": threshold.least,
        "settings": [setting.spelling.lstrip("-") for setting in settings],
        "places": tuple(setting.evidence for setting in settings),
        "largest": parts[-1].value if parts else None,
        "place": _place_of(parts[-1]) if parts else None,
        "windows": threshold.windows and threshold.rows.factor == 1,
    }


def _place_of(number: Constant) -> Span | None:
    """Where a number can be changed: in its setting, or in the code."""
    if number.origins:
        setting = number.origins[0]
        return setting.span if number.direct and setting.value == number.value else None
    return number.source.span(number.node) if number.source is not None and number.node is not None else None


def _is_table(counted: Value | None) -> bool:
    """Whether something is a table of a file, or all that a table holds."""
    return isinstance(counted, Result) and (counted.name == "h5py.Table" or bool(_whole_reads(counted)))


def _whole_reads(value: Value) -> list[int]:
    """The numbers of the calls that read a whole table, of which nothing was cut since."""
    return [to_int(tag.partition(":")[2], 0) for tag in value.tags if tag.startswith("whole:")]


def _ranges(execution: Execution) -> Iterator[Threshold]:
    """Ranges with an end that a short episode makes empty, where something is kept for each number."""
    for call in execution.trace.named("range", "numpy.arange"):
        end = call.arguments[min(1, len(call.arguments) - 1)] if call.arguments else None
        start = constant_of(call.arguments[0]) if len(call.arguments) > 1 else 0
        if isinstance(end, Length) and type(start) is int and _is_kept(execution, call):
            is_stepped = len(call.arguments) > 2  # noqa: PLR2004 - begin, end and step
            yield Threshold(call.region, call.node, end, end.length_for(start + 1), windows=not is_stepped)


def _is_kept(execution: Execution, numbers: Call) -> bool:
    """Whether a loop over the numbers, a comprehension or a list keeps something for each."""
    loops = [
        region for region in numbers.region.children if isinstance(region, Region) and region.iterable is numbers.result
    ]
    return any(_collects(loop) for loop in loops) or any(
        any(argument is numbers.result for argument in call.arguments) for call in execution.trace.methods(*_KEEPS)
    )


def _collects(region: Region) -> bool:
    """Whether something is put into a list in a region."""
    inner = (child.node for child in region.children if isinstance(child, Region))
    return any(isinstance(node, _COMPREHENSIONS) for node in (region.node, *inner)) or any(
        isinstance(event, Call) and event.method in _KEEPS for event in region.events()
    )


def _counts(execution: Execution) -> Iterator[Threshold]:
    """Numbers of samples, 0 for a short episode, that are put into a list or added to what an object counts."""
    given: list[tuple[Event, Value]] = [
        (call, value) for call in execution.trace.methods("append") for value in call.arguments[:1]
    ]
    given += [(write, write.value) for write in execution.trace.writes if isinstance(write.value, RunningTotal)]
    for event, value in given:
        rows = value.rows if isinstance(value, RunningTotal) else value
        if isinstance(rows, Length) and rows.least == 0:
            yield Threshold(event.region, event.node, rows, rows.length_for(1), windows=True)


def _tests(execution: Execution) -> Iterator[Threshold]:
    """Tests by which a short episode is passed over."""
    for region in execution.trace.root.regions():
        test = region.test
        if isinstance(test, LengthTest) and _passes_over(execution, region, test):
            yield Threshold(region, getattr(region.node, "test", region.node), test.rows, test.least)


def _passes_over(execution: Execution, region: Region, test: LengthTest) -> bool:
    """Whether a loop, a comprehension or the arms of a branch keep only what is long enough."""
    if region.kind == "loop":
        return test.if_enough and _collects(region)
    if region.kind != "branch" or region.parent is None:
        return False
    arms = [arm for arm in region.parent.children if isinstance(arm, Region) and arm.node is region.node]
    short = [arm for arm in arms if arm.sense is not test.if_enough]
    leaves = [event for arm in short for event in arm.events() if isinstance(event, Leave)]
    if any(_collects(arm) for arm in short) or any(not _leaves_with_nothing(execution, leave) for leave in leaves):
        return False
    is_kept_else = any(_collects(arm) for arm in arms if arm not in short) and bool(region.loops())
    return bool(leaves) or is_kept_else


def _leaves_with_nothing(execution: Execution, leave: Leave) -> bool:
    """``continue``, ``return``, ``return []``, ``return False, None``."""
    values = execution.items(leave.value) if isinstance(leave.value, Container) else [leave.value]
    return leave.kind == "continue" or (
        leave.kind == "return" and all(value is None or not constant_of(value, default=True) for value in values)
    )


def _holds_whole_tables(execution: Execution, stack: Call) -> bool:
    """Whether a list holds all of one table of each of several files."""
    tables = stack.argument(0)
    if not isinstance(tables, Container):
        return False
    items, is_complete = execution.interpreter.listed(tables)
    reads = {call.number: call for call in execution.trace.named("h5py.read")}
    keys = [{table_key(reads[number].receiver) for number in _whole_reads(item) if number in reads} for item in items]
    several = not is_complete or len(items) > 1
    return several and bool(keys) and len(keys[0]) == 1 and all(key == keys[0] for key in keys)
