"""PyTorch holds enough free memory, but not in one piece.

What happens: the allocator has reserved much more than is in use, and still finds no block for the next tensor.

Why: sizes that change from step to step (dynamic shapes, variable sequence lengths, evaluation between training steps)
leave holes in the segments.

How it shows: ``reserved but unallocated`` (or reserved minus allocated) is larger than what was asked for and a good
part of the card. The sentence "If reserved but unallocated memory is large try setting ..." is printed almost always:
weigh the numbers. A recording has them from the allocator itself.

What to do: ``PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True``, sizes padded to few lengths, the largest batch first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from crashcart.causes.gpu_memory._numbers import alive, capacity, deaths, gib, idle_in_pool
from crashcart.causes.gpu_memory._recorded import signs
from crashcart.log import evidence
from crashcart.model import Experiment, Fix, Sign

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.case import Case

title = "GPU memory is fragmented: enough is reserved, but not in one piece"
alike = ("gpu-memory/train-step", "gpu-memory/outlier-batch")
SHARE = 0.12


def in_log(case: Case) -> Iterator[Sign]:
    """What lies idle in the pool, against what was asked for and what the card has."""
    for memory in deaths(case):
        idle = idle_in_pool(memory)
        if idle is None or memory.tried is None:
            continue
        says = f"{gib(max(0, idle))} lie idle in PyTorch's pool while {gib(memory.tried)} were asked for"
        card = capacity(memory)
        if card and 1.3 * memory.tried < idle < card and idle > SHARE * card:
            yield Sign("decisive", says, (evidence(memory.line),), not alive(case, memory), memory.line.order)
        elif idle < memory.tried:
            yield Sign("against", says, (evidence(memory.line),), not alive(case, memory), memory.line.order)


def in_recorder(case: Case) -> Iterator[Sign]:
    """What lay idle in the pool when an allocation failed."""
    yield from signs(case, "fragmentation")


fixes = (
    Fix(
        "Let the allocator grow its segments",
        "exact",
        "expandable segments avoid the holes; the training stays the same to the bit",
        environment={"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"},
    ),
)
experiment = Experiment(
    title="Run past the step of death with expandable segments, beside a control without",
    change={"environment": {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}},
    confirms="only the run with expandable segments passes, and reserved minus allocated stays small in it",
    refutes="both die with nearly the same allocated bytes: then the step is simply too large",
)
