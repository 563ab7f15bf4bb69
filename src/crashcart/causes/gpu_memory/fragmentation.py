"""PyTorch has enough free memory, but not in one block.

What happens: the allocator has reserved much more than is in use, but has no free block large enough for the next tensor.

Why: sizes that change from step to step (dynamic shapes, variable sequence lengths, evaluation between training steps)
leave gaps in the segments.

How it shows: ``reserved but unallocated`` (or reserved minus allocated) is larger than the failed request and a large
part of the GPU's memory. The sentence "If reserved but unallocated memory is large try setting ..." is printed almost
always, so look at the numbers. A recording has them from the allocator itself.

What to do: set ``PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True``, pad to a few fixed lengths, run the largest batch first.
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

title = "GPU memory is fragmented: enough is free, but not in one block"
alike = ("gpu-memory/train-step", "gpu-memory/outlier-batch")
SHARE = 0.12


def in_log(case: Case) -> Iterator[Sign]:
    """What lies idle in the pool, against what was asked for and what the card has."""
    for memory in deaths(case):
        idle = idle_in_pool(memory)
        if idle is None or memory.tried is None:
            continue
        says = f"{gib(max(0, idle))} are reserved by PyTorch but unused, and {gib(memory.tried)} did not fit"
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
        "Use expandable segments in PyTorch's allocator",
        "exact",
        "expandable segments avoid the gaps; results stay bit-identical",
        environment={"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"},
    ),
)
experiment = Experiment(
    title="Run past the failing step with expandable segments, and once without as a control",
    change={"environment": {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}},
    confirms="only the run with expandable segments passes, and reserved minus allocated stays small in it",
    refutes="both fail with nearly the same allocated bytes: then the step is simply too large",
)
