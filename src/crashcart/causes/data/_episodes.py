"""Episodes beside the chunk that is cut from them: how many are too short, and are left out without a word.

``range(max(0, n - chunk + 1))`` is empty where an episode is shorter than the chunk. A program that pads loses nothing, so that
only code which is seen to leave them out is told of.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from crashcart.model import Sign
from crashcart.numbers import to_int
from crashcart.record import record

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.case import Case
    from crashcart.model import Evidence, Fact, Span

__all__ = ["Short", "shortened"]

_NOTICEABLE = 0.5  # of the episodes: fewer may be meant to be left out


@record(frozen=True)
class Short:
    """One place of the code that leaves short episodes out, against the episodes of one folder."""

    sign: Sign
    name: str
    longest: int  # the chunk for which every episode has room
    place: Span | None
    empty: bool  # nothing is left, of all or of a part that is split off


def shortened(case: Case) -> Iterator[Short]:
    """Where episodes of this job are lost."""
    for episodes in case.all("data.episodes"):
        for fact in case.all("code.short_left_out"):
            found = _compared(case, episodes, fact)
            if found is not None:
                yield found


def _compared(case: Case, episodes: Fact, fact: Fact) -> Short | None:
    least, settings = fact.value["least"], fact.value["settings"]
    lengths = episodes.value["lengths"]
    count, lost = len(lengths), sum(length < least for length in lengths)
    if not lost:
        return None
    name = " + ".join(settings) or "the chunk"
    of = f"{count:,} episodes" if episodes.value["whole"] else f"{count:,} episodes that were read"
    samples = sum(max(0, length - least + 1) for length in lengths)
    remain = f"the others give {samples:,} samples" if fact.value["windows"] else f"{count - lost:,} remain"
    items = (fact.evidence, episodes.evidence, *dict.fromkeys(fact.value["places"] or [episodes.value["named"]]))
    part: tuple[str, Evidence] | None = None
    if lost == count:
        says = f"all {of} are shorter than the {least} steps that {name} needs (the longest has {lengths[-1]}): the dataset is empty"
        sign = Sign("decisive" if episodes.value["whole"] else "strong", says, items)
    else:
        says = f"{lost:,} of {of} are shorter than the {least} steps that {name} needs and give no sample; {remain}"
        part = _empty_part(case, episodes, least)
        if part is not None:
            says += f"; {part[0]}"
            items = (*items, part[1])
        sign = Sign("strong" if lost >= _NOTICEABLE * count or part is not None else "weak", says, items, fatal=False)
    longest = lengths[0] - least + fact.value["largest"] if fact.value["largest"] is not None else 0
    return Short(
        sign, settings[-1] if settings else "the chunk", longest, fact.value["place"], lost == count or part is not None
    )


def _empty_part(case: Case, episodes: Fact, least: int) -> tuple[str, Evidence] | None:
    """A part of the episodes, cut off in the order of their names, of which none is long enough."""
    lengths = episodes.value["in_order"]
    for fact in case.all("code.split_in_order") if episodes.value["whole"] else ():
        at = max(0, to_int(fact.value["share"] * len(lengths) + fact.value["more"], 0))
        for words, part in (("first", lengths[:at]), ("last", lengths[at:])):
            if part and all(length < least for length in part):
                return f"the {words} {len(part)}, which are split off, give no samples: that part is empty", fact.evidence
    return None
