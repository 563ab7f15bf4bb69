"""Puts a wrapper in the place of a function: same name, same signature, same place for pickle; once."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from . import phases, tracing
from .mistakes import Hook

if TYPE_CHECKING:
    from collections.abc import Callable

reached: list[str] = []


def replace(owner: Any, name: str, make: Callable[[Any], Any]) -> bool:
    """Replace `owner.name` by what `make` builds around it; false if it is not there or is inherited."""
    original = vars(owner).get(name)
    if not callable(original) or hasattr(original, "_crashcart"):
        return False
    wrapper = functools.wraps(original)(make(original))
    vars(wrapper)["_crashcart"] = True
    setattr(owner, name, wrapper)
    reached.append(owner.__name__ + "." + name)
    return True


def within(
    phase: int, done: Callable[..., None] | None = None, begun: Callable[[], None] | None = None
) -> Callable[[Any], Any]:
    """For `replace`: the call is a short phase; `done(args, kwargs, seconds)` comes after it if it did not raise."""

    def make(original: Any) -> Any:
        hook = Hook(getattr(original, "__qualname__", "call"))

        def wrapper(*args: Any, **kwargs: Any) -> Any:
            if tracing.is_compiling() or not hook.on:
                return original(*args, **kwargs)
            mark = phases.NOT_ENTERED
            try:
                if begun is not None:
                    begun()
                mark = phases.enter(phase)
            except Exception:
                hook.failed()
            try:
                result = original(*args, **kwargs)
            finally:
                seconds = phases.leave(mark)
            if done is not None and hook.on:
                try:
                    done(args, kwargs, seconds)
                except Exception:
                    hook.failed()
            return result

        return wrapper

    return make
