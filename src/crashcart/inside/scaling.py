"""GradScaler: the scale, the steps that it skipped, and the loss before it was scaled.

With one scaler and one optimizer an update is noticed at the next `scale`: the scaler has begun a new table of its optimizers, and
where the optimizer has not stepped in between, the step was skipped. So `update` stays as it is. Which of several optimizers was
skipped is known only before the update; then it is wrapped.
"""

from __future__ import annotations

import math
import weakref
from typing import Any

from . import events, late, losses, page, patching, settings, steps, tracing
from .mistakes import Hook

_SCALE, _SKIPPED = page.at("scale"), page.at("skipped")
_scales, _updates = Hook("GradScaler.scale"), Hook("GradScaler.update")
_shown, _known = steps.shown, steps.known
_EVERY = 8  # updates between two looks at the scale


class _Last:
    __slots__ = ("backoff", "exact", "kinds", "scale", "scaler", "steps", "table", "until_look", "wraps_update")

    def __init__(self) -> None:
        self.kinds: list[Any] = []
        self.wraps_update = False
        self.renew()

    def renew(self) -> None:
        """As before the first scaler."""
        self.steps = 0  # of the only optimizer, at the last update
        self.scale, self.backoff = 0.0, 0.5
        self.exact = False  # skipped steps were seen as such, and need not be told from the scale
        self.until_look = 0  # updates
        self.scaler: Any = None  # a weak reference to the only one
        self.table = 0  # identity of its table of optimizers, which each update replaces


_last = _Last()
page.after_fork.append(_last.renew)


def install(module: Any) -> None:
    """Wrap `scale` where the class has its own."""
    for name in ("GradScaler", "ShardedGradScaler"):
        kind = vars(module).get(name)
        if isinstance(kind, type) and kind.__module__ == module.__name__:
            patching.replace(kind, "scale", _scaling)
            _last.kinds.append(kind)
            if _last.wraps_update:
                patching.replace(kind, "update", _updating)


def take(scale: float, step: int, batch: Any = None) -> None:  # noqa: ARG001
    """A scale has come: one that is smaller than before means skipped steps."""
    before, _last.scale = _last.scale, scale
    numbers = page.here.numbers
    if scale == before == numbers[_SCALE]:
        return
    numbers[_SCALE] = scale
    page.add("skipped", 0)
    if scale - scale != 0 or scale == 0:
        events.write("nonfinite", step=step, what="scale", value=scale)
    elif scale < before and not _last.exact:  # an optimizer that skips by itself (fused) steps every time
        skipped = math.log(scale / before) / math.log(_backoff())
        if abs(skipped - round(skipped)) < 0.01:  # else it was set by the program
            page.add("skipped", round(skipped))


def _backoff() -> float:
    return min(0.999, float(_last.backoff) or 0.5)


later = late.Later(take)
page.after_fork.append(later.renew)


def _scaling(original: Any) -> Any:
    def scale(self: Any, outputs: Any) -> Any:
        result = original(self, outputs)
        if not tracing.is_compiling() and _scales.on and result is not outputs and type(outputs) is tracing.tensor:
            try:  # what `backward()` is then called on is no loss any more: the loss is looked at here
                losses.look(outputs)
                losses.state.scaled = id(result)
                table = id(self._per_optimizer_states)
                if table != _last.table:
                    count = _shown.steps
                    if count != _last.steps and _last.until_look and len(_known) == 1:  # an ordinary update
                        _last.table, _last.steps = table, count
                        _last.until_look -= 1
                    else:
                        _other_table(self)
            except Exception:
                _scales.failed()
        return result

    return scale


def _other_table(scaler: Any) -> None:
    """The first call, an update since the last call, or another scaler."""
    if _last.scaler is None:
        _last.scaler = weakref.ref(scaler)
        _last.scale = getattr(scaler, "_init_scale", 0.0) or 0.0
        names = ("_init_scale", "_growth_factor", "_backoff_factor", "_growth_interval", "_enabled")
        settings.tell("GradScaler", settings.plain({name[1:]: vars(scaler).get(name) for name in names}))
        _last.steps = _shown.steps
    elif not _last.wraps_update and _last.scaler() is scaler:
        if _shown.steps == _last.steps:
            _last.exact = True
            page.add("skipped")
        _last.steps = _shown.steps
        _look(scaler)
    _last.table = id(scaler._per_optimizer_states)
    if not _last.wraps_update and (len(_known) != 1 or _last.scaler() is not scaler):
        _last.wraps_update = True
        for kind in _last.kinds:
            patching.replace(kind, "update", _updating)


def _count_last_update() -> None:
    """At the end of the program, when no `scale` follows any more; nothing on a device is touched."""
    try:
        scaler = _last.scaler and _last.scaler()
        is_followed = scaler is not None and _scales.on and not _last.wraps_update
        if is_followed and id(scaler._per_optimizer_states) != _last.table and _shown.steps == _last.steps:
            page.add("skipped")
    except Exception:
        _scales.failed()


page.before_leaving.append(_count_last_update)


def _updating(original: Any) -> Any:
    def update(self: Any, *args: Any, **kwargs: Any) -> Any:
        if tracing.is_compiling() or not _updates.on:
            return original(self, *args, **kwargs)
        count = _shown.steps
        # Steps of the only optimizer since the last update: nothing was skipped, and nobody has to look further.
        skipped = (count == _last.steps or len(_known) != 1) and _count_skipped(self)
        _last.steps = count
        result = original(self, *args, **kwargs)
        try:
            if args or kwargs:  # a scale that the program sets says nothing about skipped steps
                _last.scale = 0.0
            if skipped or not _last.until_look:
                _look(self)
            else:
                _last.until_look -= 1
        except Exception:
            _updates.failed()
        return result

    return update


def _count_skipped(scaler: Any) -> bool:
    """Whether an optimizer of this update has not stepped: its gradients were not finite."""
    try:
        skipped = False
        if len(_known) == 1:
            for entry in _known.values():
                entry.updated = _last.steps
        for key in getattr(scaler, "_per_optimizer_states", ()):  # one that is disabled has none
            known = _known.get(key)
            if known is not None:
                if known.steps == known.updated:
                    skipped = _last.exact = True
                known.updated = known.steps
        if skipped:
            page.add("skipped")
    except Exception:
        _updates.failed()
        return False
    return skipped


def _look(scaler: Any) -> None:
    _last.until_look = _EVERY - 1
    scale = getattr(scaler, "_scale", None)
    if type(scale) is not tracing.tensor or tracing.watched() or tracing.profiled():
        return
    _last.backoff = getattr(scaler, "_backoff_factor", 0.5)
    if tracing.modes():
        with tracing.torch._C.DisableTorchFunction():
            _read(scale)
    else:
        _read(scale)


def _read(scale: Any) -> None:
    if scale.is_cpu:
        take(scale.item(), steps.shown.steps)
    elif scale.is_cuda:
        later.put(scale, steps.shown.steps)
