"""For accelerate: a StepGuard that fits an Accelerator and what it prepared.

    model, optimizer, loader, scheduler = accelerator.prepare(model, optimizer, loader, scheduler)
    guard = guard_for(accelerator, model, optimizer, clip=1.0)
    for batch in guard.batches(loader):
        guard.backward(loss_of(model, batch))  # instead of backward, clip_grad_norm_, step and zero_grad
        if guard.stepped:
            scheduler.step()

In a loop that keeps `with accelerator.accumulate(model):` the window ends where accelerate says it does.
"""

from __future__ import annotations

from typing import Any

from crashcart.train.step import NotSafeToSave, StepGuard
from crashcart.train.step.rollback import not_finite_names

__all__ = ["guard_for"]

_OWN_CYCLE = ("DEEPSPEED", "MEGATRON_LM")


def guard_for(accelerator: Any, model: Any, optimizer: Any, **options: Any) -> StepGuard:  # noqa: ANN401 - an Accelerator, and what it prepared
    """A StepGuard with the accelerator's scaler and number of micro batches; `options` as of StepGuard.

        model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
        guard = guard_for(accelerator, model, optimizer, clip=1.0)
        for batch in guard.batches(loader):
            guard.backward(loss_of(model, batch))   # instead of accelerator.backward, clip_grad_norm_, step, zero_grad

    In a loop that keeps `with accelerator.accumulate(model):` call it inside of that.
    """
    kind = str(getattr(accelerator.distributed_type, "value", accelerator.distributed_type))
    if kind in _OWN_CYCLE:
        raise ValueError(f"guard_for cannot guard {kind}: it makes its steps itself; leave them to accelerator.backward.")
    options.setdefault("accumulate", accelerator.gradient_accumulation_steps)
    options.setdefault("scaler", accelerator.scaler)
    guard = _AcceleratedGuard(model, optimizer, **options)
    guard.follow(accelerator)
    return guard


class _AcceleratedGuard(StepGuard):
    """Ends a window with `accelerator.accumulate` where the loop uses it: gradients are averaged then, and not before."""

    _accelerator: Any = None
    _accumulates = False

    def follow(self, accelerator: Any) -> None:  # noqa: ANN401 - an Accelerator
        """Take its word for where windows end, and let it save no weights that are lost."""
        self._accelerator = accelerator
        accelerator.register_save_state_pre_hook(self._before_save)

    def _closes(self, last: bool | None) -> bool:  # noqa: FBT001 - unknown is a third answer
        if last is None and self._turn is None:
            # It counts micro batches only inside of `accumulate`; its last one of an epoch has the number 0 again.
            self._accumulates = self._accumulates or self._accelerator.step > 0
            last = self._accelerator.sync_gradients if self._accumulates else None
        return super()._closes(last)

    def _before_save(self, models: list[Any], weights: list[Any], folder: str) -> None:  # noqa: ARG002 - as accelerate calls it
        names = not_finite_names(models)
        if names:
            raise NotSafeToSave(
                f"No checkpoint was written to {folder}: {len(names)} tensors are not finite: {', '.join(names[:3])}."
            )
