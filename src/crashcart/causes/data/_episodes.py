"""Episodes beside the chunk that is cut from them: how many are too short, and are left out without a word.

``range(max(0, n - chunk + 1))`` is empty where an episode is shorter than the chunk. A program that pads loses nothing, so that
only code which is seen to leave them out is told of.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from crashcart.causes._joined import setting
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
    chunk: int
    longest: int
    lost: int
    count: int
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
    parts = [_number(case, given) for given in (fact.value["chunk"], *fact.value["also"])]
    if any(number is None or number < 1 for number, _ in parts):
        return None
    largest = max(range(len(parts)), key=lambda at: parts[at][0] or 0)
    chunk, (number, known) = sum(number or 0 for number, _ in parts), parts[largest]
    lengths, more = episodes.value["lengths"], fact.value["more"]
    lost = sum(length - chunk + more <= 0 for length in lengths)
    if not lost:
        return None
    settings = [one for _, one in parts if one is not None]
    name = " + ".join(one.spelling.lstrip("-") for one in settings) if settings else "the chunk"
    count = len(lengths)
    of = f"{count:,} episodes" if episodes.value["whole"] else f"{count:,} episodes that were looked at"
    samples = sum(max(0, length - chunk + more) for length in lengths)
    remain = f"{samples:,} samples remain of the others" if fact.value["windows"] else f"{count - lost:,} remain"
    wanted = f"{name} ({chunk})" if settings or fact.value["windows"] else f"{chunk} steps"
    told_by = [one.evidence for one in settings] or [episodes.value["named"]]
    items = (fact.evidence, episodes.evidence, *dict.fromkeys(told_by))
    part: tuple[str, Evidence] | None = None
    room = lengths[0] - 1 + more - (chunk - (number or 0))
    if lost == count:
        told = f"all {of} are shorter than {name} ({chunk}; the longest has {lengths[-1]} steps) and give no sample: the data set is empty"
        guessed = any(given.get("by_name") for given in (fact.value["chunk"], *fact.value["also"]))
        told += ", when it is built with that setting" if guessed else ""
        sign = Sign("decisive" if episodes.value["whole"] and not guessed else "strong", told, items)
    else:
        told = f"{lost:,} of {of} are shorter than {wanted} and give no sample; {remain}"
        part = _empty_part(case, episodes, chunk - more)
        if part is not None:
            told += f"; {part[0]}"
            items = (*items, part[1])
        sign = Sign("strong" if lost >= _NOTICEABLE * count or part is not None else "weak", told, items, fatal=False)
    span = known.span if known is not None else (fact.value["chunk"], *fact.value["also"])[largest].get("span")
    return Short(
        sign,
        known.spelling.lstrip("-") if known is not None else "the chunk",
        chunk,
        room,
        lost,
        count,
        span,
        lost == count or part is not None,
    )


def _empty_part(case: Case, episodes: Fact, least: int) -> tuple[str, Evidence] | None:
    """A part of the episodes, cut off in the order of their names, of which none is long enough."""
    lengths = episodes.value["in_order"]
    for fact in case.all("code.split_in_order") if episodes.value["whole"] else ():
        at = fact.value.get("count", to_int(fact.value.get("share", 0) * len(lengths), 0))
        at = at + len(lengths) if at < 0 else at
        for words, part in (("first", lengths[:at]), ("last", lengths[at:])):
            if part and all(length <= least for length in part):
                return f"the {words} {len(part)}, which are split off, give none at all: that part is empty", fact.evidence
    return None


def _number(case: Case, given: dict[str, Any]) -> tuple[int | None, Fact | None]:
    """A part of what an episode must have room for, and the setting that gives it."""
    known = setting(case, given["key"]) if given.get("key") else None
    value = known.value if known is not None else given.get("value")
    return (value if isinstance(value, int) and not isinstance(value, bool) else None), known
