"""GradScaler: the scale, the steps that it skipped, and the loss before it was scaled."""

from __future__ import annotations

import math
from typing import Any

from . import events, late, losses, page, patching, tracing
from .mistakes import ours

_last = {"scale": 0.0, "backoff": 0.5}


def install(module: Any) -> None:
    """Wrap `scale` and `update` where the class has its own."""
    for name in ("GradScaler", "ShardedGradScaler"):
        kind = vars(module).get(name)
        if isinstance(kind, type) and kind.__module__ == module.__name__:
            patching.replace(kind, "scale", _scaling)
            patching.replace(kind, "update", _updating)


def take(scale: float, step: int) -> None:
    """A scale has come: one that is smaller than before means skipped steps."""
    before, _last["scale"] = _last["scale"], scale
    page.put("scale", scale)
    page.add("skipped", 0)
    if scale - scale != 0 or scale == 0:
        events.write("nonfinite", step=step, what="scale", value=scale)
    elif scale < before:
        page.add("skipped", max(1, round(math.log(scale / before) / math.log(_last["backoff"]))))


later = late.Later(take)
page.after_fork.append(later.renew)


def _scaling(original: Any) -> Any:
    def scale(self: Any, outputs: Any) -> Any:
        result = original(self, outputs)
        if not tracing.is_compiling():
            try:
                _remember(self, outputs, result)
            except Exception:
                ours("scale")
        return result

    return scale


def _remember(scaler: Any, outputs: Any, result: Any) -> None:
    if result is not outputs and type(outputs) is tracing.torch.Tensor:
        losses.unscaled[:] = id(result), outputs.detach()
        if not _last["scale"]:
            _last["scale"] = getattr(scaler, "_init_scale", 0.0) or 0.0


def _updating(original: Any) -> Any:
    def update(self: Any, *args: Any, **kwargs: Any) -> Any:
        result = original(self, *args, **kwargs)
        if not tracing.is_compiling():
            try:
                _look(self, given=bool(args or kwargs))
            except Exception:
                ours("scaler update")
        return result

    return update


def _look(scaler: Any, *, given: bool) -> None:
    scale = getattr(scaler, "_scale", None)
    torch = tracing.torch
    if scale is None or torch is None or type(scale) is not torch.Tensor or tracing.watched():
        return
    if given:  # a scale that the program sets says nothing about skipped steps
        _last["scale"] = 0.0
    _last["backoff"] = min(0.999, float(getattr(scaler, "_backoff_factor", 0.5)) or 0.5)
    step = int(page.here.numbers[page.STEPS])
    with torch._C.DisableTorchFunction():
        if scale.device.type == "cpu":
            take(scale.item(), step)
        elif scale.device.type == "cuda":
            later.put(scale, step)
