"""Loaders of a program of several ranks whose data nobody divides: every rank goes through all of it.

A sampler, a library that deals batches out, or a number of the rank in what the data are made of says that somebody does.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from crashcart.model import Edit
from crashcart.readers.interpreter.values import Constant, Container, Instance, PerRank, Result, Unknown, constant_of
from crashcart.readers.rules._statements import know_parents

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.model import Fact
    from crashcart.readers.interpreter.execution import Execution, Loader
    from crashcart.readers.interpreter.trace import Call
    from crashcart.readers.interpreter.values import Value

_WRAPPERS = (
    "torch.nn.parallel.DistributedDataParallel",
    "torch.distributed.fsdp.FullyShardedDataParallel",
    "torch.distributed.fsdp.fully_shard",
)
_DIVIDING = (
    "accelerate.",
    "lightning.",
    "transformers.",
    "deepspeed.",
    "horovod.",
    "webdataset.",
    "ray.",
    "ignite.",
    "composer.",
)
_RANK_CALLS = ("torch.distributed.get_rank", "torch.distributed.get_world_size")
_DEEPEST = 4


def look(execution: Execution) -> Iterator[Fact]:
    """``code.undivided``: such a loader that shuffles, with the sampler put in as an edit."""
    if not execution.trace.named(*_WRAPPERS) or any(call.name.startswith(_DIVIDING) for call in execution.trace.calls):
        return
    for loader in execution.loaders:
        data = loader.argument(0, "dataset")
        if loader.feeds != "train" or not _is_plain(loader) or data is None or _knows_rank(execution, data):
            continue
        know_parents([loader.call])
        yield loader.call.fact("code.undivided", {"edits": _edits(loader.call)})


def _is_plain(loader: Loader) -> bool:
    """Whether a loader shuffles by itself and has no sampler."""
    nothing = Constant(None)
    samplers = (loader.argument(3, "sampler", nothing), loader.argument(4, "batch_sampler", nothing))
    is_bare = all(isinstance(sampler, Constant) and sampler.value is None for sampler in samplers)
    return is_bare and constant_of(loader.argument(2, "shuffle")) is True


def _knows_rank(execution: Execution, value: Value | None, depth: int = _DEEPEST) -> bool:
    """Whether data are made with the number of the rank, or in a way that cannot be seen."""
    if isinstance(value, PerRank) or (value is not None and "rank" in value.tags):
        return True
    if isinstance(value, Unknown):
        return "tensor" not in value.tags
    if isinstance(value, Constant) or value is None or not depth:
        return False
    if isinstance(value, Container):
        return any(_knows_rank(execution, item, depth - 1) for item in execution.items(value))
    if isinstance(value, Instance):
        return _class_knows_rank(execution, value) or _made_with_rank(execution, value.call, depth)
    return _made_with_rank(execution, value.call, depth) if isinstance(value, Result) else True


def _made_with_rank(execution: Execution, call: Call | None, depth: int) -> bool:
    values = (*call.arguments, *call.keywords.values()) if call is not None else ()
    return any(
        isinstance(value, (PerRank, Container, Instance, Result)) and _knows_rank(execution, value, depth - 1)
        for value in values
    )


def _class_knows_rank(execution: Execution, data: Instance) -> bool:
    """Whether a data set asks for the rank itself, or gives its samples one after the other."""
    if data.cls.is_a("IterableDataset"):
        return True
    methods = {
        each.owner
        for call in execution.trace.named(*_RANK_CALLS)
        for each in (above.function for above in call.calls_above())
        if each
    }
    kept = [execution.interpreter.store.get(data, name) for name in execution.interpreter.store.names(data)]
    return data.cls in methods or any(isinstance(value, PerRank) for value in kept)


def _edits(call: Call) -> tuple[Edit, ...]:
    """A sampler where a process group is there; without one it shuffles as before."""
    node, source = call.node, call.source
    if not isinstance(node, ast.Call) or source.names.get("torch") != "torch":
        return ()
    shuffle = next((word for word in node.keywords if word.arg == "shuffle"), None)
    data = node.args[0] if node.args else next((word.value for word in node.keywords if word.arg == "dataset"), None)
    if shuffle is None or not isinstance(data, (ast.Name, ast.Attribute)):
        return ()
    there = "torch.distributed.is_initialized()"
    text = f"shuffle=not {there}, sampler=torch.utils.data.DistributedSampler({source.written(data)}) if {there} else None"
    return (Edit(source.span(shuffle), text),)  # type: ignore[arg-type]
