"""What NCCL's flight recorder says when the ranks' dumps are laid side by side: who made another call, who did not come."""

from __future__ import annotations

from typing import TYPE_CHECKING

from crashcart.flight import clock
from crashcart.model import Evidence

if TYPE_CHECKING:
    from crashcart.case import Case
    from crashcart.flight import Collective

_ANY_SIZE = ("send", "recv", "all_to_all", "coalesced", "scatter", "gather")


def different(case: Case) -> tuple[Collective, Collective] | None:
    """Two ranks that entered different operations, or sizes, as the same collective of a group."""
    for ones in _groups(case).values():
        told: dict[int, Collective] = {}
        for one in ones:
            other = told.setdefault(one.sequence, one)
            free = any(word in one.operation for word in _ANY_SIZE)
            if other.rank != one.rank and (other.operation != one.operation or (other.sizes != one.sizes and not free)):
                return other, one
    return None


def missing(case: Case) -> tuple[list[int], Collective] | None:
    """The ranks that never came to a collective in which others wait, and that collective."""
    for ones in _groups(case).values():
        last: dict[int, Collective] = {}
        for one in ones:
            if one.rank not in last or one.sequence > last[one.rank].sequence:
                last[one.rank] = one
        furthest = max(last.values(), key=lambda one: one.sequence, default=None)
        if furthest is None or len(last) < 2 or furthest.state == "completed":
            continue
        behind = sorted(rank for rank, one in last.items() if one.sequence < furthest.sequence)
        if behind:
            return behind, min((one for one in last.values() if one.rank not in behind), key=lambda one: one.rank)
    return None


def entered(one: Collective) -> Evidence:
    """A collective as a person can look it up again."""
    quote = f"rank {one.rank} collective {one.sequence} of group {one.group}: {one.operation} {one.sizes}, {one.state}, at {one.where}"
    return Evidence("nccl", quote, f"nccl/rank_{one.rank}", rank=one.rank, time=clock(one.time))


def _groups(case: Case) -> dict[str, list[Collective]]:
    groups: dict[str, list[Collective]] = {}
    for collective in case.flight.collectives if case.flight is not None else ():
        groups.setdefault(collective.group, []).append(collective)
    return groups
