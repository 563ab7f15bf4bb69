"""What the loader gives: how long it was waited for, how many batches in which phase, how large.

A loader that is read while gradients are off is an evaluation, also where nobody called `eval()` (an averaged copy of the
model is evaluated that way). Batches of the program's own classes are not looked into: that would run its code.
"""

from __future__ import annotations

import time
from _thread import get_ident
from collections import UserDict
from itertools import islice
from typing import Any

from . import inputs, memory, page, patching, phases, tracing
from .mistakes import Hook

_LEAVES = 64
_TRAIN, _EVALUATE, _DATA = phases.TRAIN, phases.EVALUATE, phases.DATA
_PHASE, _SINCE, _PROGRESS = page.PHASE, page.PHASE_SINCE, page.PROGRESS
_TRAINED, _EVALUATED = page.at("train_batches"), page.at("eval_batches")
_SIZE, _LARGEST = page.at("batch_size"), page.at("largest_batch")
_ELEMENTS, _MOST = page.at("batch_elements"), page.at("largest_elements")
_WAITED, _WAITS = page.at("data_wait"), page.at("data_waits")
_here, _now = page.here, phases.now
_monotonic = time.monotonic
_PLAIN = (tuple, list)
_hook = Hook("batch")


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


def _timed(original: Any) -> Any:
    phase = _DATA  # read by `last_words` from the frame

    # A compiler leaves a loader alone, so nobody asks here whether one is at work.
    def __next__(self: Any) -> Any:  # noqa: N807
        if not _hook.on:
            return original(self)
        began, before = _monotonic(), -1
        if get_ident() == _now.thread:  # as `phases.enter`, but without a beat: waits for data are counted apart
            if _now.lasting == _EVALUATE:
                phases.settle()
            before, _here.phase = _here.phase, phase
            numbers = _here.numbers
            _here.since = numbers[_SINCE] = began
            numbers[_PHASE] = phase
        mark = (before, began)
        try:
            batch = original(self)
        except BaseException as error:
            phases.leave(mark)
            if isinstance(error, StopIteration):
                _ended(self)
            raise
        _given(self, batch, mark)
        return batch

    return __next__


def _given(loader: Any, batch: Any, mark: tuple[int, float]) -> None:
    """A batch has come."""
    try:
        here, now = _here, _now
        numbers = here.numbers
        ended = _monotonic()
        before, began = mark
        if before > _EVALUATE:
            phases.leave(mark)
        elif before >= 0:
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
        if tracing.modes():
            with tracing.torch._C.DisableTorchFunction():
                _look_into(loader, batch)
        else:
            _look_into(loader, batch)
        if ended > here.next_look:
            memory.look(ended)
    except Exception:
        _hook.failed()


def _look_into(loader: Any, batch: Any) -> None:
    """The size of a batch, and weak references to its tensors for the case of a bad loss."""
    names, tensors = _fields(batch)
    elements = 0
    for tensor in tensors:
        elements += tensor.numel()
    if elements != seen.elements and tensors:
        first = tensors[0]
        _other_size(first.size(0) if first.dim() else 1, elements)
    if not tracing.torch.cuda._initialized:
        inputs.remember(loader._num_yielded, names, tensors)


def _fields(batch: Any) -> tuple[Any, Any]:
    """Names (or none, where they are numbered) and tensors of a batch, through plain containers, a few leaves of them."""
    tensor = tracing.tensor
    if type(batch) in _PLAIN:
        for item in batch[:_LEAVES]:
            if type(item) is not tensor:
                break
        else:
            return None, batch[:_LEAVES]
    names: list[str] = []
    tensors: list[Any] = []
    waiting: list[tuple[str, Any]] = [("", batch)]
    for _ in range(_LEAVES):
        if not waiting:
            break
        name, item = waiting.pop(0)
        if type(item) is tensor:
            names.append(name or "batch")
            tensors.append(item)
        else:
            room = max(0, _LEAVES - len(waiting))
            inner = [(name + "." + str(key)[:60] if name else str(key)[:60], value) for key, value in _members(item, room)]
            waiting += inner
    return names, tensors


def _members(container: Any, most: int) -> list[tuple[Any, Any]]:
    """Names and values of a plain container; nothing of what the program's own code would have to give."""
    if isinstance(container, UserDict):  # such as transformers' BatchEncoding
        container = vars(container).get("data")
    if isinstance(container, dict):
        return list(islice(dict.items(container), most))
    if isinstance(container, tuple):
        return list(islice(enumerate(tuple.__iter__(container)), most))
    return list(islice(enumerate(list.__iter__(container)), most)) if isinstance(container, list) else []


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
        _hook.failed()


def _other_size(size: int, elements: int) -> None:
    numbers = _here.numbers
    seen.size, seen.elements = size, elements
    seen.largest = max(seen.largest, size)
    seen.most = max(seen.most, elements)
    numbers[_SIZE], numbers[_ELEMENTS] = size, elements
    numbers[_LARGEST], numbers[_MOST] = seen.largest, seen.most
