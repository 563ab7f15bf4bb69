"""Schedules of the learning rate: the settings of each when it is made, and at the end of the program how often it was stepped.

A schedule that counts steps and is stepped once an epoch never leaves its warm-up. Nothing is done while it is stepped: torch keeps
the count itself (`last_epoch`).
"""

from __future__ import annotations

import weakref
from typing import Any

from . import events, page, patching, settings
from .mistakes import Hook

_MOST = 16
_hook = Hook("schedule")
_made: list[Any] = []  # of each schedule a weak reference, and where it was made
page.after_fork.append(_made.clear)


def install(module: Any) -> None:
    """Wrap the constructor that all schedules share."""
    patching.replace(getattr(module, "LRScheduler", None) or module._LRScheduler, "__init__", _noting)


def _noting(original: Any) -> Any:
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:  # noqa: N807
        original(self, *args, **kwargs)
        try:
            if _hook.on and len(_made) < _MOST:
                place = settings.place()
                _made.append((weakref.ref(self), place))
                values = settings.plain(dict(vars(self), **{"class": type(self).__qualname__}))
                settings.tell("scheduler", values, place)
        except Exception:
            _hook.failed()

    return __init__


@page.before_leaving.append
def _tell_counts() -> None:
    try:
        while _made and _hook.on:
            kept, place = _made.pop(0)
            schedule = kept()
            count = vars(schedule).get("last_epoch") if schedule is not None else None
            if type(count) is int:
                kind, step = type(schedule).__qualname__, int(page.here.numbers[page.STEPS])
                events.write("schedule", **{"class": kind, "stepped": count, "step": step, "place": place})
    except Exception:
        _hook.failed()
