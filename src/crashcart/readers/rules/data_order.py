"""How the data are dealt out to the ranks, and in which order.

    DistributedSampler(data)              and nobody calls set_epoch: every epoch has the same order    code.same_order
    DataLoader(data, shuffle=True)        on several ranks, and nothing about it depends on the rank:
                                          each of them goes through all of the data                     code.undivided

accelerate, Lightning and the Hugging Face trainer see to both themselves.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from crashcart.model import Edit
from crashcart.readers.code.edits import alone, line_before, step_of
from crashcart.readers.interpreter.trace import Call, Region
from crashcart.readers.interpreter.values import Choice, Constant, Instance, Result, Unknown, constant_of
from crashcart.readers.rules._growth import deep_tags

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.model import Fact
    from crashcart.readers.interpreter.execution import Execution, Loader
    from crashcart.readers.interpreter.values import Value

_SAMPLER = "torch.utils.data.DistributedSampler"
_FRAMEWORKS = (
    "accelerate.Accelerator", "lightning.Trainer", "lightning.Fabric", "lightning.fabric.Fabric", "transformers.Trainer",
    "deepspeed.initialize", "horovod.torch.init", "ray.train.torch.prepare_data_loader",
)  # fmt: skip
_PARALLEL = (
    "torch.nn.parallel.DistributedDataParallel", "torch.distributed.fsdp.FullyShardedDataParallel", "torch.distributed.fsdp.fully_shard",
    "torch.distributed._composable.fsdp.fully_shard",
)  # fmt: skip
_RANKS = frozenset({"get_rank", "get_world_size", "get_worker_info", "split_dataset_by_node"})
_SEEDS = frozenset({"manual_seed", "manual_seed_all", "seed", "set_seed", "seed_everything", "default_rng"})


def look(execution: Execution) -> Iterator[Fact]:
    """The facts above, for the loaders that feed the training."""
    if execution.is_cut_short or any(execution.trace.named(name) for name in _FRAMEWORKS):
        return  # what was not followed may call set_epoch
    for loader in execution.loaders:
        if loader.feeds != "train":
            continue
        sampler = _sampler(loader)
        if sampler is not None:
            epochs = _epoch_loop(execution, loader)
            if epochs is not None and not _is_told_epoch(execution, sampler) and sampler.call is not None:
                yield sampler.call.fact("code.same_order", {"edits": _tell_epoch(execution, loader, epochs)})
        elif _is_whole(execution, loader):
            yield loader.call.fact("code.undivided", {"edits": _divide(loader)})


# ---- the order


def _sampler(loader: Loader) -> Result | None:
    """A distributed sampler that shuffles."""
    given = loader.argument(3, "sampler")
    options = given.options if isinstance(given, Choice) else (given,)
    for option in options:
        if isinstance(option, Result) and option.name == _SAMPLER:
            shuffles = option.argument(3, "shuffle")
            return option if constant_of(shuffles, True) is not False else None
    return None


def _is_told_epoch(execution: Execution, sampler: Result) -> bool:
    """Whether anything calls ``set_epoch``; on something unknown, it may be this sampler."""
    return any(
        call.receiver is sampler or not isinstance(call.receiver, Result) for call in execution.trace.methods("set_epoch")
    )


def _epoch_loop(execution: Execution, loader: Loader) -> Region | None:
    """The loop around the one that goes through the loader."""
    for call in execution.trace.named("iterate"):
        if call.receiver is loader.value and any(region.kind == "feed" for region in call.region.above()):
            loops = call.region.loops()
            if len(loops) > 1 and isinstance(loops[1].node, (ast.For, ast.While)):
                return loops[1]
    return None


def _tell_epoch(execution: Execution, loader: Loader, epochs: Region) -> tuple[Edit, ...]:
    node, source = epochs.node, epochs.source
    if not isinstance(node, ast.For) or not isinstance(node.target, ast.Name) or not alone(source, node.body[0]):
        return ()
    epoch = node.target.id
    own = _sampler_name(loader, epochs)
    if own:
        return (line_before(source, node.body[0], f"{own}.set_epoch({epoch})"),)
    name = _loader_name(execution, loader, epochs)
    if not name:
        return ()
    test = f'if hasattr(getattr({name}, "sampler", None), "set_epoch"):'
    return (line_before(source, node.body[0], test, f"{step_of(source)}{name}.sampler.set_epoch({epoch})"),)


def _function(region: Region) -> Region | None:
    return next((above for above in region.above() if above.kind in {"call", "module"}), None)


def _sampler_name(loader: Loader, epochs: Region) -> str:
    """The name of the sampler, where the function with the loop over the epochs makes the loader and nothing but a sampler has it."""
    node = loader.call.node
    if _function(loader.call.region) is not _function(epochs) or not isinstance(node, ast.Call):
        return ""
    given = next((keyword.value for keyword in node.keywords if keyword.arg == "sampler"), None)
    return given.id if isinstance(given, ast.Name) and isinstance(loader.argument(3, "sampler"), Result) else ""


def _loader_name(execution: Execution, loader: Loader, epochs: Region) -> str:
    """What the function with the loop over the epochs calls the loader."""
    for call in execution.trace.calls:  # ``train_one_epoch(model, loader)``
        if epochs.holds(call.region) and _function(call.region) is _function(epochs) and isinstance(call.node, ast.Call):
            for position, value in enumerate(call.arguments):
                offset = len(call.arguments) - len(call.node.args)
                if value is loader.value and 0 <= position - offset < len(call.node.args):
                    argument = call.node.args[position - offset]
                    if isinstance(argument, (ast.Name, ast.Attribute)):
                        return epochs.source.written(argument)
    for call in execution.trace.named("iterate"):  # ``for batch in loader``
        loop = call.region.loops()[0] if call.receiver is loader.value and call.region.loops() else None
        if loop is not None and _function(loop) is _function(epochs) and isinstance(loop.node, ast.For):
            names = [node for node in ast.walk(loop.node.iter) if isinstance(node, (ast.Name, ast.Attribute))]
            called = [node.func for node in ast.walk(loop.node.iter) if isinstance(node, ast.Call)]
            texts = [epochs.source.written(name) for name in names if name not in called]
            return max(texts, key=len, default="")
    owner = _receiver(epochs)
    names_of_owner = execution.interpreter.store.names(owner) if owner is not None else []
    own = [name for name in names_of_owner if execution.interpreter.peek(owner, name) is loader.value]  # type: ignore[arg-type]
    return f"self.{own[0]}" if own else ""


def _receiver(region: Region) -> Instance | None:
    """The object in whose method a region lies."""
    function = _function(region)
    call = function.call if function is not None else None
    if call is None or call.function is None or call.function.owner is None or not call.arguments:
        return None
    return call.arguments[0] if isinstance(call.arguments[0], Instance) else None


# ---- the shares of the ranks


def _is_whole(execution: Execution, loader: Loader) -> bool:
    """Whether every rank gets all of the data: no sampler, and nothing that the data are made of differs between ranks."""
    if not any(execution.trace.named(name) for name in _PARALLEL) or not loader.call.complete:
        return False
    samplers = [loader.argument(3, "sampler", Constant(None)), loader.argument(4, "batch_sampler", Constant(None))]
    if any(constant_of(sampler, sampler) is not None for sampler in samplers):
        return False
    if constant_of(loader.argument(2, "shuffle", Constant(False))) is not True:
        return False
    dataset = loader.dataset
    whole = loader.argument(0, "dataset")
    if isinstance(dataset, Unknown):
        return "rank" not in dataset.tags and "tensor" in dataset.tags and not _seeds_by_rank(execution)
    if "rank" in deep_tags(execution, whole) or "rank" in deep_tags(execution, dataset) or _seeds_by_rank(execution):
        return False
    return not _asks_for_rank(execution, loader, dataset)


def _seeds_by_rank(execution: Execution) -> bool:
    """Whether each rank shuffles in an order of its own."""
    return any(
        "rank" in value.tags
        for call in execution.trace.methods(*_SEEDS)
        for value in (*call.arguments, *call.keywords.values())
    )


def _asks_for_rank(execution: Execution, loader: Loader, dataset: Value | None) -> bool:
    """Whether the data set asks who it is, when it is made or when it is read."""
    if isinstance(dataset, Instance):
        if dataset.cls.is_a("IterableDataset"):
            return True
        made = dataset.call.body if dataset.call is not None else None
        calls = [event for event in made.events() if isinstance(event, Call)] if made is not None else []
        calls += [call for call in execution.trace.methods(*_RANKS) if execution.in_worker(call) is loader.value]
        return any(call.method in _RANKS for call in calls)
    return not (isinstance(dataset, Result) and dataset.name.startswith(("torch.utils.data.", "torchvision.datasets.")))


def _divide(loader: Loader) -> tuple[Edit, ...]:
    """A sampler where a process group is there; without one it shuffles as before."""
    node, source = loader.call.node, loader.call.source
    if not isinstance(node, ast.Call) or source.names.get("torch") != "torch" or not node.args:
        return ()
    given = next((keyword for keyword in node.keywords if keyword.arg == "shuffle"), None)
    if given is None or not isinstance(node.args[0], (ast.Name, ast.Attribute)):
        return ()
    is_there = "torch.distributed.is_initialized()"
    data = source.written(node.args[0])
    text = f"shuffle=not {is_there}, sampler=torch.utils.data.DistributedSampler({data}) if {is_there} else None"
    whole = ast.Constant(value=None, lineno=given.lineno, col_offset=given.col_offset)
    whole.end_lineno, whole.end_col_offset = given.end_lineno, given.end_col_offset
    return (Edit(source.span(whole), text),)
