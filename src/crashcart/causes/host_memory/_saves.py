"""A save that raised, as the process that made it recorded it: the file, what lies there now, and the room beside it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from crashcart.causes.host_memory._recorded import gib
from crashcart.record import record

if TYPE_CHECKING:
    from crashcart.case import Case
    from crashcart.deaths import Death
    from crashcart.flight import Event

FULL = 64 << 20  # bytes; less is full
FEW = 16  # inodes
NEAR = 5.0  # seconds between the failed save and the end


@record(frozen=True)
class FailedSave:
    """The last save of a process that raised shortly before its end."""

    event: Event
    path: str
    mount: str
    free: float
    inodes: float | None
    size: float | None
    whole: str | None

    @property
    def full(self) -> bool:
        """Whether the file system had no room for it."""
        return self.free < FULL or (self.inodes is not None and self.inodes < FEW)

    @property
    def room(self) -> str:
        """What was left, in words."""
        few = self.inodes is not None and self.inodes < FEW
        return f"{self.inodes:.0f} inodes" if few else gib(self.free)

    @property
    def not_whole(self) -> str:
        """What lies there now must not be loaded; the one before may."""
        if self.size is None:
            return ""
        last = f"; the last complete one is {self.whole}" if self.whole else ""
        return f"; the file there ({gib(self.size)}) is incomplete{last}"


def failed_save(case: Case, death: Death) -> FailedSave | None:
    """The save in which it died."""
    flight = case.flight
    if flight is None:
        return None
    own = [
        one for one in flight.of_kind("save-failed") if one.pid == death.process.pid and abs(one.time - death.time) < NEAR
    ]
    free = own[-1].details.get("free") if own else None
    if not own or not isinstance(free, (int, float)):
        return None
    event, told = own[-1], own[-1].details
    saved = [one.details.get("path") for one in flight.of_kind("checkpoint") if one.time < event.time]
    whole = next((str(path) for path in reversed(saved) if path and path != told.get("path")), None)
    inodes, size = told.get("inodes"), told.get("bytes")
    return FailedSave(
        event,
        str(told.get("path")),
        str(told.get("mount")),
        free,
        inodes if isinstance(inodes, (int, float)) else None,
        size if isinstance(size, (int, float)) else None,
        whole,
    )
