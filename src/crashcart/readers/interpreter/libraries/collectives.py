"""Calls in which a rank waits for the others: of torch.distributed, accelerate, Lightning, DeepSpeed, transformers, Horovod.

``waits`` says when: ``always`` with more than one rank; ``sharded`` where each rank keeps a part of the training's state (FSDP,
DeepSpeed of any stage), so that ``accelerator.save_state`` on rank 0 alone works with plain data parallelism; ``weights`` only where
the weights themselves are spread (FSDP, ZeRO 3): with ZeRO 2 every rank has all of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from crashcart.readers.interpreter.values import Constant, Library, constant_of

if TYPE_CHECKING:
    from crashcart.readers.interpreter.trace import Call
    from crashcart.readers.interpreter.values import Value

__all__ = ["Waits", "is_barrier", "waits_of"]

Waits = Literal["always", "sharded", "weights"]

# Where the group stands among the arguments.
_TORCH = {
    "barrier": 0, "monitored_barrier": 0, "all_reduce": 2, "all_gather": 2, "all_gather_into_tensor": 2, "all_gather_object": 2,
    "broadcast": 2, "broadcast_object_list": 2, "all_to_all": 2, "reduce": 3, "gather": 3, "scatter": 3, "reduce_scatter": 3,
    "reduce_scatter_tensor": 3, "gather_object": 3, "scatter_object_list": 3, "all_to_all_single": 4,
}  # fmt: skip
_ACCELERATE: dict[str, Waits] = {
    "wait_for_everyone": "always", "gather": "always", "gather_for_metrics": "always", "reduce": "always",
    "pad_across_processes": "always", "save_state": "sharded", "get_state_dict": "weights", "save_model": "weights",
}  # fmt: skip
_FABRIC = ("barrier", "all_reduce", "all_gather", "broadcast", "save")
_STRATEGY = ("barrier", "broadcast", "reduce", "all_gather", "reduce_boolean_decision")
_HOROVOD = (
    "allreduce", "allreduce_", "allgather", "broadcast", "broadcast_", "barrier", "broadcast_parameters", "broadcast_optimizer_state",
    "broadcast_object", "alltoall", "grouped_allreduce",
)  # fmt: skip
_TRAINER: dict[str, Waits] = {"evaluate": "always", "predict": "always", "save_model": "weights", "train": "always"}
_TRAINERS = (
    "transformers.Trainer", "transformers.Seq2SeqTrainer", "trl.SFTTrainer", "trl.DPOTrainer", "trl.GRPOTrainer", "trl.RewardTrainer",
)  # fmt: skip
_ENGINE = ("save_checkpoint", "load_checkpoint", "save_16bit_model", "save_fp16_model", "backward", "step")
_CHECKPOINT: dict[str, Waits] = {
    "state_dict.get_model_state_dict": "weights", "state_dict.get_state_dict": "weights",
    "state_dict.get_optimizer_state_dict": "weights", "save": "always", "save_state_dict": "always", "async_save": "always",
}  # fmt: skip
_FULLY_SHARDED = "torch.distributed.fsdp.FullyShardedDataParallel"

_WAITS: dict[str, Waits] = {
    **{f"{library}.{name}": "always" for library in ("torch.distributed", "deepspeed.comm") for name in _TORCH},
    **{f"accelerate.{owner}.{name}": waits for owner in ("Accelerator", "PartialState") for name, waits in _ACCELERATE.items()},
    **{f"accelerate.utils.{name}": "always" for name in ("gather", "gather_object", "reduce", "broadcast", "wait_for_everyone")},
    **{f"{owner}.{name}": "always" for owner in ("lightning.Fabric", "lightning.fabric.Fabric") for name in _FABRIC},
    **{f"lightning.Trainer.strategy.{name}": "always" for name in _STRATEGY},
    "lightning.Trainer.save_checkpoint": "always",
    "lightning.LightningModule.all_gather": "always",
    **{f"horovod.torch.{name}": "always" for name in _HOROVOD},
    **{f"{owner}.{name}": waits for owner in _TRAINERS for name, waits in _TRAINER.items()},
    **{f"deepspeed.DeepSpeedEngine.{name}": "always" for name in _ENGINE},
    "deepspeed.DeepSpeedEngine.__call__": "weights",
    **{f"torch.distributed.checkpoint.{name}": waits for name, waits in _CHECKPOINT.items()},
    **{f"{_FULLY_SHARDED}.{name}": "always" for name in ("state_dict", "optim_state_dict", "full_optim_state_dict", "__call__")},
    "torch.nn.parallel.DistributedDataParallel": "always",  # compares the weights of all ranks
    "detectron2.utils.comm.synchronize": "always",
    "mmengine.dist.barrier": "always",
}  # fmt: skip
_WITH_SYNC = {"lightning.LightningModule.log", "lightning.LightningModule.log_dict"}
_BARRIERS = {"barrier", "monitored_barrier", "wait_for_everyone", "synchronize"}


def waits_of(call: Call) -> Waits | None:
    """When a call waits for all other ranks; None where it does not, or only for a group of some of them."""
    if call.function is not None:
        return None
    if call.name in _WITH_SYNC:
        return "always" if constant_of(call.argument(None, "sync_dist")) is True else None
    waits = _WAITS.get(call.name)
    has_group = call.name.startswith(("torch.distributed.", "deepspeed.comm."))
    if has_group and not _is_of_all(call):
        return None
    return waits


def _is_of_all(call: Call) -> bool:
    """Whether a collective is of all ranks: no group is named, or that of all."""
    position = _TORCH.get(call.method)
    group: Value | None = call.argument(position, "group", Constant(None)) if position is not None else Constant(None)
    if isinstance(group, Library):
        return group.name.endswith("group.WORLD")
    return isinstance(group, Constant) and group.value is None


def is_barrier(call: Call) -> bool:
    """Whether a collective does nothing but wait."""
    return call.method in _BARRIERS
