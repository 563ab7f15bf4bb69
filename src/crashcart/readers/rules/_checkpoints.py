"""Checkpoints that a program writes and reads itself: to which file, and which parts of the training's state are in them."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from crashcart.readers.interpreter.values import Bound, Constant, Container, Instance, Result, Value, constant_of
from crashcart.record import record

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.readers.interpreter.execution import Execution
    from crashcart.readers.interpreter.trace import Call

__all__ = ["PARTS", "Saved", "is_fixed", "kind_of_part", "path_parts", "saves_of", "written_file"]

PARTS = ("optimizer", "schedule", "scaler")
_CHANGING = frozenset({"loop", "tensor", "data", "random", "graph", "finite", "index"})
_DEEPEST = 4


@record(frozen=True)
class Saved:
    """A call of ``torch.save``: its file as parts of a path, and the keys under which each kind of state stands."""

    call: Call
    path: tuple[str, ...] | None
    changes: bool
    parts: dict[str, str]


def path_parts(value: Value | None) -> tuple[str, ...] | None:
    """A path as its parts, ``{}`` for what is not known; None where it is no path that is put together in sight."""
    if isinstance(value, Result) and value.name == "file" and isinstance(value.data, Value):
        return path_parts(value.data)
    if isinstance(value, Result) and value.name in {"text", "pathlib.Path"}:
        if isinstance(value.data, str):
            return (os.path.normpath(value.data),)
        if not isinstance(value.data, list):
            return None
        found: list[str] = []
        for part in value.data:
            found += path_parts(part) or ("{}",) if isinstance(part, Value) else ["{}"]
        return tuple(part for part in found if part) if found and found[-1] != "{}" else None
    plain = constant_of(value)
    return (os.path.normpath(plain),) if isinstance(plain, str) and plain else None


def is_fixed(value: Value | None) -> bool:
    """Whether a path is the same at each save."""
    return value is not None and not (value.tags & _CHANGING)


def written_file(call: Call) -> Value | None:
    """Where ``torch.save`` writes to or ``torch.load`` reads from."""
    return call.argument(1 if call.method == "save" else 0, "f")


def saves_of(execution: Execution) -> list[Saved]:
    """Every ``torch.save`` of the program."""
    return [
        Saved(
            call,
            path_parts(written_file(call)),
            not is_fixed(written_file(call)),
            dict(_parts_in(execution, call.argument(0, "obj"))),
        )
        for call in execution.trace.named("torch.save")
    ]


def kind_of_part(execution: Execution, value: Value | None) -> str:
    """Whether an object is the model, the optimizer, the schedule or the scaler of a training; empty where it cannot be told."""
    if execution.is_optimizer(value):
        return "optimizer"
    if isinstance(value, Result):
        last = value.name.rpartition(".")[2]
        if ".lr_scheduler." in value.name or "Scheduler" in last or last.endswith("LR"):
            return "schedule"
        if last.endswith("GradScaler"):
            return "scaler"
        return "model" if value.name.startswith(("torch.nn.", "torch.distributed.fsdp.")) else ""
    if isinstance(value, Instance):
        if value.cls.is_a("LRScheduler", "_LRScheduler"):
            return "schedule"
        return "model" if value.cls.is_a("Module", "LightningModule", "PreTrainedModel") else ""
    return ""


def _parts_in(execution: Execution, value: Value | None, key: str = "", depth: int = _DEEPEST) -> Iterator[tuple[str, str]]:
    """The kinds of state in what is saved, each with its key."""
    if isinstance(value, Container) and depth:
        content = execution.interpreter.items(value)
        pairs = content.items() if isinstance(content, dict) else ((key, item) for item in content)
        for name, item in pairs:
            yield from _parts_in(execution, item, str(name), depth - 1)
    elif isinstance(value, Result) and value.name.endswith(".state_dict") and value.call is not None:
        kind = kind_of_part(execution, value.call.receiver)
        if kind:
            yield kind, key
    elif isinstance(value, (Constant, Bound)):
        return
    elif kind_of_part(execution, value) in {"optimizer", "model"}:  # the object itself
        yield kind_of_part(execution, value), key
