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
    """Look at the loss when its `backward` is fetched."""
    original = vars(module.Tensor).get("backward")
    if callable(original):
        module.Tensor.backward = _Looking(original)
        patching.reached.append("Tensor.backward")


class _Looking:
    """Gives the method as it is, so that no frame of ours stands in the user's traceback; the class gives the function."""

    def __init__(self, original: Any) -> None:
        self._original = original
        self._bind = original.__get__
        self.__doc__ = original.__doc__

    def __get__(self, loss: Any, owner: Any = None) -> Any:
        if loss is None:
            return self._original
        if not tracing.is_compiling():
            try:
                _look(loss)
            except Exception:
                ours("loss")
        return self._bind(loss, owner)


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
