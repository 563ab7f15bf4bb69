"""Exceptions in processes that a program starts through multiprocessing: caught there, and never seen by the usual hook."""

from __future__ import annotations

from typing import Any

from . import patching
from .uncaught import record


def install(module: Any) -> None:
    """Wrap where the program's function is called in the child."""
    if module.__name__ == "multiprocessing.process":
        patching.replace(module.BaseProcess, "run", _running)
    else:
        patching.replace(module, "_wrap", _wrapping)


def _running(original: Any) -> Any:
    def run(self: Any) -> Any:
        try:
            return original(self)
        except Exception as error:
            record(error, error.__traceback__)
            raise

    return run


def _wrapping(original: Any) -> Any:
    def _wrap(function: Any, *args: Any, **kwargs: Any) -> Any:
        def recorded(*inner: Any) -> Any:
            try:
                return function(*inner)
            except Exception as error:
                record(error, error.__traceback__)
                raise

        return original(recorded, *args, **kwargs)

    return _wrap
