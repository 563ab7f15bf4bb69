"""Loops that go backward and step and never clear the gradients: each step then adds to those of all steps before it.

Only optimizers of torch count, which never clear by themselves; one that is made anew in each round or handed to a library in the loop
is left alone.
"""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from crashcart.readers.code.edits import alone, line_after
from crashcart.readers.interpreter.trace import Call, Event, Region, Write
from crashcart.readers.interpreter.values import Result
from crashcart.readers.rules._rounds import training_rounds
from crashcart.readers.rules._statements import know_parents, statement_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.model import Edit, Fact
    from crashcart.readers.interpreter.execution import Execution
    from crashcart.readers.interpreter.values import Value

_CLEARS = re.compile(r"(?i)zero_?grad|clear_?grad|\.grad\.")


def look(execution: Execution) -> Iterator[Fact]:
    """``code.never_cleared``: the step, how its optimizer is written, and the line that clears."""
    if execution.interpreter.exhausted:
        return
    for loop in training_rounds(execution):
        around = loop.loops()[-1]
        events = list(around.events())
        if any(_clears(event) for event in events):
            continue
        steps = [step for step in execution.steps if loop.holds(step.region) and _stepped(step)[1]]
        for step in steps[:1]:
            optimizer, text = _stepped(step)
            if _is_of_torch(optimizer, around) and not _handed_on(events, optimizer):
                know_parents([step])
                edits = _edits(step, text)
                yield step.source.fact("code.never_cleared", {"optimizer": text, "edits": edits}, statement_of(step.node))


def _clears(event: Event) -> bool:
    if isinstance(event, Write):
        return event.name == "grad"
    return isinstance(event, Call) and _CLEARS.search(event.name) is not None


def _stepped(step: Call) -> tuple[Value | None, str]:
    """The optimizer that steps, itself or through a scaler; no text where a library steps it for the program."""
    node = step.node
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute) or node.func.attr != "step":
        return None, ""
    if step.name.endswith("GradScaler.step") and node.args:
        return step.argument(0, "optimizer"), ast.unparse(node.args[0])
    return step.receiver, ast.unparse(node.func.value)


def _is_of_torch(optimizer: Value | None, around: Region) -> bool:
    """Whether torch made an optimizer, before the loop."""
    if not isinstance(optimizer, Result) or not optimizer.name.startswith("torch.optim.") or optimizer.call is None:
        return False
    return not around.holds(optimizer.call.region)


def _handed_on(events: list[Event], optimizer: Value | None) -> bool:
    """Whether a library gets the optimizer in the loop, and may clear what it holds."""
    calls = [event for event in events if isinstance(event, Call) and event.function is None]
    return any(
        value is optimizer
        for call in calls
        if "GradScaler." not in call.name and ".lr_scheduler." not in call.name
        for value in (*call.arguments, *call.keywords.values())
    )


def _edits(step: Call, text: str) -> tuple[Edit, ...]:
    statement = statement_of(step.node)
    return (
        (line_after(step.source, statement, f"{text}.zero_grad(set_to_none=True)"),) if alone(step.source, statement) else ()
    )
