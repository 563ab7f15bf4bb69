"""Which periodic work falls on a step, and whether that step was the first to see it.

RDT died at step 2000 with ``sample_period`` 500 and ``checkpointing_period`` 2000. Sampling had passed at 500, 1000 and
1500, so its batch alone does not explain the death; 2000 is the first step where a checkpoint and sampling meet. The same
arithmetic says how far an experiment must run: to the next step where the same work meets.

A period of 0 or less, None or a strategy of ``no`` means off; what is not known stays unknown and is named as such. Steps
are counted as the program prints them, from 1.
"""

from __future__ import annotations

from itertools import combinations
from math import isfinite, lcm
from typing import TYPE_CHECKING

from crashcart.numbers import to_int
from crashcart.record import field, record

if TYPE_CHECKING:
    from collections.abc import Mapping

    from crashcart.model import Fact

__all__ = ["Meeting", "meeting", "periods"]

HEAVY = ("save", "sample", "eval")
WORKS = (*HEAVY, "log")
KEPT = 1000


@record(frozen=True)
class Meeting:
    """The work that falls on a step.

    ``earlier`` holds, for each work and for works together (``save+sample``), the earlier steps where they happened (the
    last thousand). ``first`` is True when this set of works never met before, logging aside.
    """

    step: int
    works: tuple[str, ...]
    first: bool
    earlier: dict[str, tuple[int, ...]] = field(default_factory=dict)
    next_step: int | None = None


def meeting(facts: Mapping[str, Fact], step: int, *, start: int = 0) -> Meeting | None:
    """The work on a step of a run that began (or was resumed) at ``start``; None where no known work falls on it."""
    known = periods(facts)
    on = {work: period for work, period in known.items() if period}
    works = tuple(work for work in WORKS if work in on and step > 0 and step % on[work] == 0)
    if not works:
        return None
    earlier = {"+".join(group): _steps([on[work] for work in group], start, step) for group in _groups(works)}
    heavy = tuple(work for work in works if work in HEAVY) or works
    following = step + lcm(*(on[work] for work in heavy))
    last = _last_step(facts)
    return Meeting(
        step,
        works,
        not earlier["+".join(heavy)],
        earlier,
        following if last is None or following <= last else None,
    )


def periods(facts: Mapping[str, Fact]) -> dict[str, int | None]:
    """The period of each work in steps; None is off, and a work that is not there is unknown."""
    found: dict[str, int | None] = {}
    for work in WORKS:
        if _text(facts, f"{work}.strategy") == "no":
            found[work] = None
        elif _text(facts, f"{work}.strategy") == "epoch":
            _put(found, work, _times(facts, f"{work}.period_epochs", default=1))
        elif f"{work}.period" in facts:
            _put(found, work, _in_steps(facts, f"{work}.period"))
        elif f"{work}.period_epochs" in facts:
            _put(found, work, _times(facts, f"{work}.period_epochs"))
        elif f"{work}.period_batches" in facts:
            _put(found, work, _from_batches(facts, f"{work}.period_batches"))
    return found


def _put(found: dict[str, int | None], work: str, period: float | None) -> None:
    if period is not None:
        found[work] = to_int(period) if period > 0 else None


def _in_steps(facts: Mapping[str, Fact], name: str) -> float | None:
    """HF Trainer takes a period below 1 as a share of all steps."""
    if facts[name].value is None:
        return 0
    period = _number(facts, name)
    if period is None or period <= 0 or period >= 1:
        return period if period is None or period == to_int(period) else None
    total = _number(facts, "train.max_steps")
    return to_int(-(-total * period // 1)) if total and total > 0 else None


def _times(facts: Mapping[str, Fact], name: str, default: int | None = None) -> float | None:
    epochs, steps = _number(facts, name), _number(facts, "train.steps_per_epoch")
    epochs = default if epochs is None else epochs
    if epochs is not None and epochs <= 0:
        return 0
    return epochs * steps if epochs and steps else None


def _from_batches(facts: Mapping[str, Fact], name: str) -> float | None:
    """Lightning counts batches here, and steps are batches divided by accumulation; a float is a share of an epoch."""
    batches, accumulation = _number(facts, name), _number(facts, "train.accumulation") or 1
    if batches is None or isinstance(batches, float) or batches % accumulation:
        return None
    return batches / accumulation


def _groups(works: tuple[str, ...]) -> list[tuple[str, ...]]:
    return [group for size in range(1, len(works) + 1) for group in combinations(works, size)]


def _steps(each: list[int], start: int, step: int) -> tuple[int, ...]:
    period = lcm(*each)
    first = max(start // period + 1, step // period - KEPT)
    return tuple(number * period for number in range(first, (step - 1) // period + 1))


def _last_step(facts: Mapping[str, Fact]) -> float | None:
    total = _number(facts, "train.max_steps")
    if total is not None and total > 0:
        return total
    epochs, steps = _number(facts, "train.epochs"), _number(facts, "train.steps_per_epoch")
    return epochs * steps if epochs and steps else None


def _number(facts: Mapping[str, Fact], name: str) -> float | None:
    value = facts[name].value if name in facts else None
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not isfinite(value):
        return None
    return value


def _text(facts: Mapping[str, Fact], name: str) -> str:
    value = facts[name].value if name in facts else ""
    # YAML 1.1 turns the word no into False.
    return "no" if value is False else str(value).lower()
