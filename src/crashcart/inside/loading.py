"""What `load_state_dict` took: names that the state did not have, names that the model does not know, and how many fitted.

Told where something did not fit, and of the first few that did: a target network takes its weights again and again.
"""

from __future__ import annotations

from typing import Any

from . import events, page, patching, settings, tracing
from .mistakes import Hook

_FITTING, _OTHERS = 8, 24  # how many are told in a process
_NAMES = 12
_LONGEST = 200
_hook = Hook("load_state_dict")
_left = {"fitting": _FITTING, "others": _OTHERS}
page.after_fork.append(lambda: _left.update(fitting=_FITTING, others=_OTHERS))


def install(module: Any) -> None:
    """Wrap `Module.load_state_dict`; it is called for the outermost module alone."""
    patching.replace(module.Module, "load_state_dict", _noticed)


def _noticed(original: Any) -> Any:
    def load_state_dict(self: Any, *args: Any, **kwargs: Any) -> Any:
        result = original(self, *args, **kwargs)
        if not tracing.is_compiling() and _hook.on:
            try:
                _tell(self, args[0] if args else kwargs.get("state_dict"), result)
            except Exception:
                _hook.failed()
        return result

    return load_state_dict


def _tell(module: Any, state: Any, result: Any) -> None:
    """Only plain dictionaries are counted, and only torch's own answer is read."""
    if type(result).__name__ != "_IncompatibleKeys" or not isinstance(state, dict):
        return
    missing, unexpected = tuple.__getitem__(result, 0), tuple.__getitem__(result, 1)
    kind = "others" if missing or unexpected else "fitting"
    if type(missing) is not list or type(unexpected) is not list or _left[kind] <= 0:
        return
    _left[kind] -= 1
    given = dict.__len__(state)
    events.write(
        "weights",
        given=given,
        taken=max(0, given - len(unexpected)),
        missing=len(missing),
        unexpected=len(unexpected),
        missing_names=_names(missing),
        unexpected_names=_names(unexpected),
        step=int(page.here.numbers[page.STEPS]),
        place=settings.place(),
        **{"class": type(module).__qualname__},
    )


def _names(names: list[Any]) -> list[str]:
    return [name[:_LONGEST] for name in names[:_NAMES] if type(name) is str]
