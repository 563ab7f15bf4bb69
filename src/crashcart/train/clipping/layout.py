"""Norms and factors of groups of gradients, a foreach call for all that lie on one device in one dtype.

The shard of a DTensor (FSDP2, tensor parallelism) is measured where it is, and the powers are added over the dimensions of
the mesh that shard it: one small all-reduce for each kind of mesh, which every rank enters, also one whose shards are empty.
"""

from __future__ import annotations

import math
from itertools import groupby
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import distributed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from crashcart.train.clipping.gradients import Gradients

__all__ = ["Layout"]

_TINY = 1e-6  # as torch's clip_grad_norm_


class _Piece(NamedTuple):
    device: torch.device
    dtype: torch.dtype
    mesh: Any
    positions: list[int]
    spans: list[tuple[int, int, int]]  # group, start and stop among the positions

    def of(self, gradients: list[Any]) -> list[torch.Tensor]:
        return gradients if len(self.positions) == len(gradients) else [gradients[each] for each in self.positions]


class Layout:
    """Which gradients are of one kind, and which of them belong to which group; holds no gradient."""

    def __init__(self, gradients: Gradients, numbers: Sequence[int], limits: Sequence[float]) -> None:
        self.kinds = gradients.kinds
        self._meshes = gradients.meshes
        self._limits = limits
        self._pieces = [
            _Piece(*kind, positions, _spans([numbers[position] for position in positions]))
            for kind in dict.fromkeys(kind for kind in self.kinds if kind is not None)
            for positions in [[position for position, each in enumerate(self.kinds) if each == kind]]
        ]
        self._tensors: dict[Any, torch.Tensor] = {}

    def norms(self, measured: list[Any], order: float) -> torch.Tensor:
        """The norm of each group over all its gradients, on the device of the first."""
        plain = [piece for piece in self._pieces if piece.mesh is None]
        found = [self._local_norms(None, plain, measured, order)] if plain else []
        for mesh in self._meshes:
            own = [piece for piece in self._pieces if piece.mesh == mesh]
            zeros = torch.zeros(len(self._limits), device=mesh[0].device_type)
            found.append(_over_mesh(self._local_norms(mesh, own, measured, order) if own else zeros, mesh, order))
        if not found:
            return torch.zeros(len(self._limits))
        if len(found) == 1:
            return found[0]
        joined: torch.Tensor = torch.linalg.vector_norm(torch.stack([each.to(found[0]) for each in found]), order, dim=0)
        return joined

    def scale(self, scaled: list[Any], norms: torch.Tensor) -> None:
        """Multiply the gradients of each group by limit / norm where that is below one."""
        if norms.device.type == "cpu":  # the numbers are at hand: a pass over the memory is spared where a factor is 1
            known = [limit / (norm + _TINY) for limit, norm in zip(self._limits, norms.tolist(), strict=True)]
            known = [min(factor, 1.0) for factor in known]  # in this order NaN stays, as in torch
            clipped = [number for number, factor in enumerate(known) if factor != 1.0 and self._limits[number] < math.inf]
            if not clipped:
                return
            factors = torch.tensor(known)
        else:
            clipped = [number for number, limit in enumerate(self._limits) if limit < math.inf]
            if "limits" not in self._tensors:
                self._tensors["limits"] = torch.tensor(self._limits, device=norms.device)
            factors = (self._tensors["limits"] / (norms + _TINY)).clamp_(max=1.0)
        for piece in self._pieces:
            gradients = piece.of(scaled)
            every = factors.to(piece.device, piece.dtype.to_real()).unbind()
            for number, start, stop in piece.spans:
                if number in clipped:
                    torch._foreach_mul_(gradients[start:stop], every[number])  # as torch.nn.utils does

    def _local_norms(self, mesh: Any, pieces: list[_Piece], measured: list[Any], order: float) -> torch.Tensor:  # noqa: ANN401 - (mesh, dimensions)
        norms = [torch._foreach_norm(piece.of(measured), order) for piece in pieces]  # noqa: SLF001 - as torch.nn.utils does
        if mesh not in self._tensors:
            self._tensors[mesh] = _table(pieces, len(self._limits)).to(norms[0][0].device)
            self._tensors["zero", mesh] = torch.zeros_like(norms[-1][0])
        rows = [torch.stack(each) for each in norms[:-1]] + [torch.stack((*norms[-1], self._tensors["zero", mesh]))]
        dtype = torch.float64 if any(each.dtype == torch.float64 for each in rows) else torch.float32
        rows = [each.to(rows[0].device, dtype) for each in rows]
        flat = rows[0] if len(rows) == 1 else torch.cat(rows)
        of_groups: torch.Tensor = torch.linalg.vector_norm(torch.take(flat, self._tensors[mesh]), order, dim=1)
        return of_groups


def _table(pieces: list[_Piece], groups: int) -> torch.Tensor:
    """For each group the places of its norms, padded with the place of a zero, so that one reduction serves all groups."""
    rows: list[list[int]] = [[] for _ in range(groups)]
    before = 0
    for piece in pieces:
        for number, start, stop in piece.spans:
            rows[number].extend(range(before + start, before + stop))
        before += len(piece.positions)
    width = max(map(len, rows))
    return torch.tensor([row + [before] * (width - len(row)) for row in rows])


def _spans(numbers: list[int]) -> list[tuple[int, int, int]]:
    spans, start = [], 0
    for number, members in groupby(numbers):
        stop = start + len(list(members))
        spans.append((number, start, stop))
        start = stop
    return spans


def _over_mesh(local: torch.Tensor, mesh: Any, order: float) -> torch.Tensor:  # noqa: ANN401 - (mesh, dimensions)
    power = local if order == math.inf else local.pow(order)
    for dimension in mesh[1]:
        how = distributed.ReduceOp.MAX if order == math.inf else distributed.ReduceOp.SUM
        distributed.all_reduce(power, how, group=mesh[0].get_group(dimension))
    return power if order == math.inf else power.pow(1 / order)
