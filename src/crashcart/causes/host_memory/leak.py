"""Host memory grows through the run until the process is killed.

What happens: the run works for hours or epochs, then it is killed like any other process that asked for too much.

Why: Python lists of objects in a data set are copied page by page into each forked worker, since reading them changes
their reference counts; caches that never shrink; HDF5 or video handles that stay open; outputs or losses kept in a
list; workers that are created anew each epoch and never joined.

How it shows: resident memory, ``free`` or a memory column rises steadily (a saw-tooth by epoch is the copy-on-write
kind), then ``Killed`` or ``-9``. Memory that rises in the first epoch only is the page cache or memory-mapped files: a
plateau, no leak. A recording has the memory of every process each second, and shows which of them climbed.

What to do: keep the index in one numpy array, tensor or Arrow table instead of lists of objects; open files per worker
and close them; bound caches. ``persistent_workers=False`` only hides it. Smaller batches do nothing when it leaks per
sample.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from crashcart.cause import compiled, weak
from crashcart.causes._joined import edits_of
from crashcart.causes.host_memory._before import caches, grown, indexes
from crashcart.causes.host_memory._kills import ends
from crashcart.causes.host_memory._recorded import REFUSED, ended_by_memory, guard_of, leaked
from crashcart.deaths import by_us, first, order
from crashcart.log import evidence
from crashcart.model import Experiment, Fix, Sign
from crashcart.numbers import to_float

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.case import Case
    from crashcart.log import Line

title = "Host memory leak: usage grows until the process is killed"
piece = "chunk_index"
alike = ("host-memory/oom-kill",)
_TRACED = r"(\S{1,200}\.\w{1,60}:\d{1,20}): size=([\d.]{1,24}) ([KMGT]?i?B)(?: \(\+[^)]{0,200}\))?, count=(\d{1,20})"
_UNIT = {"B": 1.0, "KiB": 2.0**10, "MiB": 2.0**20, "GiB": 2.0**30}
_DEVICE = r"\bgpu|cuda|vram|nvidia|\bhbm\b"
_HOST = (
    r"\bcpu(?:\b|_)|\bhost(?:\b|_)|\bram(?:\b|_)|\brss|psutil|system[_ .]mem|proc\.memory|svmem|virtual_memory|process memory|"
    r"\bmem(?:ory)?[ _]?(?:usage|percent|used)|\bpss\b|\buss\b|\bmaxrss|ru_maxrss|memory_info|worker \d+ memory|vms\b"
)
phrases = (
    weak("svmem(", "ru_maxrss", "memory_info", "process memory", "host memory",
         says="the program reports its memory", fatal=False),
    weak(", count=", says="tracemalloc's list of the largest allocations", pattern=_TRACED, fatal=False),
)  # fmt: skip
_SERIES = (
    ("available", -1, r"\bavail(?:able)?(?:[_ ]mem\w*)?\W{1,4}([\d.]+)"),
    ("used", 1, r"^\s*Mem:\s+[\d.]+[A-Za-z]*\s+([\d.]+)"),
    ("resident memory", 1, r"\brss\w*\W{1,4}([\d.]+)"),
    ("used", 1, r"\bused\W{1,4}([\d.]+)"),
    ("percentage", 1, r"\bpercent\W{1,4}([\d.]+)"),
    ("memory", 1, r"\bmem(?:ory)?[ _]?(?:usage|percent|used|footprint)?[^\d\n]{1,20}([\d.]+)"),
    ("host memory", 1, r"\bcpu(?:[_ ]mem\w*)?\W{1,4}([\d.]+) ?[KMGT]i?B"),
    ("memory", 1, (r"(?:\bram|host[_ ]?mem\w{0,20}|cpu[_ ]?(?:virtual[_ ])?(?:mem\w{0,20}|ram)|memory[_ ]percent|"
                   r"proc\.memory\.\w{1,40})\b[^\d\n]{1,20}([\d.]+)")),
)  # fmt: skip
_POINTS = 4
_LOOKS = 24
_GROWTH = 1.1
_LONG = 1000


def in_log(case: Case) -> Iterator[Sign]:
    """Host memory that rises from line to line, then an end that memory explains; or a kill after a long healthy run."""
    end = next(ends(case), None)
    rising = _rising(case, end.line.order if end else None)
    if rising is not None:
        name, first, last, before, after = rising
        says = f"host {name} went from {before:g} to {after:g}"
        quotes = (evidence(first), evidence(last)) + ((evidence(end.line),) if end else ())
        if end is not None:
            yield Sign("decisive", f"{says}, then: {end.says}", quotes, order=first.order)
        elif _while_training(case, first, last):
            yield Sign("strong", f"{says} while training went on", quotes, fatal=False, order=first.order)
        else:
            yield Sign("weak", says, quotes, fatal=False, order=first.order)
    elif (traced := _traced(case)) is not None:
        first, last = traced
        says = "tracemalloc shows more memory at the same line of the program each time"
        yield Sign("strong", says, (evidence(first), evidence(last)), order=first.order)
    elif end is not None and (case.log.progress.step or 0) >= _LONG:
        says = f"it ran for {case.log.progress.step} steps before host memory ran out"
        yield Sign("weak", says, (evidence(end.line),), order=end.line.order)


def _rising(case: Case, until: int | None) -> tuple[str, Line, Line, float, float] | None:
    lines = [
        line
        for line in case.log.index.saying(("mem", "rss", "ram"))
        if (until is None or line.order < until) and _is_of_host(line)
    ]
    for name, direction, pattern in _SERIES:
        points: list[tuple[Line, float]] = []
        for line in lines:
            value = _value(line, pattern)
            if value is not None:
                points.append((line, value))
        if len(points) >= _POINTS and _steady([value for _, value in points], direction):
            (first, before), (last, after) = points[0], points[-1]
            return name, first, last, before, after
    return None


def _traced(case: Case) -> tuple[Line, Line] | None:
    """The first and last report of a place whose size only grows."""
    places: dict[str, list[tuple[float, Line]]] = {}
    for line in case.log.index.saying(("size=",)):
        if match := compiled(_TRACED).search(line.text):
            size = to_float(match[2], 0.0) * _UNIT.get(match[3], 1.0)
            places.setdefault(match[1], []).append((size, line))
    for seen in places.values():
        sizes = [size for size, _ in seen]
        if len(set(sizes)) >= _POINTS - 1 and sizes == sorted(sizes) and sizes[-1] > 2 * sizes[0]:
            return seen[0][1], seen[-1][1]
    return None


def _is_of_host(line: Line) -> bool:
    lowered = line.lowered
    if compiled(_DEVICE).search(lowered):
        return False
    return lowered.lstrip().startswith("mem:") or compiled(_HOST).search(lowered) is not None


def _value(line: Line, pattern: str) -> float | None:
    match = compiled(pattern).search(line.text)
    return to_float(match[1]) if match else None


def _steady(values: list[float], direction: int) -> bool:
    values = values[:: max(1, len(values) // _LOOKS)]  # neighbours that print the same number say nothing about the trend
    moves = [direction * (later - earlier) for earlier, later in itertools.pairwise(values)]
    if sum(move > 0 for move in moves) < 0.8 * len(moves) or values[0] <= 0:
        return False
    return direction < 0 or values[-1] >= _GROWTH * values[0]


def _while_training(case: Case, first: Line, last: Line) -> bool:
    """Steps are reported between the first and the last number, so that it is not the start-up that fills memory."""
    between = [
        metric
        for metric in case.log.metrics
        if first.order < metric.line.order < last.order and "loss" in metric.line.lowered
    ]
    return len(between) >= _POINTS - 1


def in_recorder(case: Case) -> Iterator[Sign]:
    """A process whose memory climbed through the training until memory ended it, or until somebody killed it."""
    leader = first(case)
    if leader is None or by_us(case, leader.time):
        return
    by_memory = ended_by_memory(case, leader) or leader.says(REFUSED)
    rose = leaked(case, leader) if by_memory or leader.signal == "SIGKILL" else None
    if rose is None:
        return
    guard = guard_of(case)
    says = rose.quote
    if not by_memory:
        who = f"{guard} of this job may limit its memory" if guard else "the kernel killed no process for memory"
        says += f", and then was killed by SIGKILL ({who})"
    yield Sign("decisive" if by_memory or guard else "strong", says, (rose, leader.evidence), order=order(case))


def in_code(case: Case) -> Iterator[Sign]:
    """A cache of samples that only grows, an index that every worker copies; after a death also whatever else grew."""
    yield from grown(case)
    yield from caches(case)
    yield from indexes(case)
    for fact in case.all("code.graph_kept") if not case.before else ():
        says = f"{fact.value['holder']} keeps {fact.value['kept']} together with its graph"
        yield Sign("strong", says, (fact.evidence,), fatal=False)


def fix(case: Case) -> Iterator[Fix]:
    """A bound for the cache where there is one; else words."""
    grows = edits_of(case.all("code.grows"))
    if grows:
        why = "the batches are the same; whatever was computed from the full list must be accumulated as it comes"
        yield Fix("Keep only the most recent items", "exact", why, edits=grows)
    edits = edits_of(case.all("code.sample_cache"))
    if edits:
        yield Fix(
            "Limit the size of the cache", "exact", "the oldest samples are dropped; every sample is the same", edits=edits
        )
    edits = edits_of(case.all("code.graph_kept")) if not case.before else ()
    if edits:
        yield Fix("Store the value without its graph", "exact", "the graph of each step is then freed", edits=edits)
    yield from by_hand


by_hand = (
    Fix(
        "Store the index without Python objects",
        "exact",
        "use one numpy array, tensor or Arrow table instead of lists of strings and dictionaries, so that forked workers "
        "share its pages",
    ),
    Fix(
        "Use fewer workers, so that memory lasts longer",
        "same-recipe",
        "only a workaround: each worker leaks",
        settings={"loader.workers": "half"},
    ),
)
experiment = Experiment(
    title="In one run iterate over the loader without a model, in another train on one repeated batch; record memory in both",
    start_from="the beginning",
    stop_after="as many batches as it took in the log, at least one epoch",
    confirms="one of the two grows by about the same amount per epoch: that one leaks",
    refutes="both are flat after the first epoch: not a leak, look at the peak",
)
