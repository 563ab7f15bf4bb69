"""The thread that makes a tracker's calls, in their order; it may hang in one of them, and everybody else goes on."""

from __future__ import annotations

import queue
import threading
import time
from collections import deque
from typing import TYPE_CHECKING, Any

from crashcart.train.tracking.kinds import perform

if TYPE_CHECKING:
    from collections.abc import Callable

    from crashcart.train.tracking.values import Taken

__all__ = ["Later", "Row", "Sender"]


class Row:
    """One call on its way."""

    __slots__ = ("args", "kwargs", "name", "number", "run", "taken", "target", "time")

    def __init__(self, target: Any, name: str, args: tuple[Any, ...], kwargs: dict[str, Any], run: str | None) -> None:  # noqa: ANN401
        self.target, self.name, self.args, self.kwargs, self.run = target, name, args, kwargs, run
        self.number = 0
        self.time = 0.0
        self.taken: Taken | None = None


class Later:
    """The result of a call that the sender makes, once it is there."""

    __slots__ = ("failed", "over", "row", "value")

    def __init__(self, row: Row) -> None:
        self.row = row
        self.over = threading.Event()
        self.failed = False
        self.value: Any = None

    def came(self) -> bool:
        """Whether there is a result."""
        return self.over.is_set() and not self.failed


class Sender:
    """Its queue, what it is at, and what the tracker took."""

    def __init__(
        self, call_seconds: float, answered: Callable[[Later], None], trouble: Callable[[str, BaseException], None]
    ) -> None:
        self.queue: queue.SimpleQueue[Row | Later] = queue.SimpleQueue()
        self.busy: tuple[float, str] | None = None
        self.took: deque[int] = deque()
        self.delivered = 0
        self._call_seconds = call_seconds
        self._answered = answered
        self._trouble = trouble

    def hung(self) -> bool:
        """Whether one call has taken too long."""
        busy = self.busy
        return busy is not None and time.monotonic() - busy[0] > self._call_seconds

    def at(self, name: str) -> str:
        """The call that keeps the one of this name from its end; itself where that is being made."""
        busy = self.busy
        return name if busy is None else busy[1]

    def work(self) -> None:
        """Make the calls, until the process ends."""
        while True:
            item = self.queue.get()
            row = item.row if isinstance(item, Later) else item
            self.busy = (time.monotonic(), row.name)
            try:
                self._make(item, row)
            except BaseException as error:  # noqa: BLE001 - a tracker may even call sys.exit
                self._trouble(row.name, error)
                if isinstance(item, Later):
                    item.failed = True
            finally:
                self.busy = None
                if isinstance(item, Later):
                    item.over.set()

    def _make(self, item: Row | Later, row: Row) -> None:
        target = row.target
        if isinstance(target, Later):
            if target.failed:
                raise RuntimeError(f"{target.row.name} had failed")
            target = target.value
        value = perform(target, row.name, row.args, row.kwargs, row.run)
        if isinstance(item, Later):
            item.value = value
            self._answered(item)
        else:
            self.delivered += 1
            self.took.append(row.number)
