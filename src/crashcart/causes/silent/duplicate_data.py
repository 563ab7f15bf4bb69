"""Ranks, workers or epochs see the same samples.

What happens: the job uses a fraction of its data, or the same random augmentation again and again, and overfits early.

Why: no ``DistributedSampler`` (every rank draws the whole set in the same order), no ``set_epoch`` (the same order each
epoch), an ``IterableDataset`` that is not split among workers, NumPy's random state copied into each forked worker
(before torch 1.9 all of them draw the same numbers).

How it shows: more samples fetched than the data set has; the same ids or random numbers printed by several workers or
in each epoch. The same *reduced* loss on all ranks is right.

What to do: a sampler or ``split_dataset_by_node`` for ranks, ``get_worker_info()`` for workers,
``sampler.set_epoch(epoch)``, a ``worker_init_fn`` that seeds NumPy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from crashcart.cause import compiled, decisive, strong, weak
from crashcart.causes._joined import edits_of, launched_with, ranks
from crashcart.causes.silent._lines import grade
from crashcart.log import evidence
from crashcart.model import Experiment, Fix, Sign
from crashcart.numbers import to_int

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.case import Case
    from crashcart.log import Line
    from crashcart.model import Fact

title = "Ranks, workers or epochs see the same data"
lasting = True
judges_training = True
alike = ("silent/not-learning",)
NUMBERS_ONLY = r"^(?:#\s{0,20})?(?:tensor\(|array\(|worker \d{1,20}:?|rank \d{1,20}:?)?[\s\[(]{0,20}\d[\d\s,.\[\])(]*(?:dtype=\S+|device='\S+'\))?$"
OWN_LIST = (
    r"\b((?:rank|worker|gpu|process|proc|epoch)[ _:=#-]{0,3}\d{1,20})\b.{0,25}\b(?:ids?|idx|ind(?:ex|ices)|samples?|batch|data|order|files?)\b"
    r"[^\[]{0,9}(\[\s{0,9}\d{1,12}(?:,?\s{1,9}\d{1,12}){2}[^\[\]]{0,400}\])"
)
NO_IDS = r"shape|size|dim|loss|layers|devices|gpus"
FEWEST = 7
REPEATED = 0.6
LARGE = 100
MOST_HOLDERS = 8  # rows that are remembered for one number at one place

phrases = (
    decisive("samples have been fetched", says="more samples were fetched than the data set has: each worker gives all "
                                               "of them",
             pattern=r"reported to be|__len__", any_level=True, fatal=False),
    strong("add an explicit nodesplitter", "every worker will see the same", "each rank will see the same", "duplicate "
                                                                                                            "samples across",
           "same data on every", "same data on each", says="the dataset is not split among ranks or workers",
           any_level=True,
           fatal=False, unless=r"avoid|prevent|no duplicate"),
    weak("`__len__` defined", "avoid having duplicate data", "has no attribute 'set_epoch'", "set_epoch",
         says="a warning about "
         "data that may be the same for each worker", fatal=False, any_level=True, pattern=r"__len__|duplicate|"
                                                                                           r"not called|no attribute"),
)  # fmt: skip


def in_log(case: Case) -> Iterator[Sign]:
    """Random numbers or ids that were printed as such and repeat."""
    yield from _same_lists(case)
    drawn = [(line, _drawn(line)) for line in case.log.lines if compiled(NUMBERS_ONLY).match(line.text.strip())]
    drawn = [(line, values) for line, values in drawn if values]
    if len(drawn) < FEWEST or len(drawn) < len(case.log.lines) // 4:
        return
    times: dict[tuple[int, ...], int] = {}
    for _, values in drawn:
        times[values] = times.get(values, 0) + 1
    rows = [values for _, values in drawn]
    shared = _shared(rows)
    if shared:
        says = f"two printed rows have {shared} of their large random numbers in common, in the same positions"
        yield Sign(grade(case, "strong"), says, (evidence(drawn[0][0]), evidence(drawn[-1][0])), order=drawn[0][0].order)
        return
    again = sum(count for count in times.values() if count > 1)
    if len(times) > 1 and again >= REPEATED * len(drawn):
        says = f"{len(drawn)} printed draws contain only {len(times)} different ones"
        yield Sign(grade(case, "strong"), says, (evidence(drawn[0][0]), evidence(drawn[1][0])), order=drawn[0][0].order)


def _same_lists(case: Case) -> Iterator[Sign]:
    """Lists of ids that several ranks or workers, or several epochs, print alike."""
    who: dict[str, set[str]] = {}
    lines: dict[str, Line] = {}
    for line in case.log.lines:
        match = compiled(OWN_LIST).search(line.text) if "[" in line.text else None
        if match and not compiled(NO_IDS).search(line.text):
            name = match[1].lower() if line.rank is None else str(line.rank)
            who.setdefault(match[2], set()).add(name)
            lines.setdefault(match[2], line)
    shared = [ids for ids, names in who.items() if len(names) > 1]
    if len(shared) > 1 and len(shared) >= REPEATED * len(who):
        says = f"several ranks, workers or epochs printed the same {len(shared)} lists of ids"
        first = lines[shared[0]]
        yield Sign(grade(case, "strong"), says, (evidence(first),), fatal=False, order=first.order)


def _shared(rows: list[tuple[int, ...]]) -> int:
    """How many large numbers two rows have in common at the same places, where it cannot be chance."""
    constant = {place for place, column in enumerate(zip(*rows, strict=False)) if len(set(column)) < len(rows) // 2}
    holders: dict[tuple[int, int], list[int]] = {}
    for number, row in enumerate(rows):
        large = [(place, value) for place, value in enumerate(row) if value >= LARGE]
        common: dict[int, set[int]] = {}
        for place, value in large:
            if place not in constant:
                earlier = holders.setdefault((place, value), [])
                for other in earlier:
                    common.setdefault(other, set()).add(value)
                if len(earlier) < MOST_HOLDERS:
                    earlier.append(number)
        for other, same in common.items():
            if row != rows[other] and 1 < len(same) >= len(large) // 2 and len(set(row)) > len(same):
                return len(same)
    return 0


def _drawn(line: Line) -> tuple[int, ...]:
    """The numbers of a printed row that can be random; an index that counts up in front is left out."""
    numbers = [to_int(number, 0) for number in compiled(r"(?<![.\d])\d{1,15}(?![.\d])").findall(line.text)]
    row = tuple(numbers)
    if len(row) == 2:
        row = row[1:] if row[1] >= LARGE else ()
    return row if len(set(row)) > 1 or (len(row) == 1 and row[0] >= LARGE) else ()


def in_code(case: Case) -> Iterator[Sign]:
    """A sampler that is never told the epoch, in a job of several ranks and epochs; data that nobody divides among ranks."""
    several = ranks(case)
    for fact in case.all("code.undivided"):
        says = "no sampler splits the data among the ranks: each rank reads all of it"
        if several is None:
            yield Sign("weak", f"{says}, if there is more than one", (fact.evidence,), fatal=False)
        elif several > 1:
            says = f"no sampler splits the data: each of the {several} ranks reads all of it in every epoch"
            yield Sign("strong", says, (fact.evidence, *launched_with(case)), fatal=False)
    for fact in _same_order(case):
        says = "set_epoch is never called: every epoch uses the same order"
        if ranks(case) is None:
            yield Sign("weak", f"{says}, if there is more than one rank", (fact.evidence,), fatal=False)
        else:
            yield Sign("strong", says, (fact.evidence,), fatal=False)


def _same_order(case: Case) -> list[Fact]:
    once = ranks(case) == 1 or case.number("train.epochs") == 1
    return [] if once else case.all("code.same_order")


def fix(case: Case) -> Iterator[Fix]:
    """Tell the sampler the epoch, where the code allows; then the other ways to see data twice."""
    whole = edits_of(case.all("code.undivided"), "edits")
    if whole and ranks(case) != 1:
        why = "each rank gets its own part, so an epoch is one pass over the data and has fewer steps"
        yield Fix("Give each rank its own part of the data", "changes-training", why, edits=whole)
    edits = edits_of(_same_order(case), "edits")
    if edits:
        yield Fix(
            "Call set_epoch on the sampler",
            "same-recipe",
            "this gives a new order in each epoch, the same on all ranks",
            edits=edits,
        )
    yield from fixes


fixes = (
    Fix(
        "Split by rank and worker, seed each worker",
        "by-hand",
        "use DistributedSampler with set_epoch(epoch), or split_dataset_by_node; in an IterableDataset use get_worker_info(); "
        "worker_init_fn=lambda i: numpy.random.seed(torch.initial_seed() % 2**32)",
    ),
)
experiment = Experiment(
    title="Print the ids of the first 20 batches of each rank and worker in two epochs",
    start_from="the beginning",
    stop_after="20 batches in each of two epochs",
    confirms="the same ids or random numbers appear more than once in an epoch, or in the same order in both",
    refutes="all ids differ and their order changes",
)
