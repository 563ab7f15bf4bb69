"""What the loader gives: how long it was waited for, how many batches in which phase, how large.

A loader that is read while gradients are off is an evaluation, also where nobody called `eval()` (an averaged copy of the
model is evaluated that way).
"""

from __future__ import annotations

from _struct import Struct
from typing import Any

from . import memory, page, patching, phases, tracing
from .mistakes import ours

_LEAVES = 64
_EVALUATE = phases.EVALUATE
# train_batches, eval_batches, batch_size, largest_batch, batch_elements, largest_elements, data_wait, data_waits
_show = Struct("8d").pack_into
_FROM = page.at("train_batches") * 8


class _Seen:
    __slots__ = ("elements", "evaluated", "largest", "most", "size", "trained", "waited", "waits")

    def __init__(self) -> None:
        self.renew()

    def renew(self) -> None:
        """As before the first batch."""
        self.trained = self.evaluated = self.waits = 0
        self.waited = 0.0
        self.size: float = page.NAN
        self.elements: float = page.NAN
        self.largest = self.most = 0


seen = _Seen()
page.after_fork.append(seen.renew)


def install(module: Any) -> None:
    """Wrap the iterator that all loaders share."""
    patching.replace(module._BaseDataLoaderIter, "__next__", _timed)


def _timed(original: Any) -> Any:
    phase = phases.DATA

    def __next__(self: Any) -> Any:  # noqa: N807
        if tracing.is_compiling():
            return original(self)
        mark = phases.enter(phase)
        try:
            batch = original(self)
        except StopIteration:
            _ended(self)
            raise
        finally:
            seconds = phases.leave(mark)
        try:
            _count(batch, seconds, mark[1] + seconds)
        except Exception:
            ours("batch")
        return batch

    return __next__


def _ended(loader: Any) -> None:
    """A loader that gave nothing at all is news."""
    try:
        if getattr(loader, "_num_yielded", None) == 0:
            evaluates = phases.now.lasting == _EVALUATE or not tracing.with_gradients()
            phases.told(_EVALUATE if evaluates else phases.TRAIN, "empty loader")
    except Exception:
        ours("loader")


def _count(batch: Any, seconds: float, moment: float) -> None:
    torch = tracing.torch
    if torch is None:
        return
    lasting = phases.now.lasting
    if lasting == phases.TRAIN and not tracing.with_gradients():
        phases.last(_EVALUATE, "no_grad")
        lasting = phases.now.lasting
    if lasting == _EVALUATE:
        seen.evaluated += 1
    else:
        seen.trained += 1
    seen.waits += 1
    seen.waited += seconds
    size, elements = measure(batch, tracing.tensor)
    if elements:
        seen.size, seen.elements = size, elements
        seen.largest = max(seen.largest, size)
        seen.most = max(seen.most, elements)
    here = page.here
    _show(
        here.mapping, _FROM, seen.trained, seen.evaluated, seen.size, seen.largest, seen.elements, seen.most, seen.waited, seen.waits
    )  # fmt: skip
    if moment > here.next_look:
        memory.look(moment)


def measure(batch: Any, tensor: Any) -> tuple[int, int]:
    """The first dimension of the first tensor, and the elements of all; a look at no more than a few leaves."""
    size = elements = 0
    waiting: Any = batch if type(batch) in (tuple, list) else (batch,)
    left = _LEAVES
    deeper: list[Any] = []
    while True:
        for item in waiting:
            if type(item) is tensor:
                elements += item.numel()
                if not size:
                    size = item.size(0) if item.dim() else 1
            elif isinstance(item, (tuple, list, dict)) or hasattr(item, "keys"):
                deeper.append(item)
            left -= 1
            if left <= 0:
                return size, elements
        if not deeper:
            return size, elements
        waiting = deeper.pop(0)
        if not isinstance(waiting, (tuple, list)):
            waiting = list(waiting.values())
