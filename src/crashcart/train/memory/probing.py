"""One step after another at sizes of our choice, measured, with all ranks told how it went on each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from crashcart.train.all_ranks import numbers_of_all
from crashcart.train.memory.left_as_found import clear_gradients
from crashcart.train.memory.out_of_memory import free_memory, is_out_of_memory, let_go

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from crashcart.train.memory.meters import Meter, Peak

__all__ = ["Line", "Probes", "size_told"]

_APART = 0.02  # two peaks that differ by less than this share tell no slope
_OFF = 0.1  # share of the predicted growth by which a straight line may miss


class Line(NamedTuple):
    """memory = base + each * samples."""

    base: float
    each: float

    def at(self, samples: int) -> float:
        """The predicted peak."""
        return self.base + self.each * samples

    def most(self, room: float) -> float:
        """How many samples fit."""
        return (room - self.base) / self.each


class Probes:
    """The measurements so far; every decision on them is one of all ranks."""

    def __init__(self, step: Callable[[int], object], meter: Meter, things: Sequence[Any], ranks: tuple[bool, Any]) -> None:
        self._step, self._meter, self._things = step, meter, things
        self._together, self._group = ranks
        self.peaks: dict[int, Peak] = {}
        self.last_words = ""

    def fits(self, samples: int) -> bool:
        """Run one step of this size; whether memory sufficed on every rank."""
        failure: Exception | None = None
        try:
            self.peaks[samples] = self._meter.measure(lambda: self._step(samples))
        except Exception as error:  # noqa: BLE001 - the other ranks must hear of it before it goes on its way
            failure = error
        wrong = failure is not None and not is_out_of_memory(failure)
        rows = self._of_all([wrong, failure is not None])
        if wrong and failure is not None:
            raise _with_a_hint(failure, samples)
        for rank, (broken, _) in enumerate(rows):
            if broken:
                raise RuntimeError(f"rank {rank} failed in a step of {samples} samples; its own log tells why")
        if failure is not None:
            self.last_words = let_go(failure)
        elif any(full for _, full in rows):
            short = [str(rank) for rank, (_, full) in enumerate(rows) if full]
            self.last_words = f"on rank {', '.join(short)}, with {samples} samples"
        del failure
        clear_gradients(self._things)
        if any(full for _, full in rows):
            free_memory()
            self.peaks.pop(samples, None)
            return False
        return True

    def line(self, first: int, last: int) -> tuple[Line, Line]:
        """Through the peaks of two sizes: of what was used, and of what the allocator took."""
        a, b = self.peaks[first], self.peaks[last]
        slopes = [(b[part] - a[part]) / (last - first) for part in (0, 1)]
        return Line(a.used - slopes[0] * first, slopes[0]), Line(a.taken - slopes[1] * first, slopes[1])

    def apart(self, first: int, last: int) -> bool:
        """Whether memory grew enough between two sizes to tell a slope, on every rank."""
        return self.growth(first, last) > 1

    def straight(self, line: Line, anchor: int, last: int, samples: int) -> bool:
        """Whether the peak of a size is where the line through two others says, as far as they could tell, on every rank."""
        off = abs(self.peaks[samples].used - line.at(samples))
        blur = self._meter.grain * (1 + abs(samples - anchor) / (last - anchor))
        return self.least(off <= _OFF * line.each * samples + blur) > 0

    def possible(self, line: Line, last: int) -> bool:
        """Whether the line starts above what is held at rest, on every rank: below it the true one bends upwards."""
        under = self.peaks[last].rest - line.base
        return self.least(under <= _OFF * line.each * last + 2 * self._meter.grain) > 0

    def times(self, size: int, room: float) -> float:
        """How many times a size certainly fits: if all that it took above what is held at rest grew with the samples."""
        peak = self.peaks[size]
        return self.least((room - peak.rest) / max(peak.used - peak.rest, 1.0))

    def growth(self, first: int, last: int) -> float:
        """How much of what tells a slope memory grew by, on the rank where that is least."""
        grown = self.peaks[last].used - self.peaks[first].used
        return self.least(grown / max(4 * self._meter.grain, _APART * self.peaks[first].used, 1.0))

    def least(self, number: float) -> float:
        """The least over all ranks."""
        return min(row[0] for row in self._of_all([number]))

    def told(self) -> str:
        """What was measured, for a sentence."""
        return ", ".join(f"{samples}: {size_told(peak.used)}" for samples, peak in sorted(self.peaks.items()))

    def _of_all(self, numbers: list[float]) -> list[list[float]]:
        return numbers_of_all(numbers, self._group) if self._together else [list(numbers)]


def _with_a_hint(failure: Exception, samples: int) -> Exception:
    """Batch norm refuses a single sample, and nobody else knows that the search began with one."""
    if samples == 1 and hasattr(failure, "add_note"):  # Python 3.11
        failure.add_note("find_batch_size began with a step of 1 sample; where it takes more, say lowest=2")
    return failure


def size_told(size: float) -> str:
    """Bytes for people."""
    for unit, name in ((2**30, "GiB"), (2**20, "MiB")):
        if abs(size) >= unit:
            return f"{size / unit:.2f} {name}"
    return f"{size / 1024:.2f} KiB"
