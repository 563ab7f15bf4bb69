"""What rank 0 does beside the other ranks: the calls in which a rank waits for all, laid side by side.

Regions with a side are where only rank 0, or only the others, come. Whatever stands outside of them is done by all, so that only
collectives with a side can miss their counterpart. They are compared level by level: the body of a loop, the arm of a branch, or the
program itself; calls and ``with`` do not divide a level. A collective in a loop that one side goes through by itself answers any
number of the other side's: that is how a rank serves another.
"""

from __future__ import annotations

from difflib import SequenceMatcher
from typing import TYPE_CHECKING

from crashcart.readers.interpreter.libraries.collectives import waits_of
from crashcart.readers.interpreter.values import Unknown
from crashcart.record import record

if TYPE_CHECKING:
    from collections.abc import Iterable

    from crashcart.readers.interpreter.execution import Execution
    from crashcart.readers.interpreter.libraries.collectives import Waits
    from crashcart.readers.interpreter.trace import Call, Event, Region

__all__ = ["Collective", "collectives_of", "entry_call", "happens", "side_region", "turns", "unanswered"]

_OF_PREPARED = {"accelerate.Accelerator.save_model", "accelerate.Accelerator.get_state_dict"}
_PREPARES = ("accelerate.Accelerator.prepare", "accelerate.Accelerator.prepare_model")
_LEVELS = frozenset({"loop", "branch", "handler", "maybe", "worker", "thread", "module"})


@record
class Collective:
    """A call that waits for all ranks; ``side`` is ``first`` or ``others`` where only they make it."""

    call: Call
    waits: Waits
    side: str

    @property
    def number(self) -> int:
        """Its place in the order of the trace."""
        return self.call.number


def collectives_of(execution: Execution) -> list[Collective]:
    """Every call that waits for all ranks, in order."""
    collectives = []
    for call in execution.trace.calls:
        waits = waits_of(call)
        if waits is not None and not (call.name in _OF_PREPARED and not _is_prepared(execution, call)):
            collectives.append(Collective(call, waits, call.region.ranks()))
    return collectives


def _is_prepared(execution: Execution, call: Call) -> bool:
    """Whether a model was handed to accelerate: a copy that never was is whole on every rank."""
    model = call.argument(0, "model")
    return any(value is model for made in execution.trace.named(*_PREPARES) for value in made.arguments)


def side_region(region: Region) -> Region | None:
    """The outermost region around that only some ranks enter."""
    return next((each for each in reversed(list(region.above())) if each.side), None)


def _level(region: Region) -> Region:
    """The part of the program in whose order a collective with a side must have its counterpart."""
    inner = side_region(region)
    above = list((inner.parent if inner is not None and inner.parent is not None else region).above())
    return next((each for each in above if each.kind in _LEVELS and not each.side), above[-1])


def _repeats(collective: Collective) -> bool:
    """Whether one side makes it again and again by itself: in a loop that the others do not enter."""
    inner = side_region(collective.call.region)
    return inner is not None and any(each.kind == "loop" and inner.holds(each) for each in collective.call.region.above())


def _sides(collectives: Iterable[Collective]) -> list[tuple[list[Collective], list[Collective]]]:
    """What rank 0 and what the others wait for by themselves, in each part of the program."""
    levels: dict[int, tuple[list[Collective], list[Collective]]] = {}
    for collective in collectives:
        if collective.side:
            first, others = levels.setdefault(id(_level(collective.call.region)), ([], []))
            (first if collective.side == "first" else others).append(collective)
    return list(levels.values())


def unanswered(collectives: Iterable[Collective]) -> list[Collective]:
    """The collectives that one side makes and the other does not, where it would have to."""
    lone, _ = _met(collectives)
    return sorted(lone, key=lambda each: each.number)


def turns(collectives: Iterable[Collective]) -> list[tuple[int, int]]:
    """Between which numbers of the trace rank 0 goes first: the others wait at the beginning, rank 0 at the end."""
    _, pairs = _met(collectives)
    return [(other.number, first.number) for first, other in pairs if other.number < first.number]


def _met(collectives: Iterable[Collective]) -> tuple[list[Collective], list[tuple[Collective, Collective]]]:
    """Collectives of one side that stay alone, and those of rank 0 with their counterparts."""
    pairs: list[tuple[Collective, Collective]] = []
    lone: list[Collective] = []
    for first, others in _sides(collectives):
        pairs += _pairs(first, others)
        met = {id(each) for pair in pairs for each in pair}
        for side, opposite in ((first, others), (others, first)):
            if not any(_repeats(each) for each in opposite):
                lone += [each for each in side if id(each) not in met]
    # One side waits before a branch and the other in each of its arms.
    in_arms = [
        (first, other)
        for first in lone
        for other in lone
        if (first.side, other.side) == ("first", "others")
        and _branches_apart(_level(first.call.region), _level(other.call.region))
    ]
    met = {id(each) for pair in in_arms for each in pair}
    return [each for each in lone if id(each) not in met], [*pairs, *in_arms]


def _branches_apart(level: Region, other: Region) -> bool:
    """Whether one part of the program lies in the other with nothing but branches between them."""
    for outer, inner in ((level, other), (other, level)):
        between: list[Region] = []
        for region in inner.above():
            if region is outer:
                return not any(each.kind in {"loop", "worker", "thread"} for each in between)
            between.append(region)
    return False


def _pairs(first: list[Collective], others: list[Collective]) -> list[tuple[Collective, Collective]]:
    """Collectives of both sides that meet: the same calls in the same order, then what is left, in order."""
    names, other_names = [each.call.method for each in first], [each.call.method for each in others]
    pairs: list[tuple[Collective, Collective]] = []
    for block in SequenceMatcher(None, names, other_names, autojunk=False).get_matching_blocks():
        pairs += zip(first[block.a : block.a + block.size], others[block.b : block.b + block.size], strict=True)
    met = {id(each) for pair in pairs for each in pair}
    left = [[each for each in side if id(each) not in met] for side in (first, others)]
    return [*pairs, *zip(*left, strict=False)]


def entry_call(collective: Collective) -> tuple[Call, Region]:
    """The call by which one side alone comes to a collective, and the region that only this side enters."""
    place = collective.call
    for region in collective.call.region.above():
        if region.side:
            return place, region
        if region.call is not None and region.kind in {"call", "maybe"}:
            place = region.call
    msg = "a collective that all ranks make has no side"
    raise ValueError(msg)


def happens(event: Event) -> bool:
    """Whether the program surely comes here some time: what is done every so many rounds is done in one of them."""
    return all(_is_taken(region) for region in event.region.above())


def _is_taken(region: Region) -> bool:
    if region.kind == "branch":
        return isinstance(region.test, Unknown) and region.test.modulus is not None and region.sense
    return region.kind not in {"handler", "maybe"}
