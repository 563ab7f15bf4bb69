"""The batches that the loader gave last: looked into only after a loss that is no number, to tell bad data from a bad step.

Tensors are remembered by weak references, so that a batch lives no longer than it would without us; of several that are alive
(accelerate fetches one ahead, an accumulation all of its own) those with bad values are told. Nothing is computed while losses
are fine. Then it is a look at a bounded part of what lies in host memory: which fields, which samples of the batch. The next
batches are looked into as well: data that always holds NaN (targets that a mask leaves out) brought nothing in.
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
        self.batches: list[Any] = [None] * BATCHES  # a ring: how many-th, names or None, weak references
        self.after = self.looks = self.next = 0


last = _Last()
page.after_fork.append(last.renew)
ref = weakref.ref


def remember(number: Any, names: Any, tensors: Any) -> None:
    """A batch was handed out: the how many-th of its epoch, and its tensors (numbered where they have no names)."""
    at = last.next
    last.batches[at] = number, names, tuple(map(ref, tensors))
    last.next = at + 1 if at < _LAST else 0
    if last.after:
        compare(at)


def compare(at: int) -> None:
    """A batch after a bad loss: whether it holds such values as well."""
    last.after -= 1
    found = _look(_fields([last.batches[at]]))
    number, step = last.batches[at][0], int(page.here.numbers[page.STEPS])
    events.write("inputs", batch=number, step=step, fields=found[1] if found else [])


def _fields(batches: list[Any]) -> list[tuple[Any, list[tuple[str, Any]]]]:
    """Batches with the names of their tensors."""
    tensor = tracing.tensor
    return [
        (number, [(name, one) for name, one in zip(names or _NUMBERED, fields) if type(one()) is tensor][:_FIELDS])
        for number, names, fields in (entry for entry in batches if entry is not None)
    ]


def at_a_bad_loss() -> dict[str, object]:
    """What to add to the event of a loss that is no number; the next batches are compared with it."""
    if tracing.watched() or tracing.profiled() or last.looks >= _LOOKS:
        return {}
    last.looks += 1
    found = _look(_fields(last.batches[last.next :] + last.batches[: last.next]))
    if found is None:
        return {}
    last.after = _AFTER
    return {"batch": found[0], "fields": found[1]}


def _look(batches: list[tuple[Any, list[tuple[str, Any]]]]) -> tuple[Any, list[dict[str, object]]] | None:
    """The oldest batch that is alive and has fields with values that are not finite; nothing where none has."""
    torch = tracing.torch
    floats = (torch.float32, torch.float16, torch.bfloat16, torch.float64)
    left = _ELEMENTS
    with torch._C.DisableTorchFunction(), torch.no_grad():
        for number, fields in batches:
            found: list[dict[str, object]] = []
            for name, reference in fields:
                tensor = reference()
                if tensor is None or not tensor.is_cpu or tensor.dtype not in floats or tensor.layout != torch.strided:
                    continue
                if left <= 0 or not tensor.numel():
                    continue
                count, samples = _bad(torch, tensor, left)
                left -= tensor.numel()
                if count:
                    shape = [int(size) for size in tensor.shape]
                    found.append({"field": name, "shape": shape, "values": count, "samples": samples})
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
