"""Sampling: transformers' `generate` and the pipelines of diffusers, where memory peaks that training never sees."""

from __future__ import annotations

from typing import Any

from . import patching, phases
from .mistakes import Hook

_pipelines = Hook("pipeline")


def install(module: Any) -> None:
    """Wrap `generate`, or each kind of pipeline when the first of its kind is made."""
    if module.__name__.startswith("transformers"):
        patching.replace(module.GenerationMixin, "generate", _sampling)
    else:
        patching.replace(module.DiffusionPipeline, "register_modules", _on_making)


def _on_making(original: Any) -> Any:
    def register_modules(self: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            for kind in type(self).__mro__ if _pipelines.on else ():
                if kind.__module__.startswith("diffusers.") or kind is type(self):
                    patching.replace(kind, "__call__", _sampling)
        except Exception:
            _pipelines.failed()
        return original(self, *args, **kwargs)

    return register_modules


def _begun() -> None:
    phases.told(phases.SAMPLE, "begin")


def _done(args: Any, kwargs: Any, seconds: float) -> None:  # noqa: ARG001
    phases.told(phases.SAMPLE, "end", seconds=round(seconds, 3))


_sampling = patching.within(phases.SAMPLE, _done, _begun)
