"""The norms of groups of gradients, as tensors where the gradients are: reading one as a number waits for the device."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import torch

__all__ = ["GradientNorms"]


class GradientNorms(Mapping[str, torch.Tensor]):
    """The norm of each group before clipping, by its pattern; ``(rest)`` holds what no pattern took."""

    def __init__(self, limits: Mapping[str, float], norms: torch.Tensor, norm_type: float, unmatched: Sequence[str]) -> None:
        self.limits = dict(limits)
        self.unmatched = tuple(unmatched)
        self._norms = norms
        self._norm_type = norm_type

    @property
    def total(self) -> torch.Tensor:
        """The norm over all groups: what `clip_grad_norm_` over all parameters returns."""
        total: torch.Tensor = torch.linalg.vector_norm(self._norms, self._norm_type)
        return total

    def report(self) -> dict[str, float]:
        """All norms as numbers, ``total`` first, in one transfer; the only part that waits for the device."""
        total, *norms = torch.cat([self.total[None], self._norms]).tolist()
        return {"total": total, **dict(zip(self.limits, norms, strict=True))}

    def __getitem__(self, pattern: str) -> torch.Tensor:
        return self._norms[list(self.limits).index(pattern)] if pattern in self.limits else self._missing(pattern)

    def __iter__(self) -> Iterator[str]:
        return iter(self.limits)

    def __len__(self) -> int:
        return len(self.limits)

    def __str__(self) -> str:
        told = {name: value for name, value in self.report().items() if name != "total" or name in self.limits}
        return ", ".join(
            f"{name} {value:.4g}" + (f" > {self.limits[name]:g}" if value > self.limits[name] else "")
            for name, value in told.items()
        )

    def _missing(self, pattern: str) -> torch.Tensor:
        raise KeyError(f"{pattern!r} is no pattern of this clip; there are {', '.join(self.limits)}")
