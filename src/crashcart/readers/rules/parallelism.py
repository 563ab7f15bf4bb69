"""How the program makes its ranks work together: the wrapper around the model, or the library that it leaves that to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from crashcart.readers.interpreter.libraries.rank_starters import LIGHTNING
from crashcart.readers.interpreter.values import Constant, Result, constant_of
from crashcart.readers.rules._call_options import with_option

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.model import Fact
    from crashcart.readers.interpreter.execution import Execution
    from crashcart.readers.interpreter.trace import Call

_DDP = "torch.nn.parallel.DistributedDataParallel"
_KINDS = {
    _DDP: "ddp", "apex.parallel.DistributedDataParallel": "ddp",
    "torch.distributed.fsdp.FullyShardedDataParallel": "fsdp", "torch.distributed.fsdp.fully_shard": "fsdp",
    "torch.distributed._composable.fsdp.fully_shard": "fsdp", "deepspeed.initialize": "deepspeed",
    "horovod.torch.DistributedOptimizer": "horovod", "torch.nn.DataParallel": "DataParallel, one process",
    "torch.nn.parallel.DataParallel": "DataParallel, one process", "accelerate.Accelerator": "as accelerate is configured",
}  # fmt: skip


def look(execution: Execution) -> Iterator[Fact]:
    """``code.parallel``: each kind at the first place that names it; ``code.ddp``: each wrapper of DDP, and how it looks for unused parameters."""
    seen: set[str] = set()
    for call in execution.trace.calls:
        kind = _kind(call)
        if kind and kind not in seen:
            seen.add(kind)
            yield call.fact("code.parallel", kind)
        if call.name == _DDP:
            unused = constant_of(call.argument(None, "find_unused_parameters", Constant(value=False)))
            edits = with_option(call, "find_unused_parameters", "True")
            yield call.fact("code.ddp", {"finds_unused": unused, "edits": edits})


def _kind(call: Call) -> str:
    if call.name in LIGHTNING:
        return _strategy(call)
    if isinstance(call.result, Result) and call.result.name == "transformers.Trainer" and call.result.call is call:
        return "as the Hugging Face trainer is launched"
    return _KINDS.get(call.name, "")


def _strategy(call: Call) -> str:
    strategy = call.argument(None, "strategy")
    if strategy is None:
        return "as Lightning chooses" if call.complete else "as Lightning is configured"
    if isinstance(strategy, Constant):
        return str(strategy.value)
    return strategy.name.rpartition(".")[2] if isinstance(strategy, Result) else "as Lightning is configured"
