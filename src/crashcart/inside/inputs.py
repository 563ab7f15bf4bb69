"""The batches that the loader gave last: looked into only when a loss is no number, or when an error ends the program.

Only where the training is in host memory: from a GPU a loss comes too late. Batches are remembered by weak references to the
memory of their tensors (a weak reference to a tensor makes `torch.utils.swap_tensors` refuse it), so that none lives longer than
it would without us; of several that are alive (accelerate fetches one ahead, an accumulation all of its own) those with bad
values are told. Nothing is computed while losses are fine. Then it is a look at a bounded part: which fields, which samples of
the batch. The next batches are looked into as well: data that always holds NaN (targets that a mask leaves out) brought nothing in.
"""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

from . import events, page, tracing

if TYPE_CHECKING:
    from collections.abc import Iterator

BATCHES = 8
_FIELDS = 8
_ELEMENTS = 1 << 23  # in one look
_LOOKS = 20  # in one process
_ROWS = 8
_AFTER = 3
_MOST_INDICES = 256
_MOST_NODES = 20_000


class Layout:
    """How the tensors of a batch are laid out; the same for most batches, so it is worked out when something changes."""

    __slots__ = ("fields", "is_whole")

    def __init__(self, leaves: list[tuple[str, Any]]) -> None:
        self.fields: list[Any] = []  # of each tensor its name, type and shape; none where it is not looked into
        self.is_whole = True  # each tensor is all of its memory
        for name, tensor in leaves:
            looked_into = tensor.is_cpu and tensor.is_floating_point() and tensor.is_contiguous()
            self.fields.append((name, tensor.dtype, tensor.shape) if looked_into else None)
            if looked_into and tensor.untyped_storage().nbytes() != tensor.numel() * tensor.element_size():
                self.is_whole = False


class _Last:
    __slots__ = ("after", "batches", "follows_memory", "looks", "newest", "next")

    def __init__(self) -> None:
        self.renew()

    def renew(self) -> None:
        """As before the first batch."""
        # Filled by `batches`: how many-th of its epoch, indices of its samples, layout, memory, offsets where needed.
        self.newest: Any = (None, None)
        self.batches: list[Any] = [None] * BATCHES  # a ring, where the memory of batches is followed
        self.follows_memory = False
        self.after = self.looks = self.next = 0


last = _Last()
page.after_fork.append(last.renew)
ref = weakref.ref


def choose() -> None:
    """Follow the memory of batches only while no GPU is in use."""
    last.follows_memory = tracing.torch is not None and not tracing.torch.cuda._initialized


def compare(place: int) -> None:
    """A batch after a bad loss: whether it holds such values as well."""
    last.after -= 1
    events.write("inputs", step=int(page.here.numbers[page.STEPS]), **_Look().told([last.batches[place]]))


def at_a_bad_loss(loss: Any, batch: Any = None) -> dict[str, object]:
    """What to add to the event of a loss that is no number: its batch and the weights; the next batches are compared with it.

    Of a loss that came late from a device only its `batch` is told: the one that was handed out last is another.
    """
    if batch is not None:
        return {"batch": batch[0], "indices": plain_indices(batch[1])}
    if tracing.watched() or tracing.profiled() or last.looks >= _LOOKS:
        return {}
    last.looks += 1
    look = _Look()
    told = look.told(_newest_last())
    if told:
        last.after = _AFTER
    weights = look.weights(loss)
    if weights.get("weights_finite") is False and not told.get("fields"):
        weights["before"] = _batch_before()  # its step broke them; the batch itself is mostly gone
    return dict(told, **weights)


def _batch_before() -> object:
    """The number and the samples of the batch before the newest."""
    batches = [batch for batch in _newest_last() if batch is not None][-2:-1]
    return [[batch[0], plain_indices(batch[1])] for batch in batches]


def at_the_end() -> dict[str, object]:
    """What to add to the event of an error that ends the program."""
    if tracing.torch is None or tracing.torch.cuda._initialized or tracing.watched() or tracing.profiled():
        return {}
    return _Look().told(_newest_last())


def _newest_last() -> list[Any]:
    return last.batches[last.next :] + last.batches[: last.next]


class _Look:
    """One look into batches or weights, at so many elements in all."""

    def __init__(self) -> None:
        self.left = _ELEMENTS

    def told(self, batches: list[Any]) -> dict[str, object]:
        """The oldest batch that is alive and has fields with values that are not finite; where none has, the newest."""
        newest: dict[str, object] = {}
        torch = tracing.torch
        with torch._C.DisableTorchFunction(), torch.no_grad():
            for batch in filter(None, batches):
                number, drawn, _layout = batch[:3]
                looked, fields, largest = self._fields(torch, *batch[2:])
                if looked or not newest:
                    newest = {
                        "batch": number,
                        "indices": plain_indices(drawn),
                        "looked": looked,
                        "fields": [dict(field, indices=_drawn_for(field, drawn)) for field in fields],
                        "largest": largest,
                    }
                if fields:
                    break
        return newest

    def _fields(self, torch: Any, layout: Layout, memory: list[Any], offsets: Any) -> tuple[bool, list[Any], Any]:
        """Whether any field could be looked into, those with values that are not finite, and the largest finite value."""
        looked, found, largest = False, [], None
        for place, field in enumerate(layout.fields[:_FIELDS]):
            storage = memory[place]() if field is not None else None
            if storage is None or self.left <= 0 or not field[2].numel():
                continue
            name, dtype, shape = field
            tensor = torch.empty(0, dtype=dtype)
            needed = shape.numel() * tensor.element_size()
            if offsets is None and storage.nbytes() != needed:
                continue
            offset = offsets[place] if offsets is not None else 0
            if storage.nbytes() < offset * tensor.element_size() + needed:
                continue
            looked = True
            count, samples, high = self._bad(torch, tensor.set_(storage, offset, shape))
            largest = high if largest is None else max(largest, high)
            if count:
                shown = [int(size) for size in shape] or [1]
                found.append({"field": name, "shape": shown, "values": count, "samples": samples})
        return looked, found, largest

    def _bad(self, torch: Any, tensor: Any) -> tuple[int, list[int], float]:
        """How many values are not finite, in which samples, and the largest of the others, in the elements that are left."""
        tensor = tensor.reshape(1) if not tensor.dim() else tensor
        samples = min(tensor.size(0), max(1, self.left * tensor.size(0) // tensor.numel()))
        tensor = tensor[:samples].reshape(samples, -1)
        self.left -= tensor.numel()
        finite = torch.isfinite(tensor)
        rows = (~finite).any(1).nonzero().flatten()[:_ROWS]
        high = torch.where(finite, tensor, 0).abs().amax()
        return int(tensor.numel() - int(finite.sum())), [int(row) for row in rows.tolist()], float(high)

    def weights(self, loss: Any) -> dict[str, object]:
        """Whether the weights that a loss was made of are finite, and the largest; nothing where they are not in host memory."""
        torch = tracing.torch
        kinds = (tracing.tensor, torch.nn.Parameter)
        finite, largest = True, None
        with torch._C.DisableTorchFunction(), torch.no_grad():
            for tensor in _leaves_of(loss):
                plain = type(tensor) in kinds and tensor.is_cpu and tensor.is_floating_point() and not tensor.is_sparse
                if plain and tensor.numel() and self.left > 0:
                    count, _, high = self._bad(torch, tensor.detach())
                    finite = finite and not count
                    largest = high if largest is None else max(largest, high)
        return {} if largest is None else {"weights_finite": finite, "weights_largest": largest}


def _leaves_of(loss: Any) -> Iterator[Any]:
    """The tensors whose gradients a loss would give, from its graph; a bounded part of it."""
    waiting = [loss.grad_fn]
    seen = set(waiting)
    while waiting and len(seen) < _MOST_NODES:
        node = waiting.pop()
        leaf = getattr(node, "variable", None)
        if leaf is not None:
            yield leaf
        for following, _ in getattr(node, "next_functions", ()):
            if following is not None and following not in seen:
                seen.add(following)
                waiting.append(following)


def plain_indices(drawn: Any) -> Any:
    """The indices that a sampler drew, where they are plain numbers or short names, and not too many."""
    indices = list(drawn) if type(drawn) in (list, tuple) else [drawn]
    plain = all(type(index) is int or (type(index) is str and len(index) < 200) for index in indices)
    return indices if plain and len(indices) <= _MOST_INDICES else None


def _drawn_for(field: dict[str, Any], drawn: Any) -> Any:
    """The indices in the data set of the samples of a field that are not finite, where each row is a sample."""
    if type(drawn) is not list or len(drawn) != field["shape"][0]:
        return None
    return plain_indices([drawn[row] for row in field["samples"]])
