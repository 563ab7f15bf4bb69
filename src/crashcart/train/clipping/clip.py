"""Clips the gradients of each module by a norm of its own, in one pass and without waiting for the device.

clip = clip_by_module({"depth_head": 0.5, "aggregator.*": 0.3}, rest=1.0)
...
loss.backward()
norms = clip(model)
optimizer.step()
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import nn

from crashcart.train.clipping.gradients import gradients_of, is_sharded
from crashcart.train.clipping.layout import Layout
from crashcart.train.clipping.module_groups import groups_of
from crashcart.train.clipping.norms import GradientNorms

__all__ = ["ModuleClip", "clip_by_module"]

_REST = "(rest)"
_NAMED = 6


def clip_by_module(
    limits: Mapping[str, float], *, rest: float | None = None, norm_type: float = 2.0, error_if_nonfinite: bool = False
) -> ModuleClip:
    """A function of the model that clips the gradients under each pattern together, and returns their norms.

    `limits`: the largest norm for each module name or glob; the first pattern that fits a parameter takes it.
    `rest`: the largest norm of what no pattern takes; None leaves it alone with a warning, `math.inf` without one.
    `error_if_nonfinite`: raise, before anything is scaled, where a norm is NaN or infinite; this waits for the device.
    Otherwise such a group is scaled as torch does (to NaN or 0), and the other groups as if it were not there.
    """
    if not isinstance(limits, Mapping):
        raise TypeError("clip_by_module takes the limits and gives a function of the model: clip_by_module({...})(model)")
    if not limits:
        raise ValueError("clip_by_module needs at least one pattern with its largest norm")
    for pattern, limit in [*limits.items(), *([] if rest is None else [("rest", rest)])]:
        if isinstance(limit, (bool, str)) or not isinstance(limit, (int, float)):
            raise TypeError(f"clip_by_module: the largest norm of {pattern!r} must be a number, not {limit!r}")
        if not limit >= 0:
            raise ValueError(f"clip_by_module: the largest norm of {pattern!r} cannot be {limit!r}")
    if not norm_type > 0:
        raise ValueError(f"clip_by_module: norm_type must be above 0, not {norm_type!r}")
    return ModuleClip(limits, rest, float(norm_type), error_if_nonfinite)


class ModuleClip:
    """What `clip_by_module` gives; remembers the groups of each model, and looks again when its parameters change."""

    def __init__(self, limits: Mapping[str, float], rest: float | None, norm_type: float, error_if_nonfinite: bool) -> None:  # noqa: FBT001 - one caller
        self.limits = {pattern: float(limit) for pattern, limit in limits.items()}
        self.rest = rest
        self.norm_type = norm_type
        self.error_if_nonfinite = error_if_nonfinite
        self._known: WeakKeyDictionary[nn.Module, _Known] = WeakKeyDictionary()
        self._told: set[str] = set()

    @torch.no_grad()
    def __call__(self, model: nn.Module) -> GradientNorms:
        """Scale the gradients in place; call it where `clip_grad_norm_` stood, after `unscale_` if there is a scaler."""
        if not isinstance(model, nn.Module):
            raise TypeError(
                f"clip_by_module: clip(model) needs the module itself and its names, not a {type(model).__name__}"
            )
        known = self._known.get(model)
        if known is None or not known.still_true():
            known = self._known[model] = _Known(model, tuple(self.limits))
        unmatched = known.groups.unmatched
        limits = {**self.limits, _REST: math.inf if self.rest is None else float(self.rest)} if unmatched else self.limits
        gradients = gradients_of(known.groups.parameters, sharded=known.sharded)
        if known.layout is None or known.layout.kinds != gradients.kinds:
            known.layout = Layout(gradients, known.groups.numbers, list(limits.values()))
            if not any(gradients.kinds) and not known.sharded:
                self._tell("nothing", "no parameter has a gradient; it belongs after backward and before zero_grad")
            forgotten = [name for name, kind in zip(reversed(unmatched), reversed(gradients.kinds), strict=False) if kind]
            if forgotten and self.rest is None:  # frozen ones have no gradient, and are told if they ever get one
                self._tell("unmatched", f"{_counted(forgotten[::-1])} and not clipped; rest=1.0 would clip them")
        norms = known.layout.norms(gradients.measured, self.norm_type)
        if self.error_if_nonfinite and not bool(norms.isfinite().all()):
            bad = [name for name, norm in zip(limits, norms.tolist(), strict=True) if not math.isfinite(norm)]
            raise RuntimeError(f"the gradients of {', '.join(bad)} are not finite, so nothing was clipped")
        known.layout.scale(gradients.scaled, norms)
        return GradientNorms(limits, norms, self.norm_type, unmatched)

    def _tell(self, kind: str, sentence: str) -> None:
        if kind not in self._told:
            self._told.add(kind)
            warnings.warn(f"clip_by_module: {sentence}", stacklevel=4)  # the line that clips, past no_grad's wrapper

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_known": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _known=WeakKeyDictionary())


class _Known:
    """The groups of one model, and the tables they were read from: walking all modules again costs more than the norms."""

    def __init__(self, model: nn.Module, patterns: tuple[str, ...]) -> None:
        modules = list(model.modules())
        self._tables: list[dict[str, Any]] = [table for each in modules for table in (each._parameters, each._modules)]  # noqa: SLF001 - the public walk is slow
        self._seen = self._entries()
        self.groups = groups_of(model, patterns)
        self.sharded = any(is_sharded(each) for each in self.groups.parameters)
        self.layout: Layout | None = None

    def still_true(self) -> bool:
        """Whether the same parameters and modules are in the same places."""
        return self._entries() == self._seen

    def _entries(self) -> list[int]:
        return [id(entry) for table in self._tables for entry in table.values()]


def _counted(names: list[str]) -> str:
    some = ", ".join(names[:_NAMED]) + (", ..." if len(names) > _NAMED else "")
    return f"{len(names)} parameters are under no pattern ({some})"
