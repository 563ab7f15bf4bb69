"""What the driver reports by itself: Xids and memory errors, from the moment they are registered for.

It works without root, in containers too, and is the only way to learn of an Xid where the kernel log cannot be read.
"""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING, Any

from crashcart.record import record

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["Events", "GpuEvent"]

_MOST = 64
_KINDS = {1: "ecc-corrected", 2: "ecc-uncorrected", 8: "xid"}


@record(frozen=True)
class GpuEvent:
    """One event; ``number`` is the Xid, ``kind`` one of xid, ecc-corrected, ecc-uncorrected."""

    time: float
    index: int
    kind: str
    number: int


class Events:
    """Registered with each card that knows events; ``registered`` says which."""

    def __init__(self, nvml: Any, handles: Iterable[Any]) -> None:  # noqa: ANN401 - a module and ctypes pointers
        self._nvml = nvml
        self._set: Any = None
        self.registered: list[int] = []
        with contextlib.suppress(Exception):
            self._set = nvml.nvmlEventSetCreate()
        for index, handle in enumerate(handles):
            with contextlib.suppress(Exception):
                able = nvml.nvmlDeviceGetSupportedEventTypes(handle)
                nvml.nvmlDeviceRegisterEvents(handle, sum(_KINDS) & able, self._set)
                self.registered.append(index)

    def new(self) -> list[GpuEvent]:
        """Those since the last call; does not wait."""
        found: list[GpuEvent] = []
        with contextlib.suppress(Exception):  # NVMLError_Timeout: there are no more
            while self.registered and len(found) < _MOST:
                event = self._nvml.nvmlEventSetWait_v2(self._set, 0)
                kind = _KINDS.get(event.eventType, f"event-{event.eventType}")
                found.append(GpuEvent(time.time(), self._index(event.device), kind, int(event.eventData)))
        return found

    def _index(self, handle: Any) -> int:  # noqa: ANN401 - a ctypes pointer
        with contextlib.suppress(Exception):
            return int(self._nvml.nvmlDeviceGetIndex(handle))
        return -1
