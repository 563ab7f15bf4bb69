"""Numbers that make a size positive or a check hold: the nearest to what the user wrote, and the recipe kept where it can be.

Only a number that stands in a file is changed. Tried are, for each setting in the expression, the values nearest to the old
one; accumulation first, since it leaves the batch of a device and the memory as they are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from crashcart.causes._joined import number_of
from crashcart.causes.config._arithmetic import IDENTITY, checked, deepspeed, sizes
from crashcart.causes.config._sections import squeezed
from crashcart.model import Edit, Fix
from crashcart.numbers import to_int
from crashcart.record import replace

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.case import Case
    from crashcart.causes.config._arithmetic import Numbers
    from crashcart.model import Fact

__all__ = ["batch_sizes", "drawn_images", "repaired"]

FARTHEST = 4096
BOUNDS = {"minbatchsize", "batchsizemin", "smallestbatchsize"}
BUCKETS = {"bucketbatchsizes", "bucketbatchsize", "batchsizebuckets", "batchsizeperbucket", "bucketsbatchsize", "batchsizes"}


def repaired(case: Case) -> Iterator[Fix]:
    """One fix for each expression that can be mended by one number."""
    for fact, numbers in sizes(case):
        yield from _changed(fact.value["tree"], numbers, lambda value: bool(value) and value >= 1)
    for fact, numbers in checked(case):
        yield from _changed(fact.value["tree"], numbers, bool)
    yield from _identity(case)
    yield from _room_for_a_sequence(case)


def drawn(case: Case) -> Fact | None:
    """How many images a sequence of training has, where a validation set says another number."""
    told = [fact for fact in case.all("data.images_per_sequence") if "train" in fact.spelling.lower()]
    return told[-1] if told else case.facts.get("data.images_per_sequence")


def drawn_images(case: Case) -> tuple[Fact, Fact, int, int] | None:
    """Images for a device, images of a sequence, and the fewest and most of these; None where one is not known."""
    images, sequence = case.facts.get("train.images_per_device"), drawn(case)
    if images is None or sequence is None or type(images.value) is not int:
        return None
    values = sequence.value if isinstance(sequence.value, list) else [sequence.value]
    counts = [one for one in values if type(one) is int]
    return (images, sequence, min(counts), max(counts)) if counts else None


def batch_sizes(case: Case, fact: Fact) -> tuple[float | None, float | None]:
    """The smallest and the largest batch of this job."""
    images, sequence = case.number("train.images_per_device"), drawn(case)
    if images and sequence is not None:
        counts = sequence.value if isinstance(sequence.value, list) else [sequence.value]
        if counts and all(_positive(count) for count in counts):
            least = 1 if case.all("code.size_guard") else 0
            return max(least, images // max(counts)), max(least, images // min(counts))
    if (bounds := _bucketed(case)) is not None:
        return bounds
    told = number_of(case, fact.value["batch"])
    size = told if _positive(told) or "of" in fact.value["batch"] else case.number("train.batch_size")
    return size, size


def _bucketed(case: Case) -> tuple[int, int] | None:
    """The smallest and the largest batch, where the config gives one for each bucket or bounds a dynamic one."""
    found: list[int] = []
    for fact in case.facts.values():
        parts = [squeezed(part) for part in fact.spelling.lstrip("-").split(".")]
        if parts[-1] in BOUNDS or (set(parts) & BUCKETS and fact.origin in {"flag", "file"}):
            values = fact.value if isinstance(fact.value, list) else [fact.value]
            found += [one for one in values if type(one) is int and one > 0]
    return (min(found), max(found)) if found else None


def _positive(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and value > 0


def _room_for_a_sequence(case: Case) -> Iterator[Fix]:
    """Images for one sequence of the longest kind in each part that the code cuts a batch into."""
    found = drawn_images(case)
    if found is None or any(True for _ in sizes(case)):
        return
    images, _, _, most = found
    if images.value >= most or images.span is None:
        return
    parts = max(
        (one for fact in case.all("code.chunks") if type(one := number_of(case, fact.value["parts"])) is int), default=1
    )
    title = f"Set {images.spelling} to {most * parts} (it is {images.value})"
    why = f"a batch of {parts} x {most} images: in each step one sequence of the longest kind, as few as can be"
    yield Fix(title, "changes-training", why, edits=(Edit(images.span, str(most * parts)),))


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
        why = "the global batch, which is the recipe, stays as it is"
        yield Fix(title, "same-recipe", why, edits=(Edit(times.span, str(to_int(right))),))


def _changed(tree: Any, numbers: Numbers, holds: Any) -> Iterator[Fix]:  # noqa: ANN401 - a tree of tuples, a test
    candidates = [
        (name, fact)
        for name, fact in numbers.used.items()
        if fact.span is not None and isinstance(fact.value, int) and name != "ranks"
    ]
    found = [
        (distance, name, fact, value)
        for name, fact in candidates
        for distance, value in [_nearest(tree, numbers, fact, holds)]
        if value
    ]
    for _, name, fact, value in sorted(found, key=lambda one: (_weight(one[2]), one[0]))[:1]:
        title = f"Set {fact.spelling or name} to {value} (it is {fact.value})"
        edits = (Edit(fact.span, str(value)),) if fact.span else ()
        why = "the nearest number with which the program's own arithmetic holds; it changes the batch or the accumulation"
        yield Fix(title, "changes-training", why, edits=edits)


def _weight(fact: Fact) -> int:
    """What is changed first: accumulation, then a size of a device, then the rest."""
    order = [
        "train.accumulation",
        "data.images_per_sequence",
        "train.images_per_device",
        "train.batch_size",
        "eval.batch_size",
    ]
    return order.index(fact.name) if fact.name in order else len(order)


def _nearest(tree: Any, numbers: Numbers, fact: Fact, holds: Any) -> tuple[int, int]:  # noqa: ANN401 - a tree of tuples, a test
    """The value nearest to the old one with which it holds, and how far it is; (0, 0) where there is none."""
    key = next((key for key, one in numbers.known.items() if one is fact), squeezed(fact.spelling))
    try:
        for distance in range(1, min(FARTHEST, 4 * abs(to_int(fact.value, 0)) + 64)):
            for value in (fact.value + distance, fact.value - distance):
                if value >= 1:
                    numbers.known[key] = replace(fact, value=value)
                    if holds(numbers.value(tree)):
                        return distance, value
    finally:
        numbers.known[key] = fact
        numbers.value(tree)
    return 0, 0
