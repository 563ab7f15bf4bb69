"""The gradients of parameters as tensors that foreach can take, whatever they are: plain, sparse, or shards of a DTensor."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    import torch

__all__ = ["Gradients", "Kind", "gradients_of", "is_sharded"]

Kind = tuple[Any, Any, Any]  # device, dtype, and for a shard (mesh, the dimensions of the mesh that shard it)


class Gradients(NamedTuple):
    """For each parameter what to measure and what to scale (None without one), and of which kind it is."""

    measured: list[Any]
    scaled: list[Any]
    kinds: list[Kind | None]
    meshes: list[Any]


def gradients_of(parameters: Sequence[torch.nn.Parameter], *, sharded: bool) -> Gradients:
    """The gradients at this moment; empty ones count as none, since not every norm takes them."""
    measured: list[Any] = [parameter.grad for parameter in parameters]
    scaled = measured
    meshes: list[Any] = [None] * len(measured)
    if sharded or any([grad is not None and grad.is_sparse for grad in measured]):  # noqa: C419 - a list is quicker than a generator
        opened = [_opened(parameter) for parameter in parameters]
        measured, scaled, meshes = ([each[part] for each in opened] for part in range(3))
    kinds = [
        None if grad is None or not grad.numel() else (grad.device, grad.dtype, mesh)
        for grad, mesh in zip(measured, meshes, strict=True)
    ]
    return Gradients(measured, scaled, kinds, list(dict.fromkeys(mesh for mesh in meshes if mesh)) if sharded else [])


def is_sharded(parameter: object) -> bool:
    """Whether it is a DTensor; where nothing has loaded that module, nothing is one."""
    kind = getattr(_module(), "DTensor", None)
    return kind is not None and isinstance(parameter, kind)


def _opened(parameter: torch.nn.Parameter) -> tuple[Any, Any, Any]:
    grad: Any = parameter.grad
    if is_sharded(parameter):
        if grad is None:
            return None, None, _mesh(parameter)
        whole = grad
        if any(placement.is_partial() for placement in grad.placements):  # sums that are still to be taken over ranks
            replicate = _module().Replicate()
            whole = grad.redistribute(placements=[replicate if each.is_partial() else each for each in grad.placements])
        return _local(whole), _local(grad), _mesh(whole)
    if grad is not None and grad.is_sparse:
        parameter.grad = grad = grad.coalesce()  # the same gradient; only so its values can be measured
        return grad._values(), grad._values(), None  # noqa: SLF001 - `values()` refuses to be changed in place
    return grad, grad, None


def _mesh(tensor: Any) -> tuple[Any, tuple[int, ...]]:  # noqa: ANN401 - a DTensor
    return tensor.device_mesh, tuple(index for index, each in enumerate(tensor.placements) if each.is_shard())


def _local(tensor: Any) -> Any:  # noqa: ANN401 - a DTensor, and its shard
    local = tensor.to_local()
    return local.wait() if hasattr(local, "wait") else local


def _module() -> Any:  # noqa: ANN401 - torch.distributed.tensor, of its older name before 2.5
    return sys.modules.get("torch.distributed.tensor") or sys.modules.get("torch.distributed._tensor")
