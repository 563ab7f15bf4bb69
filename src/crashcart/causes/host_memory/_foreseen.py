"""How much memory a job's loaders will hold, before it starts: each factor with where it comes from.

A loader's workers make ``workers x prefetch`` batches ahead, each rank has loaders of its own. The size of a sample comes from the
files' own headers and from what the code reads of them: one step, a slice, or the whole. Bytes in a file are the least that a
sample takes; images of 8 bits that become 32-bit floats take four times as much.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from crashcart.causes._joined import ranks
from crashcart.causes._length import lengths, share
from crashcart.causes._loaders import loaders
from crashcart.causes.data._tables import fits
from crashcart.causes.host_memory._recorded import gib
from crashcart.numbers import to_int
from crashcart.record import record

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.case import Case
    from crashcart.causes._loaders import Loader
    from crashcart.model import Evidence, Fact

__all__ = ["Ahead", "Sample", "ahead", "held", "limit", "ranks_here", "sample"]

FLOAT = 4


@record(frozen=True)
class Sample:
    """The size of one sample: the least and the most, and whether the code says what it is made of.

    ``read`` is what is in memory for a moment while a sample is cut out of it; ``single`` where a file is one sample.
    """

    least: float
    most: float
    read: float
    firm: bool
    files: int
    evidence: Evidence
    single: bool = False


@record(frozen=True)
class Ahead:
    """What one loader holds on all ranks of a machine."""

    loader: Loader
    sample: Sample
    ranks: int
    least: float
    most: float
    bounded: bool = False

    @property
    def words(self) -> str:
        """The product, factor by factor."""
        one = self.loader
        size = gib(self.sample.least) if self.sample.least >= 1 << 20 else f"{self.sample.least / 1024:.0f} KiB"
        workers = f"{one.workers} workers x {one.prefetch} batches ahead x " if one.workers else ""
        of = f"{self.ranks} rank{'s' if self.ranks > 1 else ''}"
        cut = f", with {gib(self.sample.read)} in each process from which a sample is cut" if self.sample.read else ""
        ends = ", no more than the set has," if self.bounded else ""
        return f"{workers}{one.batch} samples of at least {size} x {of}{cut}:{ends} {gib(self.least)} in all"


def limit(case: Case) -> Fact | None:
    """What the job may use of a machine's memory: what the scheduler is asked for, else this machine's own limit."""
    for name in ("launch.memory_bytes", "host.memory_bytes"):
        fact = case.facts.get(name) or next(iter(case.all(name)), None)
        if fact is not None and isinstance(fact.value, int) and fact.value > 0:
            return fact
    return None


def ranks_here(case: Case) -> int | None:
    """The ranks on one machine."""
    each, every, nodes = (case.number(f"launch.{name}") for name in ("processes_per_node", "processes", "nodes"))
    if each:
        return to_int(each)
    if every and (nodes is None or nodes == 1):
        return to_int(every)
    if every and nodes:
        return to_int(every // nodes)
    return ranks(case) or _one_task(case) if nodes is None else None


def _one_task(case: Case) -> int | None:
    """Srun in a script with a header that asks for memory or cards, and nowhere for tasks: Slurm starts one."""
    kind, known = case.facts.get("launch.kind"), case.facts
    header = "launch.memory_bytes" in known or "launch.gpus_per_node" in known
    tasks = ("launch.tasks", "launch.tasks_per_node", "launch.gpus_per_task", "launch.processes")
    asked = any(name in known or case.all(name) for name in tasks)
    return 1 if kind is not None and kind.value == "srun" and header and not asked else None


def sample(case: Case, loader: Loader) -> Sample | None:
    """The size of a sample of a loader, where the files tell."""
    reads = case.all("code.sample_read")
    own = [one for one in reads if one.value["class"] == loader.fact.value["data"]] or reads
    widened = any(one.value["class"] in {loader.fact.value["data"], own[0].value["class"]} for one in case.all("code.widened")) if own else False  # fmt: skip
    for fact in case.all("data.tables"):
        least = most = read = 0.0
        count, firm = 0, False
        for name, known in fact.value["tables"].items():
            count = max(count, len(known["tables"]))
            rows, size = _mean(known["tables"])
            wide = FLOAT if known["kind"] == "image" else 1
            forms = {one.value["form"] for one in own if fits(one.value["key"], name)}
            if known["kind"] == "hdf5" and forms:
                part = size / max(1, rows)
                byte = _is_byte(known["tables"])
                taken = size if "all" in forms else part
                sure = _is_meant(case, own, name, fact.value["tables"]) and not (byte and case.all("code.made_smaller"))
                least += (taken * (FLOAT if byte and widened else 1)) if sure else 0
                most += FLOAT * (size if forms - {"step"} else part)
                read += size if "whole" in forms and sure else 0
                firm = True
            elif known["kind"] in {"image", "array"} and not name:
                least += size
                most += size * wide
        if (least or most) and count:
            files = next(
                (one.value["files"] for one in case.all("data.held") if one.value["path"] == fact.value["path"]), count
            )
            firm = firm or not case.all("code.resized")
            single = all(table["kind"] in {"image", "array"} for table in fact.value["tables"].values())
            return Sample(least, most, read, firm, files, fact.evidence, single)
    return _of_files(case, loader)


def _of_files(case: Case, loader: Loader) -> Sample | None:
    """A sample that is one file or several as they are, of files that nobody opened here: the size of each is what counts."""
    reads = [one for one in case.all("code.file_read") if one.value["class"] == loader.fact.value["data"]]
    held = [one for one in case.all("data.held") if set(one.value["kinds"]) == {"other"} and one.value["files"]]
    if len(reads) != 1 or len(held) != 1:
        return None
    many = reads[0].value["many"]
    if many is None or many < 1:
        return None
    files = held[0].value["files"]
    each = held[0].value["bytes"] / files * many
    return Sample(each, each, 0.0, firm=False, files=files, evidence=held[0].evidence, single=True)


def _is_byte(tables: list[tuple[list[int], int]]) -> bool:
    """Whether a table holds pictures of 8 bits."""
    shape, size = tables[0]
    return len(shape) > 2 and size == prod(shape)


def _is_meant(case: Case, reads: list[Fact], table: str, tables: dict[str, object]) -> bool:
    """Whether the code reads this table for sure: its name is written out, or it is one of a list of names of the job.

    Of several that a name put in later may mean, the first stands for all where no such list is known.
    """
    if any("#" not in read.value["key"] and fits(read.value["key"], table) for read in reads):
        return True
    keys = [read.value["key"] for read in reads if fits(read.value["key"], table)]
    alike = [name for name in tables if any(fits(key, name) for key in keys)]
    last = {name.rpartition("/")[2] for name in alike}
    facts = case.facts.values()
    lists = [
        set(fact.value) for fact in facts if isinstance(fact.value, list) and all(isinstance(one, str) for one in fact.value)
    ]
    chosen = next((one & last for one in lists if one and one <= last), None)
    if chosen is None:
        return table == alike[0]
    return table.rpartition("/")[2] in chosen


def _mean(tables: list[tuple[list[int], int]]) -> tuple[float, float]:
    rows = [shape[0] if shape else 1 for shape, _ in tables]
    return sum(rows) / len(rows), sum(size for _, size in tables) / len(tables)


def ahead(case: Case) -> Iterator[Ahead]:
    """What each loader holds, where all factors are known; no more than all samples there are."""
    here = ranks_here(case)
    for loader in loaders(case):
        size = sample(case, loader)
        if size is None or here is None or loader.ahead is None or not loader.batch:
            continue
        most = _samples(case, loader)
        count = loader.ahead * loader.batch * here
        few = min(count, most * here) if most is not None else count
        few = min(few, size.files) if size.single else few  # there are no more samples than files
        reading = size.read * max(1, loader.workers or 0) * here
        yield Ahead(loader, size, here, few * size.least + reading, few * size.most + reading, few < count)


def _samples(case: Case, loader: Loader) -> int | None:
    """The samples that a rank can have at most: the length of the set, else the rows of all files."""
    known = next(lengths(case, loader), None)
    if known is not None:
        return share(case, loader, known.count) or known.count
    rows = [
        sum(shape[0] for shape, _ in table["tables"] if shape)
        for fact in case.all("data.tables")
        for table in fact.value["tables"].values()
        if table["kind"] == "hdf5"
    ]
    return max(rows, default=None)


def held(case: Case, fact: Fact) -> tuple[float, float] | None:
    """The bytes of all files in memory, once: of the tables that a loop reads as a whole, or of whole files."""
    for known in case.all("data.tables"):
        size = 0.0
        for name, one in known.value["tables"].items():
            every = "*" in fact.value["keys"]
            wanted = every or (
                any(fits(key, name) for key in fact.value["keys"]) if fact.value["keys"] else fact.value["files"]
            )
            if wanted and one["kind"] in ({"hdf5"} if fact.value["keys"] else {"array", "arrays", "image"}):
                size += _mean(one["tables"])[1] * _files(case, known)
        if size:
            return size, size * FLOAT
    return None


def _files(case: Case, known: Fact) -> int:
    return next((one.value["files"] for one in case.all("data.held") if one.value["path"] == known.value["path"]), 1)
