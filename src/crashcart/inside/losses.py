"""The loss, as what `backward()` is called on: read at once on a CPU, a step later from a GPU."""

from __future__ import annotations

import functools
from typing import Any

from . import events, inputs, late, page, patching, phases, steps, tracing
from .mistakes import Hook

_LOSS, _LOSS_STEP, _NONFINITE = page.at("loss"), page.at("loss_step"), page.at("nonfinite")
_BACKWARDS = page.at("backwards")
_TRAIN = phases.TRAIN
_hook = Hook("Tensor.backward")
_here, _now, _shown, _inputs = page.here, phases.now, steps.shown, inputs.last


class _State:
    __slots__ = ("bad", "scaled")

    def __init__(self) -> None:
        self.bad = False  # the last one was no number
        self.scaled = 0  # identity of what a GradScaler made of a loss that was looked at already


state = _State()


def take(value: float, step: int, batch: Any = None, loss: Any = None) -> None:
    """A loss has come: into the page, and an event when it is no number; `batch` is given for one that came late."""
    numbers = _here.numbers
    before = numbers[_LOSS]
    numbers[_LOSS] = value
    numbers[_LOSS_STEP] = step
    if value - value == 0:
        state.bad = False
        return
    numbers[_NONFINITE] += 1
    if not state.bad:  # told again after a finite one
        state.bad = True
        events.write(
            "nonfinite", step=step, what="loss", value=value, loss_before=before, **inputs.at_a_bad_loss(loss, batch)
        )


later = late.Later(take)
page.after_fork.append(later.renew)


def install(module: Any) -> None:
    """Look at the loss when its `backward` is fetched."""
    original = vars(module.Tensor).get("backward")
    if callable(original):
        module.Tensor.backward = _Looking(original)
        patching.reached.append("Tensor.backward")


class _Looking:
    """Gives the method as it is, so that no frame of ours stands in the user's traceback; the class gives the function.

    Whoever takes it from `vars(torch.Tensor)`, as `unittest.mock` does, finds what looks like that function.
    """

    __class__ = property(lambda self: type(self._original))

    def __init__(self, original: Any) -> None:
        self._original = original
        self._bind = original.__get__
        functools.update_wrapper(self, original)

    def __call__(self, loss: Any, *args: Any, **kwargs: Any) -> Any:
        return self.__get__(loss, type(loss))(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._original, name)

    def __repr__(self) -> str:
        return repr(self._original)

    def __reduce_ex__(self, protocol: Any) -> Any:
        return getattr, (tracing.torch.Tensor, "backward")

    def __get__(self, loss: Any, owner: Any = None) -> Any:
        if loss is None:
            return self._original
        if not tracing.is_compiling() and _hook.on:
            try:
                _here.numbers[_BACKWARDS] += 1
                if _now.lasting != _TRAIN:
                    _begins()
                scaled = state.scaled
                if scaled:
                    state.scaled = 0
                    if scaled == id(loss):
                        return self._bind(loss, owner)
                look(loss)
            except Exception:
                _hook.failed()
        return self._bind(loss, owner)


def _begins() -> None:
    if _now.lasting == phases.START_UP:
        phases.last(_TRAIN, "backward")
    else:
        phases.settle()


def look(loss: Any) -> None:
    """Read it, or have it copied; nothing that would wait for a device, nothing that the program's own watchers would see."""
    # Subclasses (sharded, fake, functional tensors) have rules of their own; so has a program that watches every operation.
    if type(loss) is not tracing.tensor or tracing.watched() or tracing.profiled():
        return
    if tracing.modes():
        with tracing.torch._C.DisableTorchFunction():
            _read(loss)
    else:
        _read(loss)


def _read(loss: Any) -> None:
    if loss.numel() != 1:
        return
    if loss.is_cpu:
        value = loss.item()
        if type(value) is float and value - value == 0 and not state.bad:  # as `take` does, without another call
            numbers = _here.numbers
            numbers[_LOSS] = value
            numbers[_LOSS_STEP] = _shown.steps
        elif type(value) is not complex:
            take(value, _shown.steps, None, loss)
    elif loss.is_cuda:
        later.put(loss, _shown.steps, _inputs.newest)
