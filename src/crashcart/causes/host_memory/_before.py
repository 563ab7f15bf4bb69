"""What a job's loaders will hold against what it may have, as signs; and the numbers with which it fits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from crashcart.causes._loaders import loaders
from crashcart.causes.host_memory._foreseen import ahead, held, limit, ranks_here, sample
from crashcart.causes.host_memory._recorded import gib
from crashcart.model import Edit, Fix, Sign
from crashcart.numbers import to_int

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.case import Case
    from crashcart.causes.host_memory._foreseen import Ahead
    from crashcart.model import Fact

__all__ = ["caches", "counted", "grown", "indexes", "loaded", "prefetched", "smaller"]

OVER, NEAR, FAR, ROOM = 1.1, 0.7, 0.35, 0.3
SPLIT = 2.5  # a part of the files may be for evaluation, or for nobody
MANY_WORKERS = 32
_OBJECT, _EACH = 64, 40  # bytes of a tuple in a list, and of each number in it


def counted(case: Case) -> Iterator[Sign]:
    """How many worker processes there will be: loaders in the code times workers times ranks."""
    here = ranks_here(case)
    with_workers = [loader for loader in loaders(case) if loader.workers]
    if not with_workers or here is None:
        return
    total = sum(worker.workers or 0 for worker in with_workers) * here
    if total >= MANY_WORKERS:
        each = " + ".join(str(worker.workers) for worker in with_workers)
        stay = " that stay between epochs" if any(worker.persistent for worker in with_workers) else ""
        of = f" on each of {here} ranks" if here > 1 else ""
        many = f"{len(with_workers)} loader{'s' if len(with_workers) > 1 else ''}"
        says = f"{many} with {each} workers{of} {'are' if len(with_workers) > 1 else 'is'} {total} worker processes{stay}"
        places = dict.fromkeys(item for worker in with_workers for item in worker.evidence)
        yield Sign("weak", says, tuple(places), fatal=False)


def prefetched(case: Case, room: Fact | None, what: str, *, shared: bool) -> Iterator[Sign]:
    """Batches made ahead against what there is room for; in shared memory only those of workers."""
    sums = [one for one in ahead(case) if one.loader.workers or not shared]
    if room is None or not sums:
        return
    largest = max(sums, key=lambda one: one.least)
    least, most = largest.least, sum(one.most for one in sums)
    places = (*largest.loader.evidence, largest.sample.evidence, room.evidence)
    says = f"{largest.words}, and {what} is {gib(room.value)}"
    if least > OVER * room.value and largest.sample.firm and largest.loader.fact.value["sure"]:
        yield Sign("decisive", says, places)
    elif least > NEAR * room.value:
        yield Sign("strong", f"{says}: too much if all workers prefetch as far as they can", places)
    elif most > OVER * room.value and largest.sample.firm:
        more = f", and up to {gib(most)} when 8-bit values become 32-bit floats or slices reach to the end"
        yield Sign("strong" if least > FAR * room.value else "weak", f"{says}{more}", places)


def loaded(case: Case) -> Iterator[Sign]:
    """Data that every rank reads into memory as a whole."""
    room, here = limit(case), ranks_here(case)
    for fact in case.all("code.held_whole"):
        size = held(case, fact)
        if size is None or room is None or here is None:
            continue
        spawned = any(loader.started_by in {"spawn", "forkserver"} for loader in loaders(case))
        copies = here * (1 + sum(loader.workers or 0 for loader in loaders(case))) if spawned else here
        least, most = size[0] * copies, size[1] * copies
        each = f"{gib(size[0])} x {copies} processes = " if copies > 1 else ""
        says = f"the dataset {fact.value['class']} reads all of its data into memory, {each}{gib(least)}, and the job may use {gib(room.value)}"
        if least > SPLIT * room.value:
            yield Sign("decisive", says, (fact.evidence, room.evidence))
        elif least > NEAR * room.value or (most > OVER * room.value and least > NEAR / 2 * room.value):
            yield Sign("strong", f"{says}: too much together with the rest of the job", (fact.evidence, room.evidence))


def _growing(case: Case, name: str) -> list[Fact]:
    """What grows: before a run only what is known to be large, after a death whatever may be."""
    return [fact for fact in case.all(name) if fact.value["bulk"] or not case.before]


def caches(case: Case) -> Iterator[Sign]:
    """A cache in the data set that only grows: each worker of each rank fills one of its own."""
    room, here = limit(case), ranks_here(case) or 1
    for fact in _growing(case, "code.sample_cache"):
        own = [loader for loader in loaders(case) if loader.fact.value["data"] in {fact.value["class"], ""}]
        size = next((found for one in own if (found := sample(case, one)) is not None), None)
        name = f"the dataset's {fact.value['class']}.{fact.value['attribute']} keeps every sample it has read and never frees one"
        stay = any(one.persistent and one.workers for one in own)
        copies = here * max([one.workers or 1 for one in own], default=1) if stay else here
        kept = f"each of {copies} processes holds" if copies > 1 else "it holds"
        if size is None or room is None:
            yield Sign("weak", f"{name}: memory grows until {kept} the whole set", (fact.evidence,), fatal=False)
            continue
        least = (size.read or size.least) * size.files
        most = least * copies
        total = f"{name}: {kept} {gib(least)} in the end, and the job may use {gib(room.value)}"
        places = (fact.evidence, size.evidence, room.evidence)
        if least > SPLIT * room.value and size.firm:
            yield Sign("decisive", total, places)
        elif most > NEAR * room.value:
            yield Sign("strong", f"{total}; memory runs out when the samples take {gib(most)} over all processes", places)
        else:
            yield Sign("weak", total, places, fatal=False)


def grown(case: Case) -> Iterator[Sign]:
    """Lists that get longer with every sample: for ever in the training process and in workers that stay, else for an epoch."""
    for fact in _growing(case, "code.grows"):
        every = loaders(case)
        told, stay = case.facts.get("loader.persistent"), [one for one in every if one.persistent and one.workers]
        lasting = bool(stay) or (told is not None and told.value is True) or any(one.workers == 0 for one in every)
        told_so = f"{fact.value['holder']} in {fact.value['class']} grows with every sample and is never emptied"
        until = (
            "it grows through all epochs; if the run is long enough, memory runs out"
            if lasting
            else "each worker keeps what it has read until it ends; memory runs out when that is more than is available"
        )
        yield Sign("strong", f"{told_so}: {until}", (fact.evidence, *(item for one in stay[:1] for item in one.evidence)))


def indexes(case: Case) -> Iterator[Sign]:
    """An index of Python objects: a forked worker that reads it writes its counters, and gets a copy of its own in time."""
    room, here = limit(case), ranks_here(case)
    steps = sum(
        sum(fact.value["lengths"]) / len(fact.value["lengths"]) * fact.value["files"] for fact in case.all("data.episodes")
    )
    for fact in case.all("code.object_index"):
        every = loaders(case)
        if room is None or here is None or not steps or any(one.workers is None for one in every):
            continue
        processes = here * sum((one.workers or 0) + 1 for one in every)
        one = steps * (_OBJECT + _EACH * fact.value["parts"])
        says = (
            f"an index of about {steps:,.0f} objects, {gib(one)}, that is copied into every worker as it is read: "
            f"{gib(one * processes)} in {processes} processes, and the job may use {gib(room.value)}"
        )
        if one * processes > NEAR * room.value:
            yield Sign(
                "strong", f"{says}; memory runs out when all of them have read all of it", (fact.evidence, room.evidence)
            )
        elif one * processes > 1 << 30:
            yield Sign("weak", says, (fact.evidence, room.evidence), fatal=False)


def smaller(case: Case, room: Fact | None, *, shared: bool) -> Iterator[Fix]:
    """The number of workers and of batches ahead with which half of the room is enough."""
    sums = [one for one in ahead(case) if one.loader.workers or not shared]
    worst = max(sums, key=lambda one: one.least, default=None)
    if room is None or worst is None or not worst.loader.workers or not worst.loader.prefetch:
        return
    one = worst.loader
    each = worst.sample.least * (one.batch or 1) * worst.ranks

    def needed(workers: int, prefetch: int) -> float:
        return each * workers * prefetch + worst.sample.read * workers * worst.ranks

    fewer = sorted({worst.loader.prefetch, min(2, worst.loader.prefetch), 1}, reverse=True)
    tries = [(count, many) for count in _halves(worst.loader.workers) for many in fewer]
    best = next((pair for pair in tries if needed(*pair) <= ROOM * room.value), tries[-1])
    edits = _edits(sums, *best)
    if edits:
        words = f"{best[0]} worker{'s' * (best[0] > 1)} with {best[1]} batch{'es' * (best[1] > 1)} ahead each"
        why = "the training sees the same batches; only the number waiting in memory changes"
        yield Fix(f"{words}: {gib(needed(*best))}", "same-recipe", why, edits=tuple(edits))
    if needed(*best) > NEAR * room.value and one.batch:
        batch = one.edit("batch", max(1, to_int(one.batch * ROOM * room.value / needed(*best), 1)))
        why = "even one prefetched batch is too much; accumulate over more batches to keep the global batch"
        if batch is not None:
            yield Fix(f"Use a batch size of {batch.text}", "changes-training", why, edits=(*edits, batch))


def _halves(workers: int) -> list[int]:
    found = [workers]
    while found[-1] > 1:
        found.append(found[-1] // 2)
    return found


def _edits(sums: list[Ahead], workers: int, prefetch: int) -> list[Edit]:
    edits: dict[tuple[str, int], Edit] = {}
    for one in sums:
        for name, value in (("workers", workers), ("prefetch", prefetch)):
            old = getattr(one.loader, name)
            edit = one.loader.edit(name, value) if old is not None and old > value else None
            if edit is not None and edit.span.file:
                edits[edit.span.file, edit.span.start] = edit
    return list(edits.values())
