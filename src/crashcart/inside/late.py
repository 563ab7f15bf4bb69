"""Numbers that live on a GPU: copied in stream order into pinned memory, read once the copy has arrived, never waited for.

Each slot of the ring is filled with a signalling NaN before its copy is started. Arithmetic never produces one, so a slot that
holds anything else has arrived, and no event has to be created, queried or destroyed: `cudaEventQuery` in one thread breaks a
graph that another one captures.

The pinned memory is never freed. Freeing it, or a CUDA event, in a forked child aborts the child (`CUDA error: initialization
error`), and so can a late collection at exit; a reference that is never given back prevents both.
"""

from __future__ import annotations

import ctypes
import struct
from _thread import get_ident
from typing import TYPE_CHECKING, Any

from . import phases, tracing

if TYPE_CHECKING:
    from collections.abc import Callable

_SLOTS = 8
# For each type: what a slot is read as, the signalling NaN, and the format that turns it into a number.
_FORMATS: dict[str, tuple[Any, int, str, str, int]] = {
    "torch.float32": (ctypes.c_uint32, 0x7FA5A5A5, "<I", "<f", 0),
    "torch.float64": (ctypes.c_uint64, 0x7FF5A5A5A5A5A5A5, "<Q", "<d", 0),
    "torch.float16": (ctypes.c_uint16, 0x7D5A, "<H", "<e", 0),
    "torch.bfloat16": (ctypes.c_uint16, 0x7FA5, "<I", "<f", 16),  # the upper half of a float32
}


class Later:
    """A ring of copies under way; `take(value, step, batch)` gets each when it has come."""

    __slots__ = ("device", "dtype", "empty", "formats", "slots", "take", "under_way", "words", "written")

    def __init__(self, take: Callable[[float, int, Any], None]) -> None:
        self.take = take
        self.renew()

    def renew(self) -> None:
        """Start anew, as a forked child must; the memory of the ring stays where it is."""
        self.slots: list[Any] = []
        self.words: Any = None
        self.under_way: list[tuple[int, int, Any]] = []
        self.written = self.empty = 0
        self.formats = ("", "", 0)
        self.dtype: Any = None
        self.device: Any = None

    def put(self, tensor: Any, step: int, batch: Any = None) -> None:
        """Start a copy of what belongs to a step and a batch; only for the training thread, not while a graph is captured, nor from another device, nor into a full ring."""
        torch = tracing.torch
        if get_ident() != phases.now.thread or torch.cuda.is_current_stream_capturing():
            return
        self.collect()
        if not self.slots and not self._make(torch, tensor):
            return
        if tensor.dtype != self.dtype or tensor.device != self.device or len(self.under_way) == _SLOTS:
            return
        if torch._C._cuda_getDevice() != self.device.index:  # whose stream was asked above
            return
        slot = self.written % _SLOTS
        self.written += 1
        self.words[slot] = self.empty
        value = tensor.detach()
        self.slots[slot].copy_(value if not value.dim() else value.reshape(()), non_blocking=True)
        self.under_way.append((slot, step, batch))

    def collect(self) -> None:
        """Read what has arrived; touches nothing but host memory."""
        while self.under_way and get_ident() == phases.now.thread:
            slot, step, batch = self.under_way[0]
            word = self.words[slot]
            if word == self.empty:
                return
            del self.under_way[0]
            packed, unpacked, shift = self.formats
            self.take(float(struct.unpack(unpacked, struct.pack(packed, word << shift))[0]), step, batch)

    def _make(self, torch: Any, tensor: Any) -> bool:
        # Of the same type as what is copied: a conversion would take memory on the device.
        known = _FORMATS.get(str(tensor.dtype))
        if known is None:
            return False
        word, empty, packed, unpacked, shift = known
        ring = torch.empty(_SLOTS, dtype=tensor.dtype, device="cpu", pin_memory=True)
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(ring))
        self.words = (word * _SLOTS).from_address(ring.data_ptr())
        self.empty, self.formats = empty, (packed, unpacked, shift)
        self.dtype, self.device, self.slots = tensor.dtype, tensor.device, list(ring.unbind())
        return True
