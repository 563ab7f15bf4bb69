"""The settings of a job as its program uses them.

What reaches the loader, the optimizer, the trainer and the loops goes before what flags, files and defaults say. A setting that is
named like one of these numbers, and that was not seen to reach its use, is not the number: the program may divide it, replace it or
never read it. It is unknown then.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from crashcart.readers.interpreter.values import constant_of
from crashcart.record import replace

if TYPE_CHECKING:
    from crashcart.case import Case
    from crashcart.model import Fact
    from crashcart.readers.interpreter.execution import Execution

__all__ = ["settle"]

_PERIODS = frozenset(
    f"{kind}.{period}" for kind in ("save", "eval", "sample", "log") for period in ("period", "period_epochs")
)
_OF_LOOPS = frozenset({"train.epochs", "train.max_steps", "train.accumulation"})
_NUMBERS = (
    _PERIODS
    | _OF_LOOPS
    | {
        "train.batch_size",
        "loader.workers",
        "train.learning_rate",
        "train.global_batch_size",
        "eval.batch_size",
        "eval.period_batches",
    }
)
_NO_NUMBERS = (None, "auto", "none", "None")


def settle(case: Case, seen: dict[str, list[Fact]], execution: Execution | None) -> None:
    """Replace and drop settings of a case by what its program was seen to do with them."""
    used = {
        key: facts[0]
        for name, facts in seen.items()
        if name.startswith("used.") and not _is_no_number(key := name.removeprefix("used."), facts[0].value)
    }
    unsure = {name.removeprefix("unsure.") for name, facts in seen.items() if name.startswith("unsure.") and facts}
    dropped = {name for name in _NUMBERS & case.facts.keys() if _is_no_number(name, case.facts[name].value)}
    dropped |= unsure - used.keys()
    for kind in ("save", "eval", "sample", "log"):  # of a number of steps and one of epochs the one that is used
        periods = {f"{kind}.period", f"{kind}.period_epochs"}
        dropped |= periods - used.keys() if periods & (used.keys() | unsure) else set()
    if execution is not None and execution.trains and not execution.library_trainers:
        dropped |= _never_used(execution) - used.keys()
    if execution is not None and execution.is_cut_short:
        dropped |= {name for name in (_NUMBERS & case.facts.keys()) - used.keys() if case.facts[name].origin == "default"}
    for name in dropped & case.facts.keys():
        del case.facts[name]
    for name, fact in used.items():
        known = case.facts.get(name)
        if known is None or known.value != fact.value or fact.origin not in {"code", "environment"}:
            case.facts[name] = replace(fact, name=name)  # else the setting says where it can be changed


def _is_no_number(name: str, value: object) -> bool:
    """Whether a value leaves a number to the program or the library: ``auto``, ``max_steps=-1``, ``save_every=-1``."""
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if is_number and name in _PERIODS:
        return value < 0  # type: ignore[operator]
    return name in _NUMBERS and (value in _NO_NUMBERS or (is_number and name in _OF_LOOPS and not value > 0))  # type: ignore[operator]


def _never_used(execution: Execution) -> set[str]:
    """Numbers whose place of use was followed: where no value of theirs came there, a setting of that name is something else."""
    found = set(_PERIODS | {"loader.workers"})
    if any(constant_of(loader.argument(1, "batch_size"), "") is not None for loader in execution.loaders):
        found.add("train.batch_size")
    if execution.steps:
        found |= _OF_LOOPS
    if execution.optimizers:
        found.add("train.learning_rate")
    return found
