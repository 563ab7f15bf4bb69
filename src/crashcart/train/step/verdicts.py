"""How each window ended, known late: flags leave the device by an asynchronous copy and are read when they have arrived.

All ranks hold the same flags, so all that follows from them must follow at the same window everywhere: a verdict counts
exactly `LAG` windows later (at once where the host had to look anyway), never when a copy happens to be done.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from torch import Tensor

    from crashcart.train.step.kept import Micro

__all__ = ["LAG", "Pending", "Verdict"]

# A GPU is at most a few steps behind its host (1024 launches); a flag this old has nearly always arrived.
LAG = 4
_FIXED = 5
_HELD = 2


@dataclass
class Verdict:
    """What is known of one window: an optimizer step, or a skipped one."""

    step: int
    micros: list[Micro] = field(default_factory=list)
    bad: bool = False
    bad_losses: int = 0
    norm: float = 0.0
    scale: float = 1.0
    some_weighted: bool = False
    losses: list[float] = field(default_factory=list)

    def read(self, numbers: list[float]) -> Verdict:
        """Take over what lay on the device."""
        bad, bad_losses, self.norm, self.scale, some_weighted = numbers[:_FIXED]
        self.bad, self.bad_losses, self.losses = bad > 0, int(bad_losses), numbers[_FIXED:]
        self.some_weighted = some_weighted > 0
        return self


class Pending:
    """Verdicts on their way from the device, in order."""

    def __init__(self) -> None:
        self._waiting: deque[tuple[Verdict, Tensor, Any]] = deque()
        self._idle: list[tuple[Tensor, Any]] = []

    def send(self, verdict: Verdict, numbers: Tensor) -> None:
        """Start the copy; nothing waits for it."""
        place, arrival = self._place(numbers)
        place.copy_(numbers, non_blocking=True)
        arrival.record()
        self._waiting.append((verdict, place, arrival))

    def due(self, step: int) -> list[Verdict]:
        """Those whose turn it is after window `step`; the same on every rank."""
        ready = []
        while self._waiting and self._waiting[0][0].step <= step - LAG:
            ready.append(self._take())
        return ready

    def rest(self) -> list[Verdict]:
        """All of them; waits for the device."""
        return [self._take() for _ in range(len(self._waiting))]

    def let_go(self, room: int) -> None:
        """Give up the batches of windows that are known to be good by now, and old ones that would fill the device.

        A window that is known to be bad keeps its batches until it is judged; of those that nothing is known of, the last two
        do, and as many before them as lie in `room` bytes.
        """
        unknown = []
        for verdict, numbers, arrival in self._waiting:
            if verdict.micros and not arrival.query():
                unknown.append(verdict)
            elif verdict.micros and not numbers[0] > 0:
                verdict.micros = []
        for verdict in reversed(unknown[:-_HELD]):
            room -= sum(micro.device_bytes() for micro in verdict.micros)
            if room < 0:
                for micro in verdict.micros:
                    micro.forget()

    def _take(self) -> Verdict:
        verdict, numbers, arrival = self._waiting.popleft()
        if not arrival.query():
            arrival.synchronize()
        verdict.read(numbers.tolist())
        self._idle.append((numbers, arrival))
        return verdict

    def _place(self, numbers: Tensor) -> tuple[Tensor, Any]:
        for number, (place, _) in enumerate(self._idle):
            if len(place) == len(numbers):
                return self._idle.pop(number)
        if not numbers.is_cuda:
            return torch.empty(len(numbers)), _Arrived()
        return torch.empty(len(numbers), pin_memory=True), torch.cuda.Event()  # type: ignore[no-untyped-call]


class _Arrived:
    """Stands for an event where a copy is done when it returns."""

    def record(self) -> None:
        """Nothing to mark."""

    def query(self) -> bool:
        return True
