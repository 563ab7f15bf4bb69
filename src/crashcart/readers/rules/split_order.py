"""A list of episodes cut in two as it stands: the first for training, the rest for evaluation.

names = sorted(file["episodes"])
cut = int(0.8 * len(names))
train, val = names[:cut], names[cut:]

Which episodes come into which part is then known by their names; a list that is shuffled, or comes in the order of a file system,
says nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from crashcart.readers.interpreter.lengths import Length
from crashcart.readers.interpreter.values import constant_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.model import Fact
    from crashcart.readers.interpreter.execution import Execution
    from crashcart.readers.interpreter.trace import Slice
    from crashcart.readers.interpreter.values import Value


def look(execution: Execution) -> Iterator[Fact]:
    """``code.split_in_order``: where the list is cut, as ``share`` of its length and ``more``."""
    seen: set[int] = set()
    for first in execution.trace.slices:
        cut = _cut_of(first.stop, first.owner) if constant_of(first.start, 0) in {None, 0} else None
        if cut is None or id(first.node) in seen or not _is_in_order(execution, first):
            continue
        rest = (each for each in execution.trace.slices if each.owner is first.owner and constant_of(each.stop, 0) is None)
        if any(_cut_of(each.start, each.owner) == cut for each in rest):
            seen.add(id(first.node))
            yield first.fact("code.split_in_order", {"share": cut[0], "more": cut[1]})


def _cut_of(place: Value, owner: Value) -> tuple[float, float] | None:
    """The place of a cut: a share of the length, and a number; None where it is not known."""
    if isinstance(place, Length) and place.counted is owner and place.least is None:
        return float(place.factor), float(place.more)
    number = constant_of(place)
    return None if type(number) is not int or not number else (float(number < 0), float(number))


def _is_in_order(execution: Execution, cut: Slice) -> bool:
    """Whether a list was sorted by name, and not shuffled before it is cut."""
    before = [call for call in execution.trace.calls if call.number < cut.number]
    is_sorted = any(
        not call.keywords and (call.result if call.name == "sorted" else call.receiver) is cut.owner
        for call in before
        if call.name in {"sorted", "list.sort"}
    )
    return is_sorted and not any(
        call.method == "shuffle" and any(argument is cut.owner for argument in call.arguments) for call in before
    )
