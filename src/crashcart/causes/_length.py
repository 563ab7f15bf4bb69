"""How long the training set is, how many batches a rank gets of it, and after how many steps an epoch ends.

A length comes from the code (``__len__`` that gives a plain number or a setting), from the rows or images that the data reader
counted, or from a setting that bounds it. Only the first is sure; the others hold under a condition, which is told.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from crashcart.causes._joined import launched_with, ranks
from crashcart.causes._loaders import loaders
from crashcart.numbers import to_int
from crashcart.record import record

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.case import Case
    from crashcart.causes._loaders import Loader
    from crashcart.model import Evidence

__all__ = ["Length", "batches", "epoch_steps", "lengths", "share"]

WHOLE = {"", "RandomSampler", "SequentialSampler"}


@record(frozen=True)
class Length:
    """How many samples a loader goes through; ``when`` is the condition under which that is so, empty where it is sure."""

    count: int
    what: str
    when: str
    evidence: tuple[Evidence, ...]


def lengths(case: Case, loader: Loader) -> Iterator[Length]:
    """What is known of the length of a loader's data, the surest first."""
    count = loader.fact.value["length"]
    if type(count) is int and count >= 0:
        yield Length(count, "samples", "", tuple(loader.fact.value["length_evidence"]))
        return
    file = loader.fact.value["file"]
    for fact in case.all("data.file_rows") if file is not None else ():
        if fact.value["file"] == file:
            yield Length(fact.value["rows"], "samples", "", (fact.evidence,))
            return
    held = [fact for fact in case.all("data.held") if fact.value["complete"]]
    rows = case.all("data.rows")
    if len(rows) == 1:
        yield Length(rows[0].value["rows"], "rows", "a row is a sample", (rows[0].evidence,))
    elif len(held) == 1 and case.all("code.folder_classes") and held[0].value["kinds"].get("image"):
        yield Length(held[0].value["kinds"]["image"], "images", "all of them are used for training", (held[0].evidence,))
    files = [fact for fact in held if fact.value["kinds"].get("hdf5")]
    if not rows and len(files) == 1 and loader.fact.value["counts_files"]:
        there, promised = files[0].value["kinds"]["hdf5"], files[0].value["promised"]
        yield Length(min(there, promised or there), "episodes", "each of them is one sample", (files[0].evidence,))
    most = case.facts.get("data.samples")
    if most is not None and type(most.value) is int and most.value > 0:
        yield Length(most.value, "samples", f"{most.spelling} is the size of the dataset", (most.evidence,))


def share(case: Case, loader: Loader, count: int) -> int | None:
    """The samples of one rank; None where the sampler, or the number of ranks, cannot be told."""
    sampler, several = loader.fact.value.get("sampler", "?"), ranks(case)
    if sampler == "DistributedSampler":
        return -(-count // several) if several else None  # it pads the last ones
    if sampler not in WHOLE:
        return None
    if _dealt_by_accelerate(case):
        return count // several if several else None
    if any("ightning" in str(fact.value["call"]) for fact in case.all("code.starts_ranks")):
        return -(-count // several) if several else None  # Lightning puts a DistributedSampler in its place
    return count


def batches(case: Case, loader: Loader, count: int) -> int | None:
    """How many batches a rank gets in an epoch."""
    each, several = share(case, loader, count), ranks(case)
    if each is None or not loader.batch or loader.drop_last is None:
        return None
    if _dealt_by_accelerate(case) and loader.fact.value.get("sampler") in WHOLE and several:
        whole = count // loader.batch if loader.drop_last else -(-count // loader.batch)
        return whole // several if loader.drop_last else -(-whole // several)
    return each // loader.batch if loader.drop_last else -(-each // loader.batch)


def epoch_steps(case: Case) -> tuple[int, str, tuple[Evidence, ...]] | None:
    """The steps of an epoch, how that is known, and from where; None where it is not."""
    told = case.facts.get("train.steps_per_epoch")
    if told is not None and type(told.value) is int and told.value > 0:
        return told.value, f"{told.spelling} = {told.value}", (told.evidence,)
    own = [loader for loader in loaders(case) if loader.fact.value["for"] == "train"]
    if len(own) != 1:
        return None
    known = next(lengths(case, own[0]), None)
    count = batches(case, own[0], known.count) if known is not None and not known.when else None
    times = case.number("train.accumulation") or 1
    if known is None or not count or count % times:
        return None
    several = ranks(case) or 1
    text = f"{known.count:,} samples in batches of {own[0].batch}" + (f" on {several} ranks" if several > 1 else "")
    text += f", {times:g} of them per step" if times > 1 else ""
    return to_int(count // times, 0), text, (*own[0].evidence, *known.evidence, *launched_with(case))


def _dealt_by_accelerate(case: Case) -> bool:
    """Whether accelerate deals the batches of a loader out to the ranks."""
    return any("accelerate" in str(fact.value) for fact in case.all("code.parallel"))
