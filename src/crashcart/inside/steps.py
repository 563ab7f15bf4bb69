"""Optimizer steps and learning rates, by torch's own hook for all optimizers.

A step that torch.compile traces is left alone: a hook in it would be in the graph.
"""

from __future__ import annotations

import time
from _thread import get_ident
from typing import Any

from . import events, memory, page, patching, phases, settings, tracing
from .mistakes import Hook

_PROGRESS, _STEPS = page.PROGRESS, page.STEPS
_STEP_TIME, _RATE, _HIGHEST = page.at("step_time"), page.at("lr"), page.at("lr_highest")
_MADE, _TOP = page.at("lr_made"), page.at("lr_top")
_INFINITE = float("inf")
_TRAIN = phases.TRAIN
_JUMP = 5.0
_MANY = 20_000  # tensors of an optimizer
_LOOKED_AT = 3  # the step after which gradients are looked for, once
_made, _stepped = Hook("optimizer"), Hook("optimizer step")
_monotonic = time.monotonic
_here, _now = page.here, phases.now


class Known:
    """An optimizer that was seen: its steps, its rates, its parameters by identity."""

    __slots__ = ("made", "numbers", "owned", "rate", "steps", "top", "updated", "when")

    def __init__(self) -> None:
        self.steps = self.updated = 0  # now, and at the last update of a gradient scaler
        self.when = 0.0
        self.rate: Any = None  # of the first group, as it stands there
        self.numbers: list[Any] = []  # the rates of all groups
        self.owned: set[int] = set()
        self.made: Any = None  # the rate of the first group, as the constructor got it
        self.top: Any = _INFINITE  # the largest rate of the first group, of the optimizer in the page; of others nobody asks


class _Shown:
    """The steps that stand in the page; of several optimizers the one with most steps counts."""

    __slots__ = ("leads", "steps")

    def __init__(self) -> None:
        self.renew()

    def renew(self) -> None:
        """As before the first step."""
        self.steps = 0
        self.leads = False  # some optimizer made the first step
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
        if not tracing.is_compiling() and _made.on:
            try:
                entry = note(self)
                entry.made = _plain(self.param_groups[0].get("lr"))
            except Exception:
                _made.failed()

    return __init__


def note(optimizer: Any) -> Known:
    """Remember an optimizer, and tell of it."""
    if len(known) > 64:
        known.clear()
    entry = known[id(optimizer)] = Known()  # where another one had this identity, it is gone
    groups = optimizer.param_groups
    count = 0
    for group in groups:
        for parameter in group["params"]:
            entry.owned.add(id(parameter))
            count += parameter.numel()
    kind = type(optimizer)
    name = kind.__module__ + "." + kind.__qualname__
    events.write("optimizer", **{"class": name, "groups": len(groups), "tensors": len(entry.owned), "parameters": count})
    settings.tell("optimizer", dict(settings.plain(optimizer.defaults), **{"class": name}))
    return entry


def _after_step(optimizer: Any, args: Any, kwargs: Any) -> None:  # noqa: ARG001
    if tracing.is_compiling() or not _stepped.on:
        return
    try:
        here = _here
        numbers = here.numbers
        entry = known.get(id(optimizer))
        if entry is None:
            entry = note(optimizer)
        moment = _monotonic()
        entry.steps = count = entry.steps + 1
        if count >= shown.steps:
            shown.steps = numbers[_STEPS] = count
            if entry.when:
                numbers[_STEP_TIME] = moment - entry.when
        entry.when = numbers[_PROGRESS] = moment
        if count <= _LOOKED_AT:
            _look_early(optimizer, entry)
        # A rate that a schedule changes every step is looked at in the first group; all of them when there is time.
        groups = optimizer.param_groups
        rate = groups[0].get("lr")
        if rate is not entry.rate or moment > here.next_look:
            was, entry.rate = entry.rate, rate
            if type(rate) is float is type(was) and rate < was * _JUMP and was < rate * _JUMP and moment <= here.next_look:
                numbers[_RATE] = rate
                if rate > entry.top:
                    entry.top = numbers[_TOP] = rate
            else:
                _new_rates(entry, groups)
        if _now.lasting != _TRAIN:
            _now.thread = get_ident()
            phases.last(_TRAIN, "step")
        if moment > here.next_look:
            memory.look(moment)
    except Exception:
        _stepped.failed()


def _look_early(optimizer: Any, entry: Known) -> None:
    """At the first step of all, which optimizer's rates are kept; a little later, what has a gradient."""
    if entry.steps == 1 and not shown.leads:
        shown.leads, entry.top = True, -1.0
        if entry.made is not None:
            _here.numbers[_MADE] = entry.made
    elif entry.steps == _LOOKED_AT:
        _look_at_gradients(optimizer)


def _look_at_gradients(optimizer: Any) -> None:
    """Tell of tensors that are frozen or have no gradient: where those are all, the steps change nothing.

    `idle` are the numbers of the groups none of whose tensors has one.
    """
    if tracing.modes() or tracing.watched() or tracing.profiled():  # a program that sees every operation would see ours
        return
    kinds = (tracing.tensor, getattr(getattr(tracing.torch, "nn", None), "Parameter", None))
    tensors = frozen = without = 0
    idle = []
    for place, group in enumerate(optimizer.param_groups):
        before, bare = tensors, frozen + without
        for parameter in group["params"]:
            if type(parameter) not in kinds or not parameter.is_leaf:
                return
            tensors += 1
            if not parameter.requires_grad:
                frozen += 1
            elif parameter.grad is None:
                without += 1
        if tensors > before and frozen + without - bare == tensors - before:
            idle.append(place)
        if tensors > _MANY:
            return
    if frozen + without:
        kind = "no gradients" if frozen + without == tensors else "few gradients"
        events.write(kind, step=_LOOKED_AT, tensors=tensors, frozen=frozen, without=without, idle=idle[:16])


def _new_rates(entry: Known, groups: Any) -> None:
    """Compare the rates of all groups with those before."""
    before: list[Any] = entry.numbers
    numbers: list[Any] = []
    first = highest = None
    jumped = not before
    for place, group in enumerate(groups):
        rate = group.get("lr")
        number = rate if type(rate) is float else _plain(rate)
        numbers.append(number)
        if number is not None:
            if first is None or highest is None:
                first = highest = number
            elif number > highest:
                highest = number
            if place < len(before):
                was = before[place]
                if was is not None and was > 0 < number and (number > was * _JUMP or was > number * _JUMP):
                    jumped = True
    entry.numbers = numbers
    if highest is None:
        return
    page_numbers = _here.numbers
    page_numbers[_RATE] = first
    page_numbers[_HIGHEST] = highest
    if first is not None and first > entry.top:
        entry.top = page_numbers[_TOP] = first
    if jumped:
        events.write("lr", step=entry.steps, before=before[:16], rates=numbers[:16], groups=len(numbers))


def _plain(rate: Any) -> Any:
    """A rate as a number; one on a device stays there, since reading it would wait for the device."""
    if isinstance(rate, (int, float)):
        return float(rate)
    if rate is not None and getattr(getattr(rate, "device", None), "type", "") == "cpu" and rate.numel() == 1:
        return float(rate.item())
    return None
