"""A few numbers of every rank, known to all: what each decision that all ranks take together needs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import distributed

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["numbers_of_all"]


def numbers_of_all(numbers: Sequence[float], group: Any = None) -> list[list[float]]:  # noqa: ANN401 - a ProcessGroup
    """The numbers of each rank of the group, by rank; only our own where no group was started. Exact up to 2**53."""
    if not (distributed.is_available() and distributed.is_initialized()) or distributed.get_world_size(group) == 1:
        return [list(numbers)]
    own = torch.tensor(list(numbers), dtype=torch.float64, device=_device(group))
    gathered = [torch.empty_like(own) for _ in range(distributed.get_world_size(group))]
    distributed.all_gather(gathered, own, group=group)
    return [[float(number) for number in row] for row in torch.stack(gathered).tolist()]


def _device(group: Any) -> torch.device:  # noqa: ANN401 - a ProcessGroup
    """Where the group's collectives take their tensors: NCCL takes none on the host."""
    backend = str(distributed.get_backend(group))
    if "nccl" in backend and "gloo" not in backend:
        return torch.device("cuda", torch.cuda.current_device())
    if "xccl" in backend and "gloo" not in backend:
        return torch.device("xpu", torch.xpu.current_device())
    return torch.device("cpu")
