"""Calls that wait for the other ranks: of torch.distributed, accelerate, Lightning, DeepSpeed and sharded models.

``kind`` says when a call waits: ``always`` with more than one rank; ``sharded`` where each rank keeps a part of the training's
state (FSDP, DeepSpeed of any stage), so that ``accelerator.save_state`` under ``is_main_process`` works with plain data
parallelism; ``weights`` only where the weights themselves are spread (FSDP, ZeRO 3): with ZeRO 2 every rank has all of them.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Literal

from crashcart.readers.code._callers import function_of
from crashcart.readers.code._own_model import own_model
from crashcart.readers.code.source import inside, keyword, name_of, parents

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.readers.code.program import Program
    from crashcart.readers.code.source import Source

__all__ = ["Kind", "collectives"]

Kind = Literal["always", "sharded", "weights"]
TORCH = frozenset({
    "barrier", "monitored_barrier", "all_reduce", "all_gather", "all_gather_into_tensor", "all_gather_object", "reduce", "broadcast",
    "reduce_scatter", "reduce_scatter_tensor", "broadcast_object_list", "gather", "gather_object", "scatter", "all_to_all",
    "scatter_object_list", "all_to_all_single",
})  # fmt: skip
# Where the group stands among the arguments; in most it is the third.
GROUPS = {
    "barrier": 0, "monitored_barrier": 0, "reduce": 3, "gather": 3, "scatter": 3, "reduce_scatter": 3, "reduce_scatter_tensor": 3,
    "gather_object": 3, "scatter_object_list": 3, "all_to_all_single": 4,
}  # fmt: skip
ACCELERATE: dict[str, Kind] = {
    "wait_for_everyone": "always", "gather": "always", "gather_for_metrics": "always", "reduce": "always",
    "pad_across_processes": "always", "save_state": "sharded", "get_state_dict": "weights", "save_model": "weights",
}  # fmt: skip
FABRIC = frozenset({"barrier", "all_reduce", "all_gather", "broadcast", "save"})
TRAINER: dict[str, Kind] = {"evaluate": "always", "predict": "always", "save_model": "weights"}
ENGINE = frozenset({"save_checkpoint", "load_checkpoint", "save_16bit_model", "save_fp16_model"})
ENGINES = frozenset({"model_engine", "engine", "ds_engine", "deepspeed_engine"})
SHARDED_STATE = frozenset({
    "torch.distributed.checkpoint.state_dict.get_model_state_dict", "torch.distributed.checkpoint.state_dict.get_state_dict",
    "torch.distributed.checkpoint.state_dict.get_optimizer_state_dict", "torch.distributed.checkpoint.save",
    "torch.distributed.checkpoint.save_state_dict", "torch.distributed.checkpoint.async_save",
})  # fmt: skip
WRAPPERS = {"FSDP", "FullyShardedDataParallel", "fully_shard"}
NAMES = (
    TORCH
    | ACCELERATE.keys()
    | FABRIC
    | TRAINER.keys()
    | ENGINE
    | {"state_dict", "optim_state_dict", "full_optim_state_dict", "log", "reduce_boolean_decision"}
)
NAMES |= {name.split(".")[-1] for name in SHARDED_STATE}


def collectives(program: Program) -> Iterator[tuple[Source, ast.Call, Kind]]:
    """Every call that waits for the other ranks."""
    lightning = program.imports("lightning", "pytorch_lightning")
    transformers = program.imports("transformers", "trl")
    engines, shards = _engines(program), _shards(program)
    for source in program.sources:
        for call in source.calls(*NAMES):
            name = source.called(call.func)
            *above, last = name.split(".")
            owner = above[-1].lower() if above else ""
            everyone = last == "wait_for_everyone" and bool(above)
            if everyone or _of_torch(name, last, call) or _of_lightning(call, last, owner, above, ours=lightning):
                yield source, call, "always"
            elif "accelerator" in owner and last in ACCELERATE:
                if ACCELERATE[last] != "weights" or not own_model(keyword(call, "model", 0)):
                    yield source, call, ACCELERATE[last]
            elif owner == "trainer" and transformers and not lightning and last in TRAINER:
                yield source, call, TRAINER[last]
            elif last in ENGINE and _is_method(source, call) and (above[-1] in engines or (engines and owner in ENGINES)):
                yield source, call, "always"
            elif name in SHARDED_STATE:
                yield source, call, "weights" if last.startswith("get_") else "always"
            elif last.endswith("optim_state_dict") and above and above[-1] in WRAPPERS:
                yield source, call, "always"
            elif last == "state_dict" and above and above[-1] in shards and not _is_whole(call):
                yield source, call, shards[above[-1]]


def _receiver(call: ast.Call) -> ast.expr | None:
    return call.func.value if isinstance(call.func, ast.Attribute) else None


def _is_method(source: Source, call: ast.Call) -> bool:
    """A method of an object, no function of a module that happens to be called like one."""
    return isinstance(call.func, ast.Attribute) and name_of(call.func).split(".")[0] not in source.names


def _is_whole(call: ast.Call) -> bool:
    """Whether it is asked of a model that is not spread, or not yet."""
    return own_model(_receiver(call)) or _made_later(call)


def _made_later(call: ast.Call) -> bool:
    """Whether the function itself spreads the model only after this call: ``model = prepare(model)`` further down."""
    receiver = name_of(call.func).rpartition(".")[0]
    function = function_of(call)
    given = {one.arg for one in function.args.args} if function is not None else set()
    return receiver in given and any(
        isinstance(one, ast.Assign)
        and one.lineno > call.lineno
        and isinstance(one.value, ast.Call)
        and any(name_of(target) == receiver for target in one.targets)
        and any(name_of(argument) == receiver for argument in one.value.args)
        for one in (ast.walk(function) if function is not None else ())
    )


def _of_torch(name: str, last: str, call: ast.Call) -> bool:
    """A collective of the whole job; one of a group of ranks is judged by nobody but its author."""
    whole = name in {f"torch.distributed.{last}", f"torch.distributed.distributed_c10d.{last}"}
    return whole and last in TORCH and keyword(call, "group", GROUPS.get(last, 2)) is None


def _of_lightning(call: ast.Call, last: str, owner: str, above: list[str], *, ours: bool) -> bool:
    if owner == "fabric" and last in FABRIC:
        return True
    if not ours:
        return False
    if last == "log" and above == ["self"]:
        spread = keyword(call, "sync_dist")
        return isinstance(spread, ast.Constant) and spread.value is True
    if owner == "strategy" and last in {"barrier", "broadcast", "reduce", "all_gather", "reduce_boolean_decision"}:
        return True
    return (last == "all_gather" and above == ["self"]) or (last == "save_checkpoint" and owner == "trainer")


def _engines(program: Program) -> set[str]:
    """The names that hold what ``deepspeed.initialize`` returned first."""
    found: set[str] = set()
    for source in program.sources:
        for call in source.calls("deepspeed.initialize"):
            statement = inside(call, ast.Assign)
            for target in statement.targets if statement is not None else ():
                first = target.elts[0] if isinstance(target, (ast.Tuple, ast.List)) and target.elts else target
                found.add(name_of(first).split(".")[-1])
    return found


def _shards(program: Program) -> dict[str, Kind]:
    """The names that hold a model whose weights are spread; where that stands under a condition, only perhaps."""
    found: dict[str, Kind] = {}
    for source in program.sources:
        for call in source.calls(*WRAPPERS):
            statement = next((one for one in parents(call) if isinstance(one, ast.stmt)), None)
            targets = (
                statement.targets
                if isinstance(statement, ast.Assign)
                else call.args[:1]
                if name_of(call.func).endswith("fully_shard")
                else []
            )
            sure = not any(isinstance(one, (ast.If, ast.IfExp)) for one in parents(call))
            for target in targets:
                found[name_of(target).split(".")[-1]] = "always" if sure else "weights"
    return found
