"""Whether checkpoints hold the state of the optimizer, which is twice the weights with Adam."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from crashcart.readers.code.source import name_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.model import Fact
    from crashcart.readers.code.program import Program

OPTIMIZER = re.compile(r"(?i)optim|(?:^|[_.])opt(?:$|[_.\d])")
WHOLE = (
    "save_state", "save_checkpoint", "TrainingArguments", "HfArgumentParser", "ModelCheckpoint", "lightning.Trainer",
    "pytorch_lightning.Trainer", "get_state_dict", "get_optimizer_state_dict", "optim_state_dict",
)  # fmt: skip


def look(program: Program) -> Iterator[Fact]:
    """``code.optimizer_saved``: the first place that asks for that state, or hands the saving to a library that does."""
    for source in program.sources:
        for call in source.calls("state_dict", *WHOLE):
            name = name_of(call.func)
            if not name.endswith("state_dict") or OPTIMIZER.search(name):
                yield source.fact("code.optimizer_saved", name, call)
                return
