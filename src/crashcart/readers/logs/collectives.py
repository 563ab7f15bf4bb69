"""Collectives that a watchdog gave up on.

A sample, also cut in two by a terminal's width::

    [Rank 4] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=9387, OpType=ALLREDUCE, NumelIn=1, NumelOut=1,
    Timeout(ms)=600000) ran for 600005 milliseconds before timing out.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from crashcart.log import Collective, Index, Line
from crashcart.numbers import to_float, to_int
from crashcart.pattern import Pattern

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["find_collectives", "joined"]

_SEQUENCE = Pattern(r"SeqNum\s*=\s*(\d{1,15})")
_OPERATION = Pattern(r"OpType\s*=\s*(\w+)")
_ELEMENTS = Pattern(r"NumelIn\s*=\s*(\d{1,15})")
_TIMEOUT = Pattern(r"Timeout\(ms\)\s*=\s*(\d{1,15})")
_ENQUEUED = Pattern(r"last enqueued (?:NCCL )?work:? ?(-?\d{1,15})")
_RANK = Pattern(r"\[?(?:PG [^\]]{0,200}?)?Rank (\d{1,15})\]?", re.IGNORECASE)


def find_collectives(index: Index) -> list[Collective]:
    """Every collective operation that a line reports as timed out."""
    found = []
    for place in index.places(("watchdog", "optype", "last enqueued")):
        line = index.lines[place]
        collective = None if "collectivefingerprint" in line.lowered else _collective(line, joined(index.lines, place, 3))
        if collective is not None:
            found.append(collective)
    return found


def _collective(line: Line, text: str) -> Collective | None:
    operation, enqueued = _OPERATION.search(text), _ENQUEUED.search(text)
    if operation is None and enqueued is None:
        return None
    rank = _RANK.search(text)
    timeout = _TIMEOUT.search(text)
    return Collective(
        line=line,
        rank=to_int(rank[1]) if rank else line.rank,
        sequence=_integer(_SEQUENCE.search(text)),
        operation=operation[1].upper() if operation else "",
        elements=_integer(_ELEMENTS.search(text)),
        timeout_seconds=to_float(timeout[1], 0.0) / 1000 if timeout else None,
        last_enqueued=_integer(enqueued),
    )


def joined(lines: Sequence[Line], index: int, more: int, blank: str = "") -> str:
    """A message that a terminal may have wrapped: the breaks are taken out, since they can stand inside a word."""
    near = [other for other in lines[index : index + more + 1] if other.window == lines[index].window]
    return blank.join(part.text.rstrip() if number else part.text for number, part in enumerate(near))


def _integer(match: re.Match[str] | None) -> int | None:
    return to_int(match[1]) if match else None
