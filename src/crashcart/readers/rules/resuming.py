"""What a resume leaves behind: state that is saved and never loaded, or never saved at all.

A load is a resume where more than the weights comes back from the file (the number of the epoch or step, a part of the state), or where
the training writes the very file that is read. Taking over weights for a new training is another thing; libraries that load everything
by one call are left alone.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from crashcart.model import Edit, Span
from crashcart.readers.code.edits import indent_of, own_lines
from crashcart.readers.code.source import FUNCTIONS, name_of, parent
from crashcart.readers.interpreter.values import Result, Unknown
from crashcart.readers.rules._checkpoints import PARTS, kind_of_part, path_parts, saves_of, written_file
from crashcart.readers.rules._scaler_state import enabled
from crashcart.readers.rules._statements import function_of, know_parents, statement_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.model import Fact
    from crashcart.readers.interpreter.execution import Execution
    from crashcart.readers.interpreter.trace import Call

_WHOLE = (
    "load_state", "load_checkpoint", "restore", "resume_from_checkpoint", "set_state_dict", "set_optimizer_state_dict",
    "load_optimizer", "load_optimizer_state_dict", "train", "fit",
)  # fmt: skip


def look(execution: Execution) -> Iterator[Fact]:
    """``code.resume``: the load of the weights, and what of the training's state is in use, saved and not loaded."""
    in_use = _in_use(execution)
    if "optimizer" not in in_use or _loads_whole(execution):
        return
    loads = [call for call in execution.trace.methods("load_state_dict") if call.function is None]
    loaded = {kind_of_part(execution, call.receiver) for call in loads} | _begun_later(execution)
    unknown = any(not kind_of_part(execution, call.receiver) for call in loads)
    saved = {part: key for each in saves_of(execution) for part, key in each.parts.items()}
    seen: set[int] = set()
    for call in loads:
        state = call.argument(0, "state_dict")
        if kind_of_part(execution, call.receiver) != "model" or not isinstance(state, Result) or state.name != "torch.load":
            continue
        if id(call.node) in seen or unknown or not _is_resume(execution, state, loads):
            continue
        seen.add(id(call.node))
        know_parents([call, *in_use.values(), *execution.trace.methods("state_dict")])
        missing = [part for part in PARTS if part in in_use and part not in loaded]
        value = {
            "missing": missing,
            "saved": [part for part in missing if part in saved],
            "edits": _edits(execution, call, missing, saved, in_use),
        }
        yield call.fact("code.resume", value)


def _in_use(execution: Execution) -> dict[str, Call]:
    """The parts of the state that the training steps, each with a step."""
    found: dict[str, Call] = {}
    for call in execution.trace.methods("step", "update"):
        is_scaler = call.name.endswith("GradScaler.update")
        kind = "scaler" if is_scaler and enabled(call.receiver) is not False else kind_of_part(execution, call.receiver)
        if call.function is None and kind in PARTS and (call.method == "step" or is_scaler):
            found.setdefault(kind, call)
        if call.name.endswith("GradScaler.step") and execution.is_optimizer(call.argument(0, "optimizer")):
            found.setdefault("optimizer", call)
    return found


def _begun_later(execution: Execution) -> set[str]:
    """A schedule that is made with the epoch of the checkpoint goes on where it stopped."""
    return {
        "schedule"
        for call in execution.trace.calls
        if kind_of_part(execution, call.result) == "schedule"
        and any("checkpoint" in value.tags for value in (*call.arguments[1:], *call.keywords.values()))
    }


def _loads_whole(execution: Execution) -> bool:
    """Whether a library loads all of the state by one call."""
    calls = execution.trace.methods(*_WHOLE)
    trainers = ("transformers.", "lightning.", "deepspeed.", "accelerate.", "torch.distributed.checkpoint")
    return any(
        call.function is None and (call.method not in {"train", "fit", "restore"} or call.name.startswith(trainers))
        for call in calls
    ) or bool(execution.trace.named("torch.distributed.checkpoint.load"))


def _is_resume(execution: Execution, state: Result, loads: list[Call]) -> bool:
    """Whether a training goes on from what was loaded."""
    for call in loads:
        other = call.argument(0, "state_dict")
        if isinstance(other, Result) and other.call is state.call and kind_of_part(execution, call.receiver) in PARTS:
            return True
    rounds = [region for loop in execution.training_loops for region in loop.above() if region.kind == "loop"]
    for region in rounds:
        iterable = execution.underlying(region.iterable)
        counted = isinstance(iterable, Result) and iterable.name == "range" and "checkpoint" in iterable.tags
        if counted or (isinstance(region.test, Unknown) and "checkpoint" in region.test.tags):
            return True
    path = path_parts(written_file(state.call)) if state.call is not None else None
    return (
        path is not None
        and "{}" not in path
        and any(
            saved.path == path
            and saved.call.region.loops()
            and state.call is not None
            and saved.call.number > state.call.number
            for saved in saves_of(execution)
        )
    )


def _edits(
    execution: Execution, call: Call, missing: list[str], saved: dict[str, str], in_use: dict[str, Call]
) -> tuple[Edit, ...]:
    """The lines that load what was saved, behind the line that loads the weights; the objects must be at hand there."""
    statement, node = statement_of(call.node), call.node
    argument = node.args[0] if isinstance(node, ast.Call) and node.args else None
    if not own_lines(call.source, statement) or not isinstance(argument, ast.Subscript) or not missing:
        return ()
    whole, lines = call.source.written(argument.value), []
    for part in missing:
        name = _name_at_hand(execution, call, part, in_use)
        if not saved.get(part) or not name:
            return ()
        lines.append(f'{indent_of(call.source, statement.lineno)}{name}.load_state_dict({whole}["{saved[part]}"])')
    number = statement.end_lineno or statement.lineno
    end = call.source.offset(number, 0) + len(call.source.line(number))
    return (Edit(Span(call.source.path, end, end, number), "".join(f"\n{line}" for line in lines)),)


def _name_at_hand(execution: Execution, call: Call, part: str, in_use: dict[str, Call]) -> str:
    """What an object is called where the weights are loaded: an attribute, a parameter, or a name that was set before."""
    function = function_of(call.node)
    candidates = [
        in_use[part],
        *(each for each in execution.trace.methods("state_dict") if kind_of_part(execution, each.receiver) == part),
    ]
    for step in candidates:
        node = step.node
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute) or step.source is not call.source:
            continue
        name = name_of(node.func.value)
        if step.name.endswith("GradScaler.step") and part == "optimizer" and node.args:
            name = name_of(node.args[0])
        if name.startswith("self.") and parent(function_of(node)) is parent(function):
            return name
        if "." in name or not name:
            continue
        parameters = [each.arg for each in function.args.args] if isinstance(function, FUNCTIONS) else []
        stored = any(
            isinstance(each, ast.Name) and each.id == name and isinstance(each.ctx, ast.Store) and each.lineno < call.line
            for each in ast.walk(function)
        )
        if name in parameters or stored:
            return name
    return ""
