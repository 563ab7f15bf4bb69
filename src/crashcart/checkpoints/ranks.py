"""Ranks count from 0 without a gap: what is missing between them was not saved."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

_MOST = 10_000


def missing_ranks(found: Iterable[int]) -> list[int]:
    """List the ranks below the highest that are not there."""
    present = set(found)
    return missing_below(max(present, default=-1) + 1, present)


def missing_below(count: int, present: Collection[int]) -> list[int]:
    """List the numbers below a count that are not there, the first of them where there are many: a name may say anything."""
    return list(islice((number for number in range(count) if number not in present), _MOST))


def in_words(ranks: Iterable[int]) -> str:
    """Write ranks as people say them: rank 3, ranks 1, 4."""
    numbers = [str(rank) for rank in ranks]
    shown = ", ".join(numbers[:8]) + (" ..." if len(numbers) > 8 else "")  # noqa: PLR2004  one line's worth
    return f"rank {shown}" if len(numbers) == 1 else f"ranks {shown}"
