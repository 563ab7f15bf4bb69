"""Numbers that live on a GPU: copied in stream order into pinned memory, read when the copy has arrived, never waited for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from . import tracing

if TYPE_CHECKING:
    from collections.abc import Callable

_SLOTS = 8


class Later:
    """A ring of copies under way; `take(value, step)` gets each when it has come."""

    __slots__ = ("device", "dtype", "events", "numbers", "take", "under_way", "written")

    def __init__(self, take: Callable[[float, int], None]) -> None:
        self.take = take
        self.renew()

    def renew(self) -> None:
        """Forget everything: a forked child must not touch the device."""
        self.numbers: list[Any] = []
        self.events: list[Any] = []
        self.under_way: list[tuple[int, int]] = []
        self.written = 0
        self.dtype: Any = None
        self.device: Any = None

    def put(self, tensor: Any, step: int) -> None:
        """Start a copy; nothing happens while a graph is captured, or if the ring is full."""
        cuda = tracing.torch.cuda
        if cuda.is_current_stream_capturing():
            return
        self.collect()
        if not self.numbers:
            self._make(tensor)
        if tensor.dtype != self.dtype or tensor.device != self.device or len(self.under_way) == _SLOTS:
            return
        slot = self.written % _SLOTS
        self.written += 1
        self.numbers[slot].copy_(tensor.detach().reshape(()), non_blocking=True)
        self.events[slot].record(cuda.current_stream(self.device))
        self.under_way.append((slot, step))

    def collect(self) -> None:
        """Read what has arrived."""
        while self.under_way and self.events[self.under_way[0][0]].query():
            slot, step = self.under_way.pop(0)
            self.take(float(self.numbers[slot].item()), step)

    def _make(self, tensor: Any) -> None:
        # Of the same type as what is copied: a conversion would take memory on the device.
        torch = tracing.torch
        self.dtype, self.device = tensor.dtype, tensor.device
        self.numbers = list(torch.empty(_SLOTS, dtype=tensor.dtype, device="cpu", pin_memory=True).unbind())
        self.events = [torch.cuda.Event() for _ in range(_SLOTS)]
