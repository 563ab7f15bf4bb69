"""The loss, as what `backward()` is called on: read at once on a CPU, a step later from a GPU."""

from __future__ import annotations

from _struct import Struct
from typing import Any

from . import events, late, page, patching, phases, steps, tracing
from .mistakes import ours

_show = Struct("2d").pack_into  # loss and loss_step
_FROM, _NONFINITE = page.at("loss") * 8, page.at("nonfinite")
# What a GradScaler made larger, and what it was: (identity of the product, the loss itself).
unscaled: list[Any] = [0, None]
_state = {"bad": False}


def take(value: float, step: int) -> None:
    """A loss has come: into the page, and an event when it is no number."""
    _show(page.here.mapping, _FROM, value, step)
    if value - value == 0:
        _state["bad"] = False
        return
    page.here.numbers[_NONFINITE] += 1
    if not _state["bad"]:  # told again after a finite one
        _state["bad"] = True
        events.write("nonfinite", step=step, what="loss", value=value)


later = late.Later(take)
page.after_fork.append(later.renew)


def install(module: Any) -> None:
    """Wrap `Tensor.backward`."""
    patching.replace(module.Tensor, "backward", _looking)


def _looking(original: Any) -> Any:
    def backward(self: Any, *args: Any, **kwargs: Any) -> Any:
        if tracing.is_compiling():
            return original(self, *args, **kwargs)
        try:
            _look(self)
        except Exception:
            ours("loss")
        return original(self, *args, **kwargs)

    return backward


def _look(loss: Any) -> None:
    if unscaled[0]:
        if unscaled[0] == id(loss):
            loss = unscaled[1]
        unscaled[:] = 0, None
    page.here.beats += 1
    if phases.now.lasting == phases.START_UP:
        phases.last(phases.TRAIN, "backward")
    # Subclasses (sharded, fake, functional tensors) have rules of their own; so has a program that watches every operation.
    if type(loss) is not tracing.tensor or loss.numel() != 1 or tracing.watched():
        return
    if tracing.modes():
        with tracing.torch._C.DisableTorchFunction():
            _read(loss)
    elif loss.is_cpu:
        take(loss.item(), steps.shown.steps)
    else:
        _read(loss)


def _read(loss: Any) -> None:
    if loss.is_cpu:
        take(loss.item(), steps.shown.steps)
    elif loss.is_cuda:
        later.put(loss, steps.shown.steps)
