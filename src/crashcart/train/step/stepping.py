"""Optimizers and a GradScaler that take one decision from outside: a flag that all ranks share, read as late as can be.

Fused optimizers take the flag as `found_inf` and leave weights, moments and step counts alone where it is 1; the host never
looks. All others need one read on the host, which stands in for the one that `GradScaler.step` would make.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["Stepping"]


class Stepping:
    """Unscale, step, update and clear, in the only order that is right."""

    def __init__(self, optimizers: list[Any], scaler: Any) -> None:  # noqa: ANN401 - any optimizer, any scaler with torch's methods
        for one in optimizers:
            if not hasattr(one, "param_groups"):
                raise TypeError(
                    f"StepGuard(model, optimizer) needs an optimizer in the second place, not {type(one).__name__}."
                )
        if scaler is not None and not hasattr(scaler, "is_enabled"):
            raise TypeError(f"scaler is {scaler!r}: give a GradScaler, or None without one.")
        self.optimizers = [_own(optimizer) for optimizer in optimizers]
        if any(isinstance(optimizer, torch.optim.LBFGS) for optimizer in self.optimizers):
            raise ValueError("StepGuard cannot guard LBFGS: it calls backward itself, by a closure; take another optimizer.")
        self.scaler = scaler if scaler is not None and scaler.is_enabled() else None

    def parameters(self) -> list[Tensor]:
        """What the optimizers change, each once, in order."""
        return list(
            {
                id(parameter): parameter
                for optimizer in self.optimizers
                for group in optimizer.param_groups
                for parameter in group["params"]
            }.values()
        )

    def scaled(self, loss: Tensor) -> Tensor:
        """The loss times the scale."""
        return loss if self.scaler is None else self.scaler.scale(loss)

    def scale(self) -> Tensor | None:
        """The scale on the device, None without a scaler."""
        return None if self.scaler is None else self.scaler._scale  # noqa: SLF001 - `get_scale` waits for the device

    def unscale(self) -> Tensor | None:
        """Divide all gradients by the scale, unless the user did; what the scaler found, summed, as a flag on the device."""
        if self.scaler is None:
            return None
        for optimizer in self._with_gradients():
            if self.scaler._scale is None:  # noqa: SLF001 - a rank whose first window is one that only the others had
                self.scaler.scale(torch.ones((), device=optimizer.param_groups[0]["params"][0].device))
            try:
                self.scaler.unscale_(optimizer)
            except RuntimeError as error:
                if "already been called" not in str(error):
                    raise
        found = self.found()
        return torch.stack([one.to(found[0].device, non_blocking=True) for one in found]).sum() if found else None

    def can_wait(self, device: torch.device) -> bool:
        """Whether no host needs to know the flag: it lies on a GPU and every optimizer takes it there."""
        return device.type == "cuda" and all(_takes_flag(optimizer) for optimizer in self.optimizers)

    def step_unseen(self, bad: Tensor) -> None:
        """Step where the flag is 0; the device decides."""
        for optimizer in self._with_gradients():
            _fill_momentum(optimizer)
            optimizer.found_inf = bad
            try:
                optimizer.step()
            finally:
                del optimizer.found_inf

    def step(self) -> None:
        """Step all that have gradients."""
        for optimizer in self._with_gradients():
            optimizer.step()

    def update(self, bad: Tensor | float, by_loss: Tensor | bool) -> None:  # noqa: FBT001 - a flag, known or not
        """Let the scaler go on with the flag that all ranks share.

        A loss that was not finite before it was scaled says nothing about the scale, which stays: otherwise some dozens of
        broken samples take it to where gradients are rounded to zero, and nothing says so.
        """
        found = self.found()
        if self.scaler is None or not found:
            return
        for one in found:
            one.fill_(bad) if isinstance(bad, float) else one.copy_(bad, non_blocking=True)
        own = () if by_loss is False else (self.scaler._scale, self.scaler._growth_tracker)  # noqa: SLF001 - no public name
        before = [tensor.clone() for tensor in own]
        self.scaler.update()
        for tensor, old in zip(own, before, strict=True):
            if isinstance(by_loss, torch.Tensor):
                old = torch.where(by_loss.to(tensor.device, non_blocking=True), old, tensor)  # noqa: PLW2901 - old or new, as it says
            tensor.copy_(old)

    def clear(self) -> None:
        """No gradients, which is not the same as gradients of zero."""
        for optimizer in self.optimizers:
            optimizer.zero_grad(set_to_none=True)

    def forget(self) -> None:
        """What other backwards left on these parameters: the other half of a GAN, a trial before the first step."""
        for parameter in self.parameters():
            if parameter.grad is not None:
                parameter.grad = None

    def abandon(self) -> None:
        """After an error in the middle of a step: no half of it may reach the next one."""
        if self.scaler is not None:
            self.scaler._per_optimizer_states.clear()  # noqa: SLF001 - `update` would take half a step for a whole one
        self.clear()

    def _with_gradients(self) -> list[Any]:
        """A scaler refuses an optimizer without any gradient, and a step without them does nothing."""
        return [
            optimizer
            for optimizer in self.optimizers
            if any(parameter.grad is not None for group in optimizer.param_groups for parameter in group["params"])
        ]

    def found(self) -> list[Tensor]:
        """The flags of the scaler, on each device, since it unscaled; none before."""
        if self.scaler is None:
            return []
        states = self.scaler._per_optimizer_states  # noqa: SLF001 - the only place where ranks can be made to agree
        return [
            one
            for optimizer in self.optimizers
            if id(optimizer) in states
            for one in states[id(optimizer)]["found_inf_per_device"].values()
        ]


def _own(optimizer: Any) -> Any:  # noqa: ANN401 - any optimizer
    """Accelerate's wrapper steps and clears only when it thinks so; ours is the cycle, so take what it wraps."""
    inner = getattr(optimizer, "optimizer", None)
    return inner if type(optimizer).__name__ == "AcceleratedOptimizer" and inner is not None else optimizer


def _takes_flag(optimizer: Any) -> bool:  # noqa: ANN401 - any optimizer
    """A state loaded from a run without `fused` switches it off in the groups, and only there."""
    return bool(getattr(optimizer, "_step_supports_amp_scaling", False)) and all(
        group.get("fused") and not (group.get("momentum") and group.get("dampening")) for group in optimizer.param_groups
    )


def _fill_momentum(optimizer: Any) -> None:  # noqa: ANN401 - any optimizer
    """Fused SGD makes momentum of uninitialised memory, and leaves it so when its first step is skipped (torch 2.3 to 2.13).

    Zeros instead give the same first step (without dampening, which `_takes_flag` leaves to the host).
    """
    if not isinstance(optimizer, torch.optim.SGD):
        return
    for group in optimizer.param_groups:
        for parameter in group["params"] if group["momentum"] else ():
            if parameter.grad is not None and optimizer.state[parameter].get("momentum_buffer") is None:
                optimizer.state[parameter]["momentum_buffer"] = torch.zeros_like(parameter)
