"""How the program's code makes its ranks work together: which wrapper it puts round the model, or which library it leaves that to."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from crashcart.readers.code.source import keyword

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.model import Fact
    from crashcart.readers.code.program import Program
    from crashcart.readers.code.source import Source

KINDS = {
    "DistributedDataParallel": "ddp", "FullyShardedDataParallel": "fsdp", "fully_shard": "fsdp", "deepspeed.initialize": "deepspeed",
    "hvd.DistributedOptimizer": "horovod", "horovod.torch.DistributedOptimizer": "horovod", "DataParallel": "DataParallel, one process",
    "accelerate.Accelerator": "as accelerate is configured", "transformers.Trainer": "as the Hugging Face trainer is launched",
}  # fmt: skip
LIGHTNING = ("pytorch_lightning.Trainer", "lightning.Trainer", "lightning.pytorch.Trainer", "lightning.Fabric", "Fabric")


def look(program: Program) -> Iterator[Fact]:
    """``code.parallel``: each kind at the first place that names it."""
    told: set[str] = set()
    for source in program.sources:
        for name, kind in KINDS.items():
            for call in source.calls(name):
                if kind not in told:
                    told.add(kind)
                    yield source.fact("code.parallel", kind, call)
        for call in source.calls(*LIGHTNING):
            kind = _strategy(source, call)
            if kind not in told:
                told.add(kind)
                yield source.fact("code.parallel", kind, call)


def _strategy(source: Source, call: ast.Call) -> str:
    given = keyword(call, "strategy")
    if given is None:
        return "as Lightning chooses"
    if isinstance(given, ast.Constant):
        return str(given.value)
    return source.called(given.func).rpartition(".")[2] if isinstance(given, ast.Call) else "as Lightning is configured"
