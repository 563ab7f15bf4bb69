"""GPU memory grows with every step until it is full.

What happens: the same batch size that worked for thousands of steps no longer fits.

Why: something keeps tensors alive: ``total_loss += loss`` without ``.item()`` keeps each step's graph, a list of
outputs or losses, a cache on the device, ``retain_graph=True``, hooks that store activations.

How it shows: the memory column of the log rises steadily; the error comes late, in an ordinary training step, with most
of the card allocated by this process. A recording has what was allocated each second.

What to do: call ``.detach()`` or ``.item()`` on whatever is kept across steps; compare the memory snapshots of two
steps.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from crashcart.cause import compiled
from crashcart.causes._joined import edits_of
from crashcart.causes.gpu_memory._numbers import deaths
from crashcart.causes.gpu_memory._recorded import signs
from crashcart.log import evidence
from crashcart.model import Experiment, Fix, Sign
from crashcart.numbers import to_float

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.case import Case
    from crashcart.log import Line

title = "GPU memory leak: usage grows with every step"
alike = ("gpu-memory/train-step", "gpu-memory/outlier-batch")
GROWTH = 1.15
EVEN = 1.5
FEWEST = 3
MANY = 8
# A column of a step line, a column of a table ("38/299  15.3G"), or a line of its own ("nvidia-smi GPU-0 memory (MB) 2796").
COLUMN = (
    r"(?P<name>(?:gpu|cuda|max|peak|vram)?[ _]?mem(?:ory)?(?:[ _](?:allocated|reserved|usage|"
    r"used))?(?: \(\w+\))?|allocated)\W{1,3}(?P<value>\d+(?:\.\d+)?)"
)
TABLE = r"^\s*\d+/\d+\s+(?P<value>\d+(?:\.\d+)?)G\b(?P<name>)"
DEVICE = r"gpu|cuda|vram|allocated.{0,200}reserved|nvidia|hip|\bmem(?:ory)?:|\d/\d{1,20}\s{1,20}[\d.]{1,24}G"


def in_log(case: Case) -> Iterator[Sign]:
    """A memory column that rises through the run: until the device was full, or evenly from step to step."""
    death = next(deaths(case), None)
    end = death.line.order if death else None
    for name, series in _columns(case, end).items():
        if len(series) < FEWEST:
            continue
        (first, low), (last, high) = series[0], series[-1]
        seen = (evidence(first), evidence(last))
        if death is not None and _rises([value for _, value in series]):
            says = f"{name} rose from {low:g} to {high:g} before the GPU was full"
            yield Sign("decisive", says, (*seen, evidence(death.line)), order=death.line.order)
        elif death is None and _even([value for _, value in series]):
            says = f"{name} rises by the same amount in every line, from {low:g} to {high:g}"
            yield Sign("strong", says, seen, fatal=False, order=first.order)
        elif death is None and len(series) >= MANY and _never_falls([value for _, value in series]):
            says = f"{name} never falls: it goes from {low:g} to {high:g}"
            yield Sign("weak", says, seen, fatal=False, order=first.order)


def _columns(case: Case, end: int | None) -> dict[str, list[tuple[Line, float]]]:
    columns: dict[str, list[tuple[Line, float]]] = {}
    for line in case.log.lines:
        if ("mem" not in line.lowered and "/" not in line.text) or (end is not None and line.order >= end):
            continue
        match = compiled(TABLE).match(line.text) or compiled(COLUMN).search(line.text)
        if match and compiled(DEVICE).search(line.text) and "host" not in line.lowered:
            # Numbers before the value belong to the name: GPU-0 and GPU-1 are two columns.
            name = (match["name"] or "the memory column").strip().lower()
            device = compiled(r"(?:gpu|cuda)[-: #]?(\d+)").search(line.text)
            columns.setdefault(f"{name} of gpu {device[1]}" if device else name, []).append(
                (line, to_float(match["value"], 0.0))
            )
    return columns


def _rises(values: list[float]) -> bool:
    """More ups than downs, and in the end clearly more; a maximum so far that rises a little at the start is none."""
    steps = list(pairwise(values))
    ups = sum(later > earlier for earlier, later in steps)
    late = values[len(values) // 2 :]
    return ups >= 0.7 * len(steps) and values[-1] > GROWTH * values[0] > 0 and late[-1] > late[0]


def _even(values: list[float]) -> bool:
    steps = [later - earlier for earlier, later in pairwise(values)]
    return min(steps) > 0 and max(steps) <= EVEN * min(steps)


def _never_falls(values: list[float]) -> bool:
    """A rise through all of the run: also its second half rises."""
    return values == sorted(values) and values[-1] > values[len(values) // 2] > values[0]


def in_code(case: Case) -> Iterator[Sign]:
    """A loss that is kept over the steps with its graph."""
    for fact in case.all("code.graph_kept"):
        says = f"{fact.value['holder']} keeps {fact.value['kept']} of every step, including its graph, so memory grows"
        yield Sign("strong", says, (fact.evidence,))


def in_recorder(case: Case) -> Iterator[Sign]:
    """Allocated memory that rose through the training, as it was seen each second."""
    yield from signs(case, "leak")


def fix(case: Case) -> Iterator[Fix]:
    """Cut off what the code keeps; else say how."""
    edits = edits_of(case.all("code.graph_kept"), "edits")
    if edits:
        yield Fix(
            "Store the value without its graph",
            "exact",
            "the value is the same, and the graph of each step can be freed",
            edits=edits,
        )
    yield from fixes


fixes = (
    Fix(
        "Detach what is kept across steps",
        "exact",
        "`losses.append(loss.item())` instead of `losses.append(loss)`; clear lists of outputs at the end of each phase",
    ),
)
experiment = Experiment(
    title="Train 200 steps on one repeated batch and print torch.cuda.memory_allocated() every 20 steps",
    start_from="the beginning",
    stop_after="200 steps",
    confirms="allocated memory rises by about the same amount each time",
    refutes="it is flat after the second step",
)
