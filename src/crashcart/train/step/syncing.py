"""When gradients are averaged over ranks: only with the last micro batch of a window, whatever wraps the model.

DDP has `no_sync`, and forward has to lie inside of it; FSDP1 too, where it keeps whole gradients in memory; FSDP2 has
`set_requires_gradient_sync`. What DDP did not average because the last micro batch never came is averaged here by hand.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import torch
from torch import distributed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torch import Tensor

__all__ = ["Syncing"]

_BUCKET_BYTES = 25 << 20


class Syncing:
    """The wrappers inside of a model that average gradients, and a switch for them."""

    def __init__(self, models: list[torch.nn.Module], *, wanted: bool | None) -> None:
        for one in models:
            if not hasattr(one, "named_parameters"):
                raise TypeError(f"StepGuard(model, optimizer) needs a module in the first place, not {type(one).__name__}.")
        self.replicas = list(_wrapped(models, _is_replica))
        self.shards = list(_wrapped(models, _is_shard))
        others = [model for model in models if hasattr(model, "no_sync") and not _is_shard(model) and not _is_replica(model)]
        self._pause = [] if wanted is False else list(self.replicas)
        # Sharded models keep whole gradients while they are not averaged: only on demand.
        self._pause_when_sure = [*self.shards, *others] if wanted else []
        self.covered = {
            id(parameter)
            for replica in self.replicas
            if not getattr(replica, "_comm_hooks", None)  # such a hook may leave ranks with gradients that differ
            for parameter in _averaged(replica)
        }
        # torch dies with an internal error where the first backward of a static graph is one without averaging.
        self._new = {id(replica) for replica in self.replicas if getattr(replica, "static_graph", False)}
        self._open: ExitStack | None = None

    @property
    def group(self) -> Any:  # noqa: ANN401 - a process group, None for the default one
        """The ranks that share this model."""
        return next(
            (wrapper.process_group for wrapper in [*self.replicas, *self.shards] if hasattr(wrapper, "process_group")), None
        )

    @property
    def averages(self) -> bool:
        """Whether anybody divides gradients by the number of ranks."""
        return bool(self.replicas or self.shards)

    @property
    def paused(self) -> bool:
        """Whether gradients of a backward now would stay on this rank."""
        return self._open is not None

    def pause(self, *, sure: bool) -> None:
        """No averaging from here to `resume`; `sure`: the last micro batch of this window will certainly come."""
        self._reopen()
        targets = [one for one in self._pause if id(one) not in self._new] + (self._pause_when_sure if sure else [])
        if not targets:
            return
        stack = ExitStack()
        for target in targets:
            if hasattr(target, "set_requires_gradient_sync"):
                target.set_requires_gradient_sync(False)
                stack.callback(target.set_requires_gradient_sync, True)
            else:
                stack.enter_context(target.no_sync())
        self._open = stack

    def resume(self) -> None:
        """Averaging as usual, after a micro batch."""
        self._new.clear()
        self._reopen()

    def _reopen(self) -> None:
        if self._open is not None:
            stack, self._open = self._open, None
            stack.close()

    def average_by_hand(self) -> None:
        """Average over ranks what DDP left on each; all ranks call it. A gradient that only some have counts as zero elsewhere."""
        if self._pause_when_sure:
            raise RuntimeError(
                "A window ended without its last micro batch, and a sharded model cannot average what it held back: call backward "
                "for every batch of `guard.batches`, or leave no_sync=True away."
            )
        for replica in self.replicas:
            group = replica.process_group
            parameters = list(_averaged(replica))
            if not parameters:
                continue
            present = torch.tensor([parameter.grad is not None for parameter in parameters], dtype=torch.int32)
            present = present.to(parameters[0].device)
            distributed.all_reduce(present, group=group)
            owners = [parameter for parameter, ranks in zip(parameters, present.tolist(), strict=True) if ranks]
            for parameter in owners:
                if parameter.grad is None:
                    parameter.grad = torch.zeros_like(parameter)
            _average([parameter.grad for parameter in owners if parameter.grad is not None], group)


def _average(gradients: list[Tensor], group: Any) -> None:  # noqa: ANN401 - a process group
    size = distributed.get_world_size(group)
    for gradient in gradients:
        if gradient.is_sparse:
            gradient.div_(size)
            distributed.all_reduce(gradient, group=group)
    for bucket in _buckets([gradient for gradient in gradients if not gradient.is_sparse]):
        flat = torch.cat([gradient.reshape(-1) for gradient in bucket]).div_(size)
        distributed.all_reduce(flat, group=group)
        for gradient, part in zip(bucket, torch.split(flat, [gradient.numel() for gradient in bucket]), strict=True):
            gradient.copy_(part.view_as(gradient))


def _buckets(gradients: list[Tensor]) -> Iterator[list[Tensor]]:
    bucket: list[Tensor] = []
    size = 0
    for gradient in gradients:
        alike = not bucket or (bucket[0].dtype, bucket[0].device) == (gradient.dtype, gradient.device)
        if bucket and (not alike or size > _BUCKET_BYTES):
            yield bucket
            bucket, size = [], 0
        bucket.append(gradient)
        size += gradient.numel() * gradient.element_size()
    if bucket:
        yield bucket


def _averaged(replica: Any) -> Iterator[Tensor]:  # noqa: ANN401 - a DistributedDataParallel
    left_out = getattr(replica, "parameters_to_ignore", ())
    for name, parameter in replica.module.named_parameters():
        if parameter.requires_grad and name not in left_out:
            yield parameter


def _wrapped(models: list[torch.nn.Module], is_one: Any) -> Iterator[Any]:  # noqa: ANN401 - two functions of this file
    """The outermost wrappers: also inside of a compiled model, or a module that holds several."""
    seen: set[int] = set()
    for model in models:
        for module in model.modules():
            if id(module) not in seen and is_one(module):
                seen.update(id(inner) for inner in module.modules())
                yield module


def _is_replica(module: torch.nn.Module) -> bool:
    return isinstance(module, torch.nn.parallel.DistributedDataParallel)


def _is_shard(module: torch.nn.Module) -> bool:
    return hasattr(module, "set_requires_gradient_sync") or any(
        kind.__name__ == "FullyShardedDataParallel" for kind in type(module).__mro__
    )
