"""What the loader gives: how long it was waited for, how many batches in which phase, how large, and of which samples.

A loader that is read while gradients are off is an evaluation, also where nobody called `eval()` (an averaged copy of the
model is evaluated that way). Batches of the program's own classes are not looked into: that would run its code.

Of each loader is told how many batches an epoch of it gave, for training or for an evaluation: when its first epoch ends, when a
later one gives another number, and at the end of the program.

The indices of the samples come from a copy (`itertools.tee`) of what the sampler draws: it is taken one by one as batches come, so
that no more of them live than those that were drawn ahead.
"""

from __future__ import annotations

import time
import weakref
from _thread import get_ident
from collections import UserDict
from itertools import islice, tee
from typing import Any

from . import events, inputs, memory, page, patching, phases, settings, tracing
from .mistakes import Hook

_LEAVES = 64
_LOADERS = 16  # whose settings are told
_FOLLOWED = 64
_EPOCHS_TOLD = 4  # of one loader, before the end
_SETTINGS = ("batch_size", "num_workers", "prefetch_factor", "persistent_workers", "pin_memory", "drop_last", "timeout")
_TRAIN, _EVALUATE, _DATA = phases.TRAIN, phases.EVALUATE, phases.DATA
_PHASE, _SINCE, _PROGRESS = page.PHASE, page.PHASE_SINCE, page.PROGRESS
_TRAINED, _EVALUATED = page.at("train_batches"), page.at("eval_batches")
_SIZE, _LARGEST = page.at("batch_size"), page.at("largest_batch")
_ELEMENTS, _MOST = page.at("batch_elements"), page.at("largest_elements")
_WAITED, _WAITS = page.at("data_wait"), page.at("data_waits")
_here, _now = page.here, phases.now
_monotonic = time.monotonic
_PLAIN = (tuple, list)
_ref = inputs.ref
_last, _LAST_PLACE = inputs.last, inputs.BATCHES - 1
_hook = Hook("batch")


class _Loader:
    """A loader that was iterated over: what its epochs gave."""

    __slots__ = ("batches", "ended", "epochs", "evaluates", "number", "place", "ref", "told", "written")

    def __init__(self, loader: Any, number: int) -> None:
        self.ref = weakref.ref(loader)
        self.number = number
        self.place = ""
        self.batches = self.epochs = self.written = 0  # batches are those of the present epoch
        self.told: Any = None  # what was told last: whether it evaluates, and the batches
        self.evaluates = False
        self.ended = True  # the present epoch gave all that it has

    def begin(self) -> None:
        """A new epoch; one that was left before its end is told now."""
        if not self.ended:
            if not self.batches:  # nobody has asked for a batch yet: an iterator with workers begins twice
                return
            self.tell_other()
        self.epochs += 1
        self.batches, self.ended = 0, False

    def tell_other(self) -> None:
        """Write what the present epoch gave where the one before gave another number."""
        if (self.evaluates, self.batches, self.ended) != self.told and self.written < _EPOCHS_TOLD:
            self.written += 1
            self.tell()

    def tell(self) -> None:
        """Write what the present epoch gave."""
        self.told = (self.evaluates, self.batches, self.ended)
        events.write(
            "loader",
            number=self.number,
            role="evaluation" if self.evaluates else "training",
            batches=self.batches,
            epochs=self.epochs,
            whole=self.ended,
            place=self.place,
            step=int(_here.numbers[page.STEPS]),
        )


class _Seen:
    __slots__ = ("evaluated", "key", "largest", "layout", "loaders", "most", "told", "trained", "waited")

    def __init__(self) -> None:
        self.renew()

    def renew(self) -> None:
        """As before the first batch."""
        self.trained = self.evaluated = 0
        self.waited = 0.0
        self.loaders: dict[int, _Loader] = {}  # by identity
        self.told = 0  # loaders whose settings were told
        self.key = -1  # of the layout
        self.layout: Any = None
        self.largest = self.most = 0


seen = _Seen()
page.after_fork.append(seen.renew)


@page.before_leaving.append
def _tell_last_epochs() -> None:
    """The end of the program: what the last epoch of each loader gave, where that is not known yet."""
    try:
        for entry in list(seen.loaders.values()):
            if entry.told != (entry.evaluates, entry.batches, entry.ended):
                entry.tell()
    except Exception:
        _hook.failed()


def install(module: Any) -> None:
    """Wrap the iterator that all loaders share."""
    kinds = (module._SingleProcessDataLoaderIter, module._MultiProcessingDataLoaderIter)

    def copying(original: Any) -> Any:
        def prepare(self: Any, loader: Any, *args: Any, **kwargs: Any) -> None:
            original(self, loader, *args, **kwargs)
            _begin_epoch(self, loader)
            try:  # a data set that is iterated over has no indices, and workers that do not keep the order mix them
                inputs.choose()
                if type(self) in kinds and self._dataset_kind == 0 and getattr(loader, "in_order", True) and _hook.on:
                    self._sampler_iter, self._crashcart_drawn = tee(self._sampler_iter)
            except Exception:
                _hook.failed()

        return prepare

    for name in ("__init__", "_reset"):
        patching.replace(module._BaseDataLoaderIter, name, copying)
    patching.replace(module._BaseDataLoaderIter, "__next__", _timed)


def _begin_epoch(iterator: Any, loader: Any) -> None:
    """The settings of a loader when it is first used, and a new epoch of it."""
    try:
        if not _hook.on:
            return
        entry = seen.loaders.get(id(loader))
        if entry is None or entry.ref() is not loader:
            if entry is None and len(seen.loaders) >= _FOLLOWED:  # a program that makes one for each epoch
                return
            entry = seen.loaders[id(loader)] = _Loader(loader, len(seen.loaders))
            entry.place = settings.place()
            _tell_loader(loader, entry)
        entry.begin()
        vars(iterator)["_crashcart_loader"] = entry
    except Exception:
        _hook.failed()


def _tell_loader(loader: Any, entry: _Loader) -> None:
    if seen.told < _LOADERS:
        seen.told += 1
        own = {name: value for name, value in vars(loader).items() if name in _SETTINGS}
        named = {name: type(vars(loader).get(name)).__qualname__ for name in ("dataset", "sampler")}
        evaluates = _now.lasting == _EVALUATE or not tracing.with_gradients()
        settings.tell("DataLoader", dict(settings.plain(own), **named, evaluates=evaluates), entry.place)


def _timed(original: Any) -> Any:
    phase = _DATA  # read by `last_words` from the frame

    # A compiler leaves a loader alone, so nobody asks here whether one is at work.
    def __next__(self: Any) -> Any:  # noqa: N807
        if not _hook.on:
            self.__dict__.pop("_crashcart_drawn", None)  # nobody takes the copies any more: they would pile up
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
            _not_given(self, error)
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
        evaluates = now.lasting == _EVALUATE
        entry = loader.__dict__.get("_crashcart_loader")
        if entry is not None:
            entry.batches, entry.evaluates = loader._num_yielded, evaluates
        if evaluates:
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
        _failed(loader)


def _look_into(loader: Any, batch: Any) -> None:
    """The size of a batch, the indices of its samples, and its memory for the case of a bad loss."""
    drawn = loader.__dict__.get("_crashcart_drawn")
    if drawn is not None:
        drawn = next(drawn, None)
    kind, last = tracing.tensor, _last
    follows_memory, memory_of, key = last.follows_memory, [], id(loader)
    tensors = batch if type(batch) in _PLAIN else _values(batch)
    is_flat = len(tensors) <= _LEAVES
    for tensor in tensors if is_flat else ():
        if type(tensor) is not kind:
            is_flat = False
            break
        key = key * 31 + tensor.numel()
        if follows_memory:
            memory_of.append(_ref(tensor.untyped_storage()))
    if not is_flat:
        tensors = [leaf for _, leaf in _leaves(batch)]
        key = id(loader) + sum([leaf.numel() << place for place, leaf in enumerate(tensors)])
        memory_of = [_ref(leaf.untyped_storage()) for leaf in tensors] if follows_memory else []
    if key != seen.key:
        _other_layout(batch, key)
    layout = seen.layout
    offsets = None if layout.is_whole or not follows_memory else [tensor.storage_offset() for tensor in tensors]
    last.newest = batch_seen = (loader._num_yielded, drawn, layout, memory_of, offsets)
    if follows_memory:
        place = last.next
        last.batches[place] = batch_seen
        last.next = place + 1 if place < _LAST_PLACE else 0
        if last.after:
            inputs.compare(place)


def _failed(loader: Any) -> None:
    """From here on nobody takes the copies of indices: there must be none."""
    loader.__dict__.pop("_crashcart_drawn", None)
    _hook.failed()


def _values(batch: Any) -> Any:
    """The values of a dictionary; anything else as the only one."""
    if isinstance(batch, UserDict):  # such as transformers' BatchEncoding
        batch = vars(batch).get("data")
    return dict.values(batch) if isinstance(batch, dict) else (batch,)


def _leaves(batch: Any) -> list[tuple[str, Any]]:
    """The tensors of a batch by name, through plain containers; a few of them."""
    leaves: list[tuple[str, Any]] = []
    waiting: list[tuple[str, Any]] = [("", batch)]
    for _ in range(2 * _LEAVES):
        if not waiting or len(leaves) == _LEAVES:
            break
        name, item = waiting.pop(0)
        if type(item) is tracing.tensor:
            leaves.append((name or "batch", item))
        else:
            room = max(0, 2 * _LEAVES - len(waiting))
            waiting += [((name + "." if name else "") + str(key)[:60], value) for key, value in _members(item, room)]
    return leaves


def _members(container: Any, most: int) -> list[tuple[Any, Any]]:
    """Names and values of a plain container; nothing of what the program's own code would have to give."""
    if isinstance(container, UserDict):
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


def _not_given(loader: Any, error: BaseException) -> None:
    """A loader that gave nothing at all is news; so is a batch that could not be made, with the samples that were to be in it."""
    try:
        if not isinstance(error, StopIteration):
            drawn = loader.__dict__.get("_crashcart_drawn")
            indices = inputs.plain_indices(next(drawn, None)) if drawn is not None else None
            if isinstance(error, Exception) and indices is not None:
                events.write("batch failed", batch=loader._num_yielded, indices=indices, type=type(error).__name__)
            return
        entry = vars(loader).get("_crashcart_loader")
        if getattr(loader, "_num_yielded", None) == 0:
            evaluates = phases.now.lasting == _EVALUATE or not tracing.with_gradients()
            phases.told(
                _EVALUATE if evaluates else phases.TRAIN, "empty loader", place=entry.place if entry is not None else None
            )
            if entry is not None:
                entry.evaluates = evaluates
        if entry is not None:
            entry.ended = True
            entry.tell_other()
    except Exception:
        _failed(loader)


def _other_layout(batch: Any, key: int) -> None:
    """The tensors of a batch are not those of the one before in number, size or type."""
    leaves = _leaves(batch)
    seen.key, seen.layout = key, inputs.Layout(leaves)
    if leaves:
        first = leaves[0][1]
        size = first.size(0) if first.dim() else 1
        elements = sum([leaf.numel() for _, leaf in leaves])
        seen.largest, seen.most = max(seen.largest, size), max(seen.most, elements)
        numbers = _here.numbers
        numbers[_SIZE], numbers[_ELEMENTS] = size, elements
        numbers[_LARGEST], numbers[_MOST] = seen.largest, seen.most
