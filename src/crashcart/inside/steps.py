"""Optimizer steps and learning rates, by torch's own hook for all optimizers.

A step that torch.compile traces is left alone: a hook in it would be in the graph.
"""

from __future__ import annotations

import time
import weakref
from _struct import Struct
from _thread import get_ident
from typing import Any

from . import events, memory, page, patching, phases, tracing
from .mistakes import ours

_PROGRESS = page.PROGRESS
# beats, phase, phase_since, steps, step_time, lr, lr_highest
_show = Struct("7d").pack_into
_FROM = page.BEATS * 8
_JUMP = 5.0
_monotonic = time.monotonic


class Known:
    """An optimizer that was seen: its steps, its rates, its parameters by identity."""

    __slots__ = ("owned", "rates", "reference", "steps", "when")

    def __init__(self, optimizer: Any) -> None:
        self.reference = weakref.ref(optimizer)
        self.steps = 0
        self.when = 0.0
        self.rates: list[Any] = []
        self.owned: set[int] = set()


class _Shown:
    """What stands in the page; of several optimizers the one with most steps counts."""

    __slots__ = ("highest", "rate", "seconds", "steps")

    def __init__(self) -> None:
        self.renew()

    def renew(self) -> None:
        """As before the first step."""
        self.steps = 0
        self.seconds = self.rate = self.highest = page.NAN
        known.clear()


known: dict[int, Known] = {}
shown = _Shown()
page.after_fork.append(shown.renew)


def install(module: Any) -> None:
    """Register the hook, and know optimizers from their making on."""
    register = getattr(module, "register_optimizer_step_post_hook", None)
    if register is not None:
        register(_after_step)
        patching.reached.append("optimizer steps")
    patching.replace(module.Optimizer, "__init__", _noting)


def _noting(original: Any) -> Any:
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:  # noqa: N807
        original(self, *args, **kwargs)
        if not tracing.is_compiling():
            try:
                note(self)
            except Exception:
                ours("optimizer")

    return __init__


def note(optimizer: Any) -> Known:
    """Remember an optimizer, and tell of it."""
    if len(known) > 64:
        for key in [key for key, entry in known.items() if entry.reference() is None]:
            del known[key]
        if len(known) > 64:
            known.clear()
    entry = known[id(optimizer)] = Known(optimizer)
    groups = optimizer.param_groups
    count = 0
    for group in groups:
        for parameter in group["params"]:
            entry.owned.add(id(parameter))
            count += parameter.numel()
    kind = type(optimizer)
    name = kind.__module__ + "." + kind.__qualname__
    events.write("optimizer", **{"class": name, "groups": len(groups), "tensors": len(entry.owned), "parameters": count})
    return entry


def _after_step(optimizer: Any, args: Any, kwargs: Any) -> None:  # noqa: ARG001
    if tracing.is_compiling():
        return
    try:
        _count(optimizer)
    except Exception:
        ours("optimizer step")


def _count(optimizer: Any) -> None:
    entry = known.get(id(optimizer))
    if entry is None or entry.reference() is not optimizer:
        entry = note(optimizer)
    here = page.here
    moment = _monotonic()
    entry.steps += 1
    if entry.steps >= shown.steps:
        shown.steps = entry.steps
        if entry.when:
            shown.seconds = moment - entry.when
    entry.when = moment
    rates = [group.get("lr") for group in optimizer.param_groups]
    if rates != entry.rates:
        _new_rates(entry, rates)
    if phases.now.lasting != phases.TRAIN:
        phases.now.thread = get_ident()
        phases.last(phases.TRAIN, "step")
    here.beats += 1
    _show(here.mapping, _FROM, here.beats, here.phase, here.since, shown.steps, shown.seconds, shown.rate, shown.highest)
    here.numbers[_PROGRESS] = moment
    if moment > here.next_look:
        memory.look(moment)


def _new_rates(entry: Known, given: list[Any]) -> None:
    before, entry.rates = entry.rates, list(given)
    rates = [_plain(rate) for rate in given]
    seen = [rate for rate in rates if rate is not None]
    if not seen:
        return
    shown.rate, shown.highest = seen[0], max(seen)
    old = [_plain(rate) for rate in before]
    if not before or any(_jumped(was, rate) for was, rate in zip(old, rates)):
        events.write("lr", step=entry.steps, before=old[:16], rates=rates[:16], groups=len(rates))


def _plain(rate: Any) -> Any:
    """A rate as a number; one on a device stays there, since reading it would wait for the device."""
    if isinstance(rate, (int, float)):
        return float(rate)
    if rate is not None and getattr(getattr(rate, "device", None), "type", "") == "cpu" and rate.numel() == 1:
        return float(rate.item())
    return None


def _jumped(before: Any, after: Any) -> bool:
    if before is None or after is None or before <= 0 or after <= 0:
        return False
    return bool(after > before * _JUMP or before > after * _JUMP)
