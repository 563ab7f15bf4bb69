"""Training that goes wrong or loses time: values that are no numbers, spikes, a scale that collapses, data that does not come."""

from __future__ import annotations

from collections import deque
from math import isfinite, isnan
from typing import TYPE_CHECKING, Any

from crashcart.flight import median
from crashcart.recording.tables import GPU

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.run.pages import Page

__all__ = ["Numerics", "Starvation", "Throttling"]

_WINDOW = 128
_FEWEST = 40
_FAR = 8 * 1.4826
_SKIPPED = 0.05
_STEPS = 200
_STARVED = 0.5
_LONG = 120.0
_THROTTLE = GPU.index("throttle")
# NVML: a slow-down by hardware, for heat or by the power brake; not the ordinary power cap.
_SLOWED = 0x8 | 0x20 | 0x40 | 0x80
_SLOWED_FOR = 60


class Numerics:
    """Losses, scales and skipped steps of the ranks."""

    def __init__(self) -> None:
        self._losses: deque[float] = deque(maxlen=_WINDOW)
        self._step = -1.0
        self._high = 0
        self._skips: deque[tuple[float, float]] = deque(maxlen=64)

    def look(self, pages: list[Page], events: list[dict[str, Any]]) -> Iterator[tuple[str, str]]:
        """What is wrong with the numbers of this second."""
        for event in events:
            if event.get("kind") == "nonfinite":
                who = f" on rank {event['rank']}" if event.get("rank") is not None else ""
                held = ", ".join(str(field.get("field")) for field in event.get("fields") or ())
                data = f"; its batch has such values in field {held}" if held else ""
                yield "nonfinite", f"the {event.get('what', 'loss')} is not finite at step {event.get('step')}{who}{data}."
        for page in pages[:1]:
            yield from self._spike(page)
            yield from self._skipped(page)

    def _spike(self, page: Page) -> Iterator[tuple[str, str]]:
        loss, step = page.get("loss"), page.get("loss_step")
        if not isfinite(loss) or step <= self._step:
            return
        self._step = step
        if len(self._losses) >= _FEWEST:
            middle = median(self._losses)
            spread = max(median(abs(one - middle) for one in self._losses), 1e-3 * abs(middle))
            self._high = self._high + 1 if loss > middle + _FAR * spread else 0
            if self._high > 1:
                yield "spike", f"the loss jumped to {loss:.4g} at step {step:.0f}; before it was about {middle:.4g}."
        self._losses.append(loss)

    def _skipped(self, page: Page) -> Iterator[tuple[str, str]]:
        steps, skipped, scale = page.get("steps"), page.get("skipped"), page.get("scale")
        if not isnan(scale) and 0 < scale < 1:
            yield "scale", f"the gradient scaler's scale fell to {scale:g}: nearly every step overflows."
        if isnan(skipped) or isnan(steps):
            return
        self._skips.append((steps + skipped, skipped))
        old = next(((tried, missed) for tried, missed in self._skips if steps + skipped - tried <= _STEPS), None)
        if (
            old is not None
            and steps + skipped - old[0] > _STEPS / 2
            and skipped - old[1] > _SKIPPED * (steps + skipped - old[0])
        ):
            share = (skipped - old[1]) / (steps + skipped - old[0])
            yield "skipped", f"{share:.0%} of the last steps were skipped because gradients were not finite."


class Starvation:
    """How much of its time a rank waits for data."""

    def __init__(self) -> None:
        self._seen: deque[tuple[float, float, float]] = deque(maxlen=256)

    def note(self, now: float, _: dict[str, list[list[float]]], pages: list[Page], __: list[dict[str, Any]]) -> None:
        """Take in what was just seen."""
        for page in pages[:1]:
            waited, steps = page.get("data_wait"), page.get("steps")
            if not isnan(waited) and not isnan(steps):
                self._seen.append((now, waited, steps))

    def judge(self, now: float) -> Iterator[tuple[str, str]]:
        """More than half of the time, over minutes in which steps were made."""
        old = next((one for one in self._seen if now - one[0] <= _LONG), None)
        if old is None or not self._seen or self._seen[-1][0] - old[0] < _LONG / 2:
            return
        at, waited, steps = self._seen[-1]
        share = (waited - old[1]) / (at - old[0])
        if share > _STARVED and steps - old[2] > 1:
            yield "starved", f"training spends {share:.0%} of its time waiting for data."


class Throttling:
    """Cards that were slowed down by heat or hardware."""

    def __init__(self) -> None:
        self._since: dict[int, float] = {}
        self._now: list[int] = []

    def note(self, now: float, tables: dict[str, list[list[float]]], _: list[Page], __: list[dict[str, Any]]) -> None:
        """Take in what was just seen."""
        slowed = [
            int(row[0]) for row in tables.get("gpu", ()) if not isnan(row[_THROTTLE]) and int(row[_THROTTLE]) & _SLOWED
        ]
        self._since = {index: self._since.get(index, now) for index in slowed}

    def judge(self, now: float) -> Iterator[tuple[str, str]]:
        """Not a moment's, but a minute's."""
        for index, since in self._since.items():
            if now - since > _SLOWED_FOR:
                yield f"throttle-{index}", f"GPU {index} has been throttled by heat or hardware for {now - since:.0f} s."
