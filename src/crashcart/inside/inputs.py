"""The batches that the loader gave last: looked into only after a loss that is no number, to tell bad data from a bad step.

Only where the training is in host memory: from a GPU a loss comes too late. Batches are remembered by weak references to the
memory of their tensors (a weak reference to a tensor makes `torch.utils.swap_tensors` refuse it), so that none lives longer than
it would without us; of several that are alive (accelerate fetches one ahead, an accumulation all of its own) those with bad
values are told. Nothing is computed while losses are fine. Then it is a look at a bounded part: which fields, which samples of
the batch. The next batches are looked into as well: data that always holds NaN (targets that a mask leaves out) brought nothing in.
"""

from __future__ import annotations

import weakref
from typing import Any

from . import events, page, tracing

BATCHES = 8
_FIELDS = 8
_ELEMENTS = 1 << 23  # in one look
_LOOKS = 20  # in one process
_ROWS = 8
_AFTER = 3
_LAST = BATCHES - 1
_NUMBERED = tuple(map(str, range(64)))


class _Last:
    __slots__ = ("after", "batches", "looks", "next")

    def __init__(self) -> None:
        self.renew()

    def renew(self) -> None:
        """As before the first batch."""
        self.batches: list[Any] = [None] * BATCHES  # a ring: how many-th, fields by name with their memory
        self.after = self.looks = self.next = 0


last = _Last()
page.after_fork.append(last.renew)
ref = weakref.ref


def remember(number: Any, names: Any, tensors: Any) -> None:
    """A batch was handed out: the how many-th of its epoch, and its tensors (numbered where they have no names)."""
    fields = []
    for name, tensor in zip(names or _NUMBERED, tensors):
        if tensor.is_cpu and tensor.is_floating_point() and tensor.is_contiguous():
            fields.append((name, ref(tensor.untyped_storage()), tensor.dtype, tensor.storage_offset(), tensor.shape))
    at = last.next
    last.batches[at] = number, fields
    last.next = at + 1 if at < _LAST else 0
    if last.after:
        compare(at)


def compare(at: int) -> None:
    """A batch after a bad loss: whether it holds such values as well."""
    last.after -= 1
    found = _look([last.batches[at]])
    number, step = last.batches[at][0], int(page.here.numbers[page.STEPS])
    events.write("inputs", batch=number, step=step, fields=found[1] if found else [])


def at_a_bad_loss() -> dict[str, object]:
    """What to add to the event of a loss that is no number; the next batches are compared with it."""
    if tracing.watched() or tracing.profiled() or last.looks >= _LOOKS:
        return {}
    last.looks += 1
    found = _look(last.batches[last.next :] + last.batches[: last.next])
    if found is None:
        return {}
    last.after = _AFTER
    return {"batch": found[0], "fields": found[1]}


def _look(batches: list[Any]) -> tuple[Any, list[dict[str, object]]] | None:
    """The oldest batch that is alive and has fields with values that are not finite; nothing where none has."""
    torch = tracing.torch
    left = _ELEMENTS
    with torch._C.DisableTorchFunction(), torch.no_grad():
        for number, fields in filter(None, batches):
            found: list[dict[str, object]] = []
            for name, reference, dtype, offset, shape in fields[:_FIELDS]:
                storage = reference()
                if storage is None or left <= 0 or not shape.numel():
                    continue
                tensor = torch.empty(0, dtype=dtype)
                if storage.nbytes() < (offset + shape.numel()) * tensor.element_size():
                    continue
                count, samples = _bad(torch, tensor.set_(storage, offset, shape), left)
                left -= tensor.numel()
                if count:
                    found.append(
                        {"field": name, "shape": [int(size) for size in shape], "values": count, "samples": samples}
                    )
            if found:
                return number, found
    return None


def _bad(torch: Any, tensor: Any, most: int) -> tuple[int, list[int]]:
    """How many values are not finite, and in which samples, in the first so many elements."""
    if not tensor.dim():
        return int(not bool(torch.isfinite(tensor))), []
    samples = min(tensor.size(0), max(1, most * tensor.size(0) // tensor.numel()))
    bad = torch.isfinite(tensor[:samples]).logical_not_().reshape(samples, -1)
    rows = bad.any(1).nonzero().flatten()[:_ROWS]
    return int(bad.sum()), [int(row) for row in rows.tolist()]
