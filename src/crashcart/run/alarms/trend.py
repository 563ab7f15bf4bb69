"""Whether a series rises for good: the median of all slopes, with a bound, and a growth that stands out of the noise.

A plateau after a steep start is no trend: the second half must rise by itself.
"""

from __future__ import annotations

from collections import deque
from math import isnan
from typing import NamedTuple

from crashcart.flight import median

__all__ = ["Rise", "Series"]

_APART = 5.0  # seconds between two points that are kept
_POINTS = 120
_FEWEST = 24
_SHARE = 0.02
_NOISE = 3


class Rise(NamedTuple):
    """A steady rise: so much a second, and where the series stands now."""

    slope: float
    now: float

    def seconds_to(self, limit: float) -> float:
        """How long until the limit, at this rate."""
        return max(0.0, (limit - self.now) / self.slope)


class Series:
    """The last ten minutes of a number."""

    def __init__(self) -> None:
        self.points: deque[tuple[float, float]] = deque(maxlen=_POINTS)

    def add(self, now: float, value: float) -> None:
        """Note a value; what is not known (NaN) is left out."""
        if not isnan(value) and (not self.points or now - self.points[-1][0] >= _APART):  # NaN is not itself
            self.points.append((now, value))

    def rise(self) -> Rise | None:
        """The rise, where there is one that can be told from noise and from a plateau."""
        if len(self.points) < _FEWEST:
            return None
        points = list(self.points)
        half = points[len(points) // 2 :]
        slope, late = _slope(points), _slope(half)
        if slope <= 0 or late <= slope / 4:
            return None
        values = [value for _, value in points]
        level = [value - slope * (at - points[0][0]) for at, value in points]
        middle = median(level)
        noise = median(abs(value - middle) for value in level)
        grown = slope * (points[-1][0] - points[0][0])
        if grown < _NOISE * noise or grown < _SHARE * abs(median(values)):
            return None
        return Rise(min(slope, late), values[-1])


def _slope(points: list[tuple[float, float]]) -> float:
    """The median of the slopes of all pairs: a few wild values do not move it."""
    return median((b[1] - a[1]) / (b[0] - a[0]) for index, a in enumerate(points) for b in points[index + 1 :])
