"""Numbers that make a size positive or a check hold: the nearest to what the user wrote, and the recipe kept where it can be.

Only a number that stands in a file is changed. Tried are, for each setting in the expression, the values nearest to the old
one; accumulation first, since it leaves the batch of a device and the memory as they are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from crashcart.causes.config._framework_checks import IDENTITY, deepspeed
from crashcart.causes.config._sections import squeezed
from crashcart.model import Edit, Fix
from crashcart.numbers import to_int

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.case import Case
    from crashcart.model import Fact

__all__ = ["batch_sizes", "repaired"]

BOUNDS = {"minbatchsize", "batchsizemin", "smallestbatchsize"}
BUCKETS = {"bucketbatchsizes", "bucketbatchsize", "batchsizebuckets", "batchsizeperbucket", "bucketsbatchsize", "batchsizes"}


def repaired(case: Case) -> Iterator[Fix]:
    """One fix for each expression that can be mended by one number."""
    for fact in case.all("code.failed_arithmetic"):
        if fact.value["change"] is not None:
            setting, value = fact.value["change"]
            title = f"Set {setting.spelling} to {value} (it is {setting.value})"
            why = "the nearest number that works; it changes the batch or the accumulation"
            edits = (Edit(setting.span, str(value)),) if setting.span is not None else ()
            yield Fix(title, "changes-training", why, edits=edits)
    yield from _identity(case)


def drawn(case: Case) -> Fact | None:
    """How many images a sequence of training has, where a validation set says another number."""
    told = [fact for fact in case.all("data.images_per_sequence") if "train" in fact.spelling.lower()]
    return told[-1] if told else case.facts.get("data.images_per_sequence")


def batch_sizes(case: Case, fact: Fact) -> tuple[float | None, float | None]:
    """The smallest and the largest batch of this job."""
    images, sequence = case.number("train.images_per_device"), drawn(case)
    if images and sequence is not None:
        counts = sequence.value if isinstance(sequence.value, list) else [sequence.value]
        if counts and all(_positive(count) for count in counts):
            return images // max(counts), images // min(counts)
    if (bounds := _bucketed(case)) is not None:
        return bounds
    told = fact.value["batch"]
    size = told if _positive(told) else case.number("train.batch_size")
    return size, size


def _bucketed(case: Case) -> tuple[int, int] | None:
    """The smallest and the largest batch, where the config gives one for each bucket or bounds a dynamic one."""
    found: list[int] = []
    for fact in case.facts.values():
        parts = [squeezed(part) for part in fact.spelling.lstrip("-").split(".")]
        if parts[-1] in BOUNDS or (set(parts) & BUCKETS and fact.origin in {"flag", "file"}):
            values = fact.value if isinstance(fact.value, list) else [fact.value]
            found += [value for value in values if type(value) is int and value > 0]
    return (min(found), max(found)) if found else None


def _positive(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and value > 0


def _identity(case: Case) -> Iterator[Fix]:
    """DeepSpeed's identity by the accumulation alone: the global batch is the recipe and stays."""
    file = {fact.spelling: fact for fact in deepspeed(case)}
    batch, micro, times = (file.get(name) for name in IDENTITY)
    ranks = case.number("launch.processes")
    if batch is None or micro is None or times is None or times.span is None or not ranks:
        return
    right, rest = divmod(batch.value, micro.value * ranks)
    if not rest and right >= 1 and right != times.value:
        title = f"Set gradient_accumulation_steps to {right:g}: {micro.value:g} x {right:g} x {ranks:g} is {batch.value:g}"
        why = "the global batch does not change"
        yield Fix(title, "same-recipe", why, edits=(Edit(times.span, str(to_int(right))),))
