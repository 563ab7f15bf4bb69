"""Shapes that disagree by the number of samples: the last batch of a loader is smaller than the size that the program counts on.

Expected hidden size (1, 60, 32), got [1, 64, 32]                  batches of 64, and 60 samples left for the last
The size of tensor a (64) must match the size of tensor b (60)
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from crashcart.cause import compiled
from crashcart.causes._length import lengths, share
from crashcart.causes._loaders import loaders
from crashcart.deaths import first
from crashcart.numbers import to_int

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.case import Case
    from crashcart.causes._loaders import Loader

__all__ = ["smaller_last_batch"]

_SIZES = r"[\[(]((?:\d{1,9}, ){1,7}\d{1,9})[\])]"
_NUMBER = r"\((\d{1,9})\)"
_PAIR = 2


def smaller_last_batch(case: Case) -> tuple[Loader, int] | None:
    """The one loader whose last batch, of so many samples, explains the first exception."""
    leader = first(case)
    raised = next((each for each in case.log.uncaught() if each.kind), None)
    message = str(leader.raised.details.get("message", "")) if leader is not None and leader.raised is not None else raised.message if raised is not None else ""  # fmt: skip
    evaluates = leader is not None and leader.phase == "evaluate"
    for one, other in _differing(message):
        fits = [
            loader
            for loader in loaders(case)
            if loader.drop_last is False and loader.batch == max(one, other) and _may_leave(case, loader, min(one, other))
        ]
        if evaluates and len(fits) > 1:
            fits = [loader for loader in fits if loader.fact.value["for"] == "eval"]
        if len(fits) == 1:
            return fits[0], min(one, other)
    return None


def _may_leave(case: Case, loader: Loader, samples: int) -> bool:
    """Whether so many samples can be left for the last batch."""
    known = next(lengths(case, loader), None)
    each = share(case, loader, known.count) if known is not None and not known.when else None
    return each is None or not loader.batch or each % loader.batch == samples


def _differing(message: str) -> Iterator[tuple[int, int]]:
    """Two sizes that were to be the same: of two shapes those in the one place in which they differ."""
    shapes = [[to_int(number, 0) for number in found.split(", ")] for found in compiled(_SIZES).findall(message[:1000])]
    for shape, other in pairwise(shapes):
        places = [(a, b) for a, b in zip(shape, other, strict=False) if a != b]
        if len(shape) == len(other) and len(places) == 1:
            yield places[0]
    numbers = [to_int(number, 0) for number in compiled(_NUMBER).findall(message[:1000])]
    if len(numbers) == _PAIR and numbers[0] != numbers[1]:
        yield numbers[0], numbers[1]
