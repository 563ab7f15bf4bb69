"""The training step itself needs more device memory than the card has.

What happens: forward, backward or the optimizer asks for memory that the card cannot give, mostly in the first steps,
since the optimizer's state is only there from the second step on.

Why: activations grow with micro-batch and sequence length (attention: with its square), optimizer state with the
parameters (Adam: twice the weights, in float32). Logits of a large vocabulary are often the single largest tensor.

How it shows: ``CUDA out of memory. Tried to allocate ...`` with a stack in forward, backward or ``optimizer.step``. The
hint about fragmentation at the end of the message is printed almost always and means nothing by itself. A recording tells that
it was no other phase, no other process, no growth and no larger batch.

What to do: halve the micro-batch and double the accumulation (the same global batch), switch on activation
checkpointing, shorten sequences, shard optimizer state (ZeRO, FSDP). ``empty_cache()`` in the loop does not help.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from crashcart.causes.gpu_memory._numbers import alive, deaths, gib, phase, survived
from crashcart.causes.gpu_memory._recorded import signs
from crashcart.log import evidence
from crashcart.model import Experiment, Fix, Sign

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.case import Case

title = "The training step does not fit into GPU memory"
piece = "find_batch_size"
breadth = 1
alike = ("gpu-memory/eval-or-sample", "gpu-memory/outlier-batch", "gpu-memory/other-process")


def in_log(case: Case) -> Iterator[Sign]:
    """Any device out-of-memory that the program did not get over: what remains of this family."""
    for memory in deaths(case):
        told = f", {gib(memory.tried)} more were asked for" if memory.tried else ""
        doing = phase(case, memory)
        when = f" while the phase was {doing}" if doing else ""
        says = f"the device ran out of memory{when}{told}"
        yield Sign("decisive", says, (evidence(memory.line),), not alive(case, memory), memory.line.order)
    for memory in survived(case):
        says = "the device ran out of memory, and the program went on"
        yield Sign("weak", says, (evidence(memory.line),), fatal=False, order=memory.line.order, survived=True)


def in_recorder(case: Case) -> Iterator[Sign]:
    """An allocation failed in the training itself, and nothing else explains it."""
    yield from signs(case, "train-step")


fixes = (
    Fix(
        "Half the micro-batch, twice the accumulation",
        "changes-training",
        "the same global batch with about half the activations; batch norm and per-batch losses see smaller batches",
        settings={"train.batch_size": "half", "train.accumulation": "double"},
    ),
    Fix(
        "Recompute activations in the backward pass",
        "exact",
        "gradient checkpointing trades about a third more time for most of the activation memory",
        arguments={"--gradient_checkpointing": "true"},
    ),
)
experiment = Experiment(
    title="Run 20 steps with half the micro-batch and twice the accumulation",
    change={"train.batch_size": "half", "train.accumulation": "double"},
    start_from="the beginning",
    stop_after="20 optimizer steps, since the optimizer's state is there from the second on",
    confirms="it passes the step where it died, and the allocator's peak falls by the activations of half a batch",
    refutes="it dies at the same step with nearly the same peak: then it is not the batch (weights, leak, other process)",
)
