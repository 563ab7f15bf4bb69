"""Where a log begins anew: a job that was started again and appended to the same file.

Programs open with the same lines each time (a banner, the arguments, a warning of an import). So a line of the beginning that
comes again, only a few times in all, and is no step line, is where an attempt began. What killed the last attempt is what
people ask about; restarts by a launcher repeat the first cause and are not counted here.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from crashcart.readers.logs.progress import shape

if TYPE_CHECKING:
    from collections.abc import Sequence

    from crashcart.log import Line, Metrics

__all__ = ["find_attempts"]

_OPENING = 6
_SHORTEST = 12
_MOST = 8


def find_attempts(lines: Sequence[Line], metrics: Sequence[Metrics], ends: Sequence[int]) -> list[int]:
    """The places in the log (as ``order``) where attempts begin that follow the end of another."""
    if not lines or len({line.log for line in lines}) > 1:
        return []
    steps = {metric.line.order for metric in metrics}
    shapes = [(shape(line.text), line.order) for line in lines]
    counts = Counter(form for form, _ in shapes)
    for line in lines[:_OPENING]:
        if "Traceback (most recent call last)" in line.text:
            return []  # it died before it had said anything of its own; a chained traceback looks like a second start
        form = shape(line.text)
        if len(form) < _SHORTEST or line.order in steps or line.order in ends or not 1 < counts[form] <= _MOST:
            continue  # what ended an attempt did not open one
        return [order for other, order in shapes if other == form and any(line.order < end < order for end in ends)]
    return []
