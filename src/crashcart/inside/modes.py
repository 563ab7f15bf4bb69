"""Evaluation, from `eval()` of the module that owns what an optimizer changes; `phases.settle` notices that it is over.

Only a module counts that holds most of an optimizer's tensors, or that was set back to training after an earlier `eval()`
(sharded optimizers hold tensors of their own): a frozen batch norm or a teacher set to `eval()` is no evaluation.
"""

from __future__ import annotations

import weakref
from typing import Any

from . import loading, page, patching, phases, steps, tracing
from .mistakes import Hook

_MANY = 1000
_hook = Hook("eval")
_evaluated: set[int] = set()
_owners: dict[tuple[int, int], bool] = {}
page.after_fork.append(_evaluated.clear)


def install(module: Any) -> None:
    """Wrap `Module.eval`; unlike `train` it is called for the outermost module alone."""
    patching.replace(module.Module, "eval", _noticed)
    loading.install(module)


def _noticed(original: Any) -> Any:
    def eval(self: Any) -> Any:  # noqa: A001
        if tracing.is_compiling() or not _hook.on:
            return original(self)
        try:
            trained = self.training
            phases.settle()
        except Exception:
            trained = False
            _hook.failed()
        result = original(self)
        try:
            _changed(self, trained=trained)
        except Exception:
            _hook.failed()
        return result

    return eval


def _changed(module: Any, *, trained: bool) -> None:
    again = trained and id(module) in _evaluated
    if len(_evaluated) < _MANY:
        _evaluated.add(id(module))
    if phases.now.lasting == phases.EVALUATE and phases.now.module is not None:
        return
    if owns(module) or (again and not _part(module)):
        phases.last(phases.EVALUATE, "eval()")
        if phases.now.lasting == phases.EVALUATE:
            phases.now.module = weakref.ref(module)


def owns(module: Any) -> bool:
    """Whether most of the tensors of some optimizer are the module's."""
    key = (id(module), len(steps.known))
    found = _owners.get(key)
    if found is None:
        mine = {id(parameter) for parameter in module.parameters()}
        found = any(len(entry.owned & mine) * 2 > len(entry.owned) for entry in steps.known.values() if entry.owned)
        if len(_owners) > _MANY:
            _owners.clear()
        _owners[key] = found
    return found


def _part(module: Any) -> bool:
    """A module without tensors, or a part of what an optimizer changes: not the whole."""
    mine = {id(parameter) for parameter in module.parameters()}
    return not mine or any(entry.owned & mine for entry in steps.known.values())
