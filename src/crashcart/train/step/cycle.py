"""The end of a window: unscale, mean, clip, agree, step, update, clear; each at its only right place, for all ranks alike.

The numbers that tell how it went stay on the device. They are read once where an optimizer needs the host to decide, and
otherwise sent on their way.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import torch

from crashcart.train.step.gradients import Gradients
from crashcart.train.step.saying import say

if TYPE_CHECKING:
    from torch import Tensor

    from crashcart.train.step.kept import Micro
    from crashcart.train.step.stepping import Stepping
    from crashcart.train.step.syncing import Syncing
    from crashcart.train.step.together import Ranks

__all__ = ["SOME_WEIGHTED", "Cycle", "Window", "checked_clip"]

SOME_WEIGHTED = (
    "weight was given for {} and not for the others: give it for all or for none, they are set against each other."
)


class Window:
    """Micro batches since the last optimizer step."""

    def __init__(self) -> None:
        self.micros: list[Micro] = []
        self.losses: list[Tensor] = []
        self.weights: list[Tensor | float] = []
        self.weighted = False
        self.spoiled = False
        self.unreduced = False
        self.sums: Tensor | None = None
        self.own_weight: Tensor | None = None
        self.handle: Any = None

    def add(self, micro: Micro, loss: Tensor, weight: Tensor | float | None) -> None:
        """One more micro batch, of which backward is about to run."""
        if self.micros and self.weighted != (weight is not None):
            raise ValueError(SOME_WEIGHTED.format("some micro batches of a step"))
        if _not_a_weight(weight):
            raise ValueError(f"weight is {weight}: give the number of samples or tokens of the micro batch, 0 or more.")
        self.micros.append(micro)
        self.losses.append(loss.detach())
        self.weights.append(1.0 if weight is None else weight)
        self.weighted = self.weighted or weight is not None

    def mean_loss(self) -> Tensor:
        """Weighted as the gradients are."""
        total = sum(self.weights)
        return sum((loss.float() * weight for loss, weight in zip(self.losses, self.weights, strict=True)), start=torch.zeros((), device=self.losses[0].device)) / total  # fmt: skip


class Cycle:
    """One optimizer step, or none, out of a window."""

    def __init__(
        self,
        stepping: Stepping,
        syncing: Syncing,
        ranks: Ranks,
        *,
        clip: Any,  # noqa: ANN401 - a number or a function of the model
        model: Any,  # noqa: ANN401 - what that function gets
        accumulate: int,
    ) -> None:
        self.stepping, self.syncing, self.ranks = stepping, syncing, ranks
        self.clip, self.model, self.accumulate = clip, model, accumulate
        self.norm: Tensor | None = None
        self._told = False

    @torch.no_grad()
    def begin_agreement(self, window: Window, device: torch.device) -> None:
        """Ask all ranks for their losses and weights; before the last backward, so that the answer comes while it runs."""
        weight = sum(window.weights)
        said = [float(bool(window.micros) and window.weighted), float(bool(window.micros) and not window.weighted)]
        if device.type == "cpu":
            bad = window.spoiled or not all(math.isfinite(loss) for loss in window.losses)
            window.sums = torch.tensor([float(bad), float(weight), *said])
        else:
            bad_losses = torch.full((), float(window.spoiled), device=device)
            if window.losses and not window.spoiled:
                losses = torch.stack([loss.to(device, torch.float32, non_blocking=True) for loss in window.losses])
                bad_losses = (~losses.isfinite().all()).float()
            whole = weight if isinstance(weight, torch.Tensor) else torch.full((), float(weight), device=device)
            numbers = [bad_losses, whole.detach().to(device, torch.float32, non_blocking=True)]
            if self.ranks.size > 1:
                numbers += [torch.full((), one, device=device) for one in said]
            window.sums = torch.stack(numbers)
        window.own_weight = None if self.syncing.averages or self.ranks.size == 1 else window.sums[1].clone()
        window.handle = self.ranks.begin_sum(window.sums)

    @torch.no_grad()
    def close(self, window: Window, *, uneven: bool = False) -> tuple[Tensor | None, list[float] | None]:
        """Step, unless the loss or a gradient of any rank is not finite. The numbers of it: on the device, or known already."""
        found = self.stepping.unscale()
        assert window.sums is not None  # noqa: S101 - for the type checker: both callers begin an agreement first
        self.ranks.end_sum(window.handle)
        if window.sums.device.type == "cpu" and self.ranks.size > 1 and self._some_weighted(window.sums) > 0:
            raise ValueError(SOME_WEIGHTED.format("some ranks"))
        gradients = Gradients(self.stepping.parameters())
        self._ask_for_gradients(window, gradients)
        self._to_mean(window, gradients, uneven=uneven)
        self.norm = norm = self._clipped(gradients, found)
        apart = self._apart()
        unseen = self.stepping.can_wait(window.sums.device)
        if window.sums.device.type == "cpu" and not unseen:
            values = self._on_host(window.sums, window.losses, norm, found, apart=apart)
        else:
            bad, numbers = self._on_device(window.sums, window.losses, norm, found, apart=apart)
            if unseen:
                self.stepping.step_unseen(bad)
                self.stepping.update(bad, window.sums[0] > 0)
                self.stepping.clear()
                return numbers, None
            values = numbers.tolist()
        if values[0] == 0:
            self.stepping.step()
        self.stepping.update(values[0], values[1] > 0)
        self.stepping.clear()
        return None, values

    @staticmethod
    def _some_weighted(sums: Tensor) -> Tensor:
        """Above 0 where some ranks gave weights and others none: each would divide by another number, and their models part."""
        return sums[2] * sums[3]

    def _ask_for_gradients(self, window: Window, gradients: Gradients) -> None:
        """Steps that change nothing are no steps: say so, once."""
        if gradients.owners or not window.micros or window.spoiled or self._told:
            return
        if not any(parameter.numel() for parameter in self.stepping.parameters()):
            return  # All of it lies on other ranks.
        self._told = True
        say(
            "StepGuard: no parameter of the optimizer got a gradient, so this step changes nothing. If it was made before the "
            "model was moved, wrapped or replaced, it holds other parameters: make it afterwards."
        )

    def _apart(self) -> bool:
        """Whether ranks may hold different gradients; asked of what could have one, so that all ranks answer alike."""
        return self.ranks.size > 1 and not all(
            id(parameter) in self.syncing.covered for parameter in self.stepping.parameters() if parameter.requires_grad
        )

    def _on_host(
        self, sums: Tensor, losses: list[Tensor], norm: Tensor | None, found: Tensor | None, *, apart: bool
    ) -> list[float]:
        """All is in the host's memory anyway: plain numbers cost the least."""
        bad_losses = float(sums[0])
        length = 0.0 if norm is None else float(norm)
        bad = float(not math.isfinite(length) or (found is not None and float(found) > 0))
        if apart:
            bad = float(self.ranks.sum(torch.tensor(bad)))
        scale = self.stepping.scale()
        return [
            float(bad > 0 or bad_losses > 0), bad_losses, length, 1.0 if scale is None else float(scale), 0.0, *map(float, losses)
        ]  # fmt: skip

    def _on_device(
        self, sums: Tensor, losses: list[Tensor], norm: Tensor | None, found: Tensor | None, *, apart: bool
    ) -> tuple[Tensor, Tensor]:
        """The flag, exactly 0 or 1 as fused optimizers want it, and all numbers; nothing is waited for."""
        none = torch.zeros((), device=sums.device)
        bad = none if norm is None else (~norm.isfinite()).to(sums.device, torch.float32, non_blocking=True)
        if found is not None:
            bad = bad + (found > 0).to(sums.device, torch.float32, non_blocking=True)
        if apart:
            bad = self.ranks.sum(bad.clone())
        bad = ((bad + sums[0]) > 0).float()
        scale = self.stepping.scale()
        some = self._some_weighted(sums) if self.ranks.size > 1 else none
        parts = [bad, sums[0], none if norm is None else norm, none + 1 if scale is None else scale, some, *losses]
        return bad, torch.stack([part.to(sums.device, torch.float32, non_blocking=True) for part in parts])

    def _to_mean(self, window: Window, gradients: Gradients, *, uneven: bool) -> None:
        """From the sum of `loss / accumulate` to the mean over what was really there."""
        if window.weighted or uneven:
            assert window.sums is not None  # noqa: S101 - as above
            total = window.sums[1] if window.own_weight is None else window.own_weight
            ranks = self.ranks.size if window.own_weight is None else 1
            gradients.multiply(self.accumulate * ranks / total.clamp(min=1e-12))
        elif window.micros and len(window.micros) != self.accumulate:
            gradients.multiply(self.accumulate / len(window.micros))

    def _clipped(self, gradients: Gradients, found: Tensor | None) -> Tensor | None:
        """The norm before clipping; None where the scaler's own look was enough."""
        if self.clip is None:
            return gradients.local_norm() if found is None else None
        if not callable(self.clip):
            whole = [shard for shard in self.syncing.shards if hasattr(shard, "clip_grad_norm_")]
            if whole:  # Flat shards of FSDP1: only the root knows how to sum them.
                return whole[0].clip_grad_norm_(float(self.clip))  # type: ignore[no-any-return]
            return gradients.clip(float(self.clip))
        norm = self.clip(self.model)
        norm = getattr(norm, "total", norm)
        if hasattr(norm, "full_tensor"):
            norm = norm.full_tensor()
        if isinstance(norm, (int, float)):
            return torch.full((), float(norm), device=gradients.owners[0].device if gradients.owners else None)
        return norm if isinstance(norm, torch.Tensor) else gradients.local_norm()


def _not_a_weight(weight: Tensor | float | None) -> bool:
    """Where it can be seen without waiting for a device."""
    if weight is None or (isinstance(weight, torch.Tensor) and weight.device.type != "cpu"):
        return False
    return not (weight >= 0 and math.isfinite(weight))


def checked_clip(clip: Any) -> Any:  # noqa: ANN401 - a number or a function of the model
    """A limit that can be one."""
    if clip is None or callable(clip):
        return clip
    if isinstance(clip, bool) or not isinstance(clip, (int, float)) or not clip > 0 or math.isnan(clip):
        raise ValueError(f"clip is {clip!r}: give a positive number, a function of the model, or None for no clipping.")
    return clip
