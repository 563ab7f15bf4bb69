"""Episodes beside the chunk that is cut from them: how many are too short, and are left out without a word.

``range(max(0, n - chunk + 1))`` is empty where an episode is shorter than the chunk. A program that pads loses nothing, so that
only code which is seen to leave them out is told of.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from crashcart.causes._joined import setting
from crashcart.model import Sign
from crashcart.record import record

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.case import Case
    from crashcart.model import Fact, Span

__all__ = ["Short", "shortened"]

_NOTICEABLE = 0.5  # of the episodes: fewer may be meant to be left out


@record(frozen=True)
class Short:
    """One place of the code that leaves short episodes out, against the episodes of one folder."""

    sign: Sign
    name: str
    chunk: int
    longest: int
    lost: int
    count: int
    place: Span | None


def shortened(case: Case) -> Iterator[Short]:
    """Where episodes of this job are lost."""
    for episodes in case.all("data.episodes"):
        for fact in case.all("code.short_left_out"):
            found = _compared(case, episodes, fact)
            if found is not None:
                yield found


def _compared(case: Case, episodes: Fact, fact: Fact) -> Short | None:
    given = fact.value["chunk"]
    known = setting(case, given["key"]) if given.get("key") else None
    chunk = known.value if known is not None else given.get("value")
    if not isinstance(chunk, int) or isinstance(chunk, bool) or chunk < 1:
        return None
    lengths, more = episodes.value["lengths"], fact.value["more"]
    lost = sum(length - chunk + more <= 0 for length in lengths)
    if not lost:
        return None
    name = known.spelling.lstrip("-") if known is not None else "the chunk"
    count = len(lengths)
    of = f"{count:,} episodes" if episodes.value["whole"] else f"{count:,} episodes that were looked at"
    samples = sum(max(0, length - chunk + more) for length in lengths)
    remain = f"{samples:,} samples remain of the others" if fact.value["windows"] else f"{count - lost:,} remain"
    wanted = f"{name} ({chunk})" if known is not None or fact.value["windows"] else f"{chunk} steps"
    items = (fact.evidence, episodes.evidence, *((known.evidence,) if known is not None else (episodes.value["named"],)))
    room = lengths[0] - 1 + more
    if lost == count:
        told = f"all {of} are shorter than {name} ({chunk}; the longest has {lengths[-1]} steps) and give no sample: the data set is empty"
        sign = Sign("decisive" if episodes.value["whole"] else "strong", told, items)
    else:
        told = f"{lost:,} of {of} are shorter than {wanted} and give no sample; {remain}"
        sign = Sign("strong" if lost >= _NOTICEABLE * count else "weak", told, items, fatal=False)
    span = known.span if known is not None else given.get("span")
    return Short(sign, name, chunk, max(1, room), lost, count, span)
