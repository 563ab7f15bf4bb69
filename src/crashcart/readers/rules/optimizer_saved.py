"""Whether checkpoints hold the state of the optimizer, which is twice the weights with Adam."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.model import Fact
    from crashcart.readers.interpreter.execution import Execution

_WHOLE = frozenset({"save_state", "save_checkpoint", "get_optimizer_state_dict", "optim_state_dict"})
_TRAINERS = (
    "transformers.Trainer.train",
    "lightning.Trainer.fit",
    "transformers.TrainingArguments",
    "lightning.callbacks.ModelCheckpoint",
)


def look(execution: Execution) -> Iterator[Fact]:
    """``code.optimizer_saved``: the first place that asks for that state, or hands the saving to a library that does."""
    for call in execution.trace.calls:
        if call.function is None and (
            (call.method == "state_dict" and execution.is_optimizer(call.receiver))
            or call.method in _WHOLE
            or call.name in _TRAINERS
        ):
            yield call.fact("code.optimizer_saved", call.name)
            return
