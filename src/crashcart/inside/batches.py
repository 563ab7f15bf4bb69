"""What the loader gives: how long it was waited for, how many batches in which phase, how large.

A loader that is read while gradients are off is an evaluation, also where nobody called `eval()` (an averaged copy of the
model is evaluated that way).
"""

from __future__ import annotations

import time
from _thread import get_ident
from typing import Any

from . import inputs, memory, page, patching, phases, tracing
from .mistakes import ours

_LEAVES = 64
_TRAIN, _EVALUATE = phases.TRAIN, phases.EVALUATE
_PHASE, _SINCE, _PROGRESS = page.PHASE, page.PHASE_SINCE, page.PROGRESS
_TRAINED, _EVALUATED = page.at("train_batches"), page.at("eval_batches")
_SIZE, _LARGEST = page.at("batch_size"), page.at("largest_batch")
_ELEMENTS, _MOST = page.at("batch_elements"), page.at("largest_elements")
_WAITED, _WAITS = page.at("data_wait"), page.at("data_waits")
_here, _now = page.here, phases.now
_monotonic = time.monotonic
_PLAIN, _NOTHING = (tuple, list), (None,)
_LAST = inputs.BATCHES - 1
last, _ref = inputs.last, inputs.ref


class _Seen:
    __slots__ = ("elements", "evaluated", "largest", "most", "size", "trained", "waited")

    def __init__(self) -> None:
        self.renew()

    def renew(self) -> None:
        """As before the first batch."""
        self.trained = self.evaluated = 0
        self.waited = 0.0
        self.size: float = page.NAN
        self.elements: float = page.NAN
        self.largest = self.most = 0


seen = _Seen()
page.after_fork.append(seen.renew)


def install(module: Any) -> None:
    """Wrap the iterator that all loaders share."""
    patching.replace(module._BaseDataLoaderIter, "__next__", _timed)


def _timed(original: Any) -> Any:  # noqa: C901, PLR0915 - see below
    phase = phases.DATA

    # One function on purpose, with what `phases.enter` and `leave` do in it: after a training step each function that is called
    # has to be fetched from memory again.
    # A compiler leaves a loader alone, so nobody asks here whether one is at work.
    def __next__(self: Any) -> Any:  # noqa: C901, N807, PLR0912, PLR0915
        here, now = _here, _now
        numbers = here.numbers
        began = _monotonic()
        mark = -1
        if get_ident() == now.thread:
            if now.lasting == _EVALUATE:
                phases.settle()
            mark = here.phase
            here.phase = phase
            here.since = numbers[_SINCE] = began
            numbers[_PHASE] = phase
        try:
            batch = original(self)
        except BaseException as error:
            phases.leave((mark, began))
            if isinstance(error, StopIteration):
                _ended(self)
            raise
        try:
            ended = _monotonic()
            if mark > _EVALUATE:
                phases.leave((mark, began))
            elif mark >= 0:
                here.phase = numbers[_PHASE] = now.lasting
                here.since = numbers[_SINCE] = now.since
                numbers[_PROGRESS] = ended
            if now.lasting != _TRAIN or not tracing.with_gradients():
                _weigh()
            if now.lasting == _EVALUATE:
                seen.evaluated += 1
                numbers[_EVALUATED] = seen.evaluated
            else:
                seen.trained += 1
                numbers[_TRAINED] = seen.trained
            seen.waited = numbers[_WAITED] = seen.waited + (ended - began)
            numbers[_WAITS] = seen.trained + seen.evaluated
            elements, at = 0, last.next
            try:  # mostly a few tensors, as large together as those before
                for item in batch if batch.__class__ in _PLAIN else _NOTHING:
                    elements += item.numel()
                last.batches[at] = self._num_yielded, None, tuple(map(_ref, batch))
                last.next = at + 1 if at < _LAST else 0
            except (AttributeError, TypeError):
                elements = -1
                inputs.remember(batch, getattr(self, "_num_yielded", None))
            if elements != seen.elements:
                _measure(batch)
            if last.after:
                inputs.compare(at)
            if ended > here.next_look:
                memory.look(ended)
        except Exception:
            ours("batch")
        return batch

    return __next__


def _weigh() -> None:
    """A batch outside of training: gradients that are off begin an evaluation; one that was seen by that ends when they are on."""
    if not tracing.with_gradients():
        if _now.lasting == _TRAIN:
            phases.last(_EVALUATE, "no_grad")
    elif _now.lasting == _EVALUATE and _now.module is None:
        phases.last(_TRAIN, "gradients")


def _ended(loader: Any) -> None:
    """A loader that gave nothing at all is news."""
    try:
        if getattr(loader, "_num_yielded", None) == 0:
            evaluates = phases.now.lasting == _EVALUATE or not tracing.with_gradients()
            phases.told(_EVALUATE if evaluates else phases.TRAIN, "empty loader")
    except Exception:
        ours("loader")


def _measure(batch: Any) -> None:
    """The first dimension of the first tensor, and the elements of all; a look at no more than a few leaves."""
    tensor = tracing.tensor
    size = elements = 0
    waiting: Any = batch if type(batch) in (tuple, list) else (batch,)
    left = _LEAVES
    deeper: list[Any] | None = None
    while True:
        for item in waiting:
            if type(item) is tensor:
                if not elements:
                    size = item.size(0) if item.dim() else 1
                elements += item.numel()
            elif isinstance(item, (tuple, list, dict)) or hasattr(item, "keys"):
                if deeper is None:
                    deeper = []
                deeper.append(item)
            left -= 1
            if left <= 0:
                break
        if left <= 0 or not deeper:
            break
        waiting = deeper.pop(0)
        if not isinstance(waiting, (tuple, list)):
            waiting = list(waiting.values())
    if elements and (elements != seen.elements or size != seen.size):
        _other_size(size, elements)


def _other_size(size: int, elements: int) -> None:
    numbers = _here.numbers
    seen.size, seen.elements = size, elements
    seen.largest = max(seen.largest, size)
    seen.most = max(seen.most, elements)
    numbers[_SIZE], numbers[_ELEMENTS] = size, elements
    numbers[_LARGEST], numbers[_MOST] = seen.largest, seen.most
