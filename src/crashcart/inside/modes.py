"""Train and evaluate, from `train()` and `eval()` of the module that owns what an optimizer changes.

Only the outermost call counts, and only of a module that holds most of an optimizer's tensors, or that was itself set to train
before (sharded optimizers hold tensors of their own): a frozen batch norm or a teacher set to `eval()` is no evaluation.
"""

from __future__ import annotations

from typing import Any

from . import page, patching, phases, steps, tracing
from .mistakes import ours

_MANY = 1000
_trained: set[int] = set()
_owners: dict[tuple[int, int], bool] = {}
page.after_fork.append(_trained.clear)


def install(module: Any) -> None:
    """Wrap `Module.train`; `eval()` calls it."""
    patching.replace(module.Module, "train", _outermost)


def _outermost(original: Any) -> Any:
    busy = False  # every module below the outermost one passes here too: no more than a look

    def train(self: Any, mode: bool = True) -> Any:  # noqa: FBT001, FBT002
        nonlocal busy
        if busy or tracing.is_compiling():
            return original(self, mode)
        busy = True
        try:
            return original(self, mode)
        finally:
            busy = False
            try:
                _changed(self, mode)
            except Exception:
                ours("train or eval")

    return train


def _changed(module: Any, mode: Any) -> None:
    phase = phases.TRAIN if mode else phases.EVALUATE
    if mode and len(_trained) < _MANY:
        _trained.add(id(module))
    if phases.now.lasting == phase or (mode and phases.now.lasting == phases.START_UP):
        return  # start-up ends with the first backward or step, not with the intention
    if owns(module) or (id(module) in _trained and not _part(module)):
        phases.last(phase, "train()" if mode else "eval()")


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
