"""Trainers of libraries that are told to go on from a checkpoint: ``trainer.train(resume_from_checkpoint=last)``."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from crashcart.readers.code.edits import replaced
from crashcart.readers.interpreter.values import Constant

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.model import Fact
    from crashcart.readers.interpreter.execution import Execution

_OPTIONS = {"transformers.Trainer.train": "resume_from_checkpoint", "lightning.Trainer.fit": "ckpt_path"}


def look(execution: Execution) -> Iterator[Fact]:
    """``code.trainer_resume``: the call, what it is told, and the edit with which it begins with its first step."""
    for name, option in _OPTIONS.items():
        for call in execution.trace.named(name):
            given = call.keywords.get(option)
            keywords = call.node.keywords if isinstance(call.node, ast.Call) else []
            written = next((keyword.value for keyword in keywords if keyword.arg == option), None)
            if given is None or written is None or (isinstance(given, Constant) and given.value in {None, False}):
                continue
            edits = (replaced(call.source, written, "None"),)
            yield call.fact("code.trainer_resume", {"option": option, "edits": edits})
