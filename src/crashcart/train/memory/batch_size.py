"""Finds the largest batch that fits by measuring two small ones: memory is a straight line in the number of samples.

::

    def step(samples):
        loss_of(model, random_batch(samples)).backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    batch_size = find_batch_size(step, restore=[model, optimizer])
"""

from __future__ import annotations

import math
import warnings
from typing import TYPE_CHECKING, Any

import torch

from crashcart.train.memory.left_as_found import left_as_found
from crashcart.train.memory.meters import DeviceMeter, HookMeter, HostMeter
from crashcart.train.memory.out_of_memory import free_memory
from crashcart.train.memory.probing import Line, Probes, size_told

if TYPE_CHECKING:
    from collections.abc import Callable

    from crashcart.train.memory.meters import Meter

__all__ = ["BatchSize", "find_batch_size"]

_DOUBLINGS = 12
_REACH = 8  # a line is not followed further than this many times its longest measurement without another
_FIRST_REACH = 4  # the same for one that no third measurement has confirmed
_BENDS = 4
_NEAR = 0.1  # share of a measurable growth from which sizes are only doubled
_KEPT = 0.75  # share of the margin that a measured answer must leave


class BatchSize(int):
    """A batch size that knows how it was found."""

    line: Line = Line(0.0, 0.0)
    room_bytes: float = 0.0
    peaks: dict[int, float]

    def report(self) -> str:
        """One sentence with what was measured."""
        steps = ", ".join(f"{samples}: {size_told(peak)}" for samples, peak in sorted(self.peaks.items()))
        line = f"{size_told(self.line.base)} + {size_told(self.line.each)} a sample; " if self.line.each else ""
        return f"batch size {int(self)} of {size_told(self.room_bytes)} of memory ({line}measured {steps})"


def find_batch_size(  # noqa: PLR0913 - all but the first by name
    step_fn: Callable[[int], object],
    *,
    lowest: int = 1,
    highest: int | None = None,
    multiple_of: int = 1,
    margin: float = 0.1,
    restore: Any = (),  # noqa: ANN401 - a module, an optimizer, or several of them
    device: torch.device | str | None = None,
    limit: float | None = None,
    measure: Callable[[Callable[[], object]], float] | None = None,
    all_ranks: bool = True,
    group: Any = None,  # noqa: ANN401 - a ProcessGroup
) -> BatchSize:
    """The largest batch size whose step stays below (1 - `margin`) of the memory, confirmed by one step of that size.

    `step_fn(samples)` must do one whole training step with that many samples, as long or large as they come: batch, forward,
    backward, optimizer step, gradients freed. `restore`: modules, optimizers, schedulers, scalers that are put back as they
    were; random numbers always are. `limit`: bytes to stay within, if less than there are. `measure`: your own meter, which
    calls what it is given and returns the bytes of the peak (with `limit`). All ranks of `group` try the same sizes at the
    same time and take the smallest answer. Raises where memory is not a straight line, with what was measured.
    """
    step = max(1, multiple_of)
    first = -(-max(1, lowest) // step) * step
    top = None if highest is None else highest // step * step
    if top is not None and top < first:
        raise ValueError(f"no multiple of {step} lies between lowest={lowest} and highest={highest}")
    if not 0 <= margin < 1:
        raise ValueError(f"margin is a share of the memory between 0 and 1, not {margin!r}")
    if measure is not None and limit is None:
        raise ValueError("measure= needs limit=, the bytes that there are")
    things = [restore] if hasattr(restore, "state_dict") else list(restore)
    meter = _meter(device, measure)
    with left_as_found(things):
        try:
            probes = Probes(step_fn, meter, things, (all_ranks, group))
            return _Search(probes, meter, margin, limit, (first, top, step)).found()
        finally:
            free_memory()


def _meter(device: torch.device | str | None, measure: Callable[[Callable[[], object]], float] | None) -> Meter:
    if measure is not None:
        return HookMeter(measure)
    chosen = torch.device(device if device is not None else "cuda" if torch.cuda.is_available() else "cpu")
    return HostMeter() if chosen.type == "cpu" else DeviceMeter(chosen)


class _Search:
    def __init__(
        self, probes: Probes, meter: Meter, margin: float, limit: float | None, sizes: tuple[int, int | None, int]
    ) -> None:
        self._probes, self._meter, self._margin, self._limit = probes, meter, margin, limit
        self._first, self._top, self._step = sizes
        self._line = Line(0.0, 0.0)
        self._room = 0.0

    def found(self) -> BatchSize:
        """Two probes, a line, one step at its answer."""
        first = self._first
        self._room = min(self._meter.room(), math.inf if self._limit is None else self._limit)
        for _ in range(2):  # the first step makes optimizer state and workspaces; only the second is as all others
            if not self._probes.fits(first):
                raise RuntimeError(
                    f"a step of {first} samples does not fit into {size_told(self._room)} ({self._probes.last_words[:200]})"
                )
        pair = self._pair(first)
        if pair is None:
            return self._largest_measured()
        return self._confirmed(*pair)

    def _pair(self, size: int) -> tuple[int, int] | None:
        """Two sizes whose peaks lie measurably apart; None where no larger one may be tried.

        Of a small batch the peak is often that of the optimizer's step and does not depend on it: such sizes are passed by.
        """
        factor = 2
        for _ in range(_DOUBLINGS):
            before, size = size, min(factor * size, self._top or factor * size)
            size = min(size, int(before * max(1.0, self._probes.times(before, self._room))) // self._step * self._step)
            while size > before and not self._probes.fits(size):
                self._top = size - self._step
                size = self._between(before, size)
            if size <= before:
                return None
            grown = self._probes.growth(before, size)
            if grown > 1:
                return before, size
            factor = 2 if grown > _NEAR else _FIRST_REACH
        raise RuntimeError(
            f"memory did not grow up to {size} samples ({self._probes.told()}): "
            "does step_fn use its argument, on the device that is measured? Else say highest="
        )

    def _between(self, low: int, high: int) -> int:
        return (low + (high - low) // 2) // self._step * self._step

    def _confirmed(self, anchor: int, last: int) -> BatchSize:
        """Follow the line to its answer; where a measurement bends it, take the newer piece of it, but not for ever."""
        bends, sure = 0, False
        while bends < _BENDS:
            answer = self._aim(anchor, last)
            if not self._probes.possible(self._line, last):
                break
            size = self._next(answer, last, sure=sure)
            if size in self._probes.peaks:
                return self._largest_measured() if size == self._first else self._answer(size)
            if not self._probes.fits(size):
                bends += 1  # there is less than was said: a tenth below, then a fifth
                self._room = min(self._room, self._line.at(size))
                self._top = max(self._first, int(size * (1 - 0.1 * bends)) // self._step * self._step)
                if self._top <= last < size and self._within(last):
                    return self._answer(last)
                continue
            sure = self._probes.straight(self._line, anchor, last, size)
            bends += not sure
            if size == answer and sure and self._within(size):
                return self._answer(size)
            if size > last:
                anchor, last = (anchor if sure or not self._probes.apart(last, size) else last), size
            elif not sure:
                break
            else:
                self._top = size - self._step
            if not self._probes.apart(anchor, last):
                break
        raise RuntimeError(
            f"memory does not grow in a straight line with the samples: measured {self._probes.told()}"
            + (f", and out of memory above ({self._probes.last_words[:120]})" if self._probes.last_words else "")
            + "; choose the batch size by hand"
        )

    def _aim(self, anchor: int, last: int) -> int:
        """What the line allows, on the rank where that is least; what the allocator takes needs to fit but without a margin."""
        used, taken = self._probes.line(anchor, last)
        self._line = used
        most = used.most(self._room * (1 - self._margin))
        if taken.each > 0:
            most = min(most, taken.most(self._room))
        most = self._probes.least(min(most, self._top or math.inf))
        return max(self._first, int(most) // self._step * self._step)

    def _next(self, answer: int, last: int, *, sure: bool) -> int:
        """The answer, or a size on the way: a line that no third point confirmed is followed only where nothing can happen."""
        reach = _REACH * last
        if not sure:
            reach = int(
                max(last + self._step, self._probes.least(min(4.0, self._room / self._probes.peaks[last].used)) * last)
            )
        return max(self._first, min(answer, reach // self._step * self._step))

    def _within(self, size: int) -> bool:
        used = self._probes.peaks[size].used
        return self._probes.least(used <= self._room * (1 - self._margin * _KEPT)) > 0

    def _largest_measured(self) -> BatchSize:
        """Where no line was needed or possible: the largest that ran with the margin left, else the first with a warning."""
        for size in sorted(self._probes.peaks, reverse=True):
            if self._within(size):
                return self._answer(size)
        used = size_told(self._probes.peaks[self._first].used)
        warnings.warn(
            f"find_batch_size: {self._first} samples take {used} of {size_told(self._room)}: less than the margin is left",
            stacklevel=5,
        )
        return self._answer(self._first)

    def _answer(self, size: int) -> BatchSize:
        answer = BatchSize(size)
        answer.line, answer.room_bytes = self._line, self._room
        answer.peaks = {samples: peak.used for samples, peak in self._probes.peaks.items()}
        return answer
