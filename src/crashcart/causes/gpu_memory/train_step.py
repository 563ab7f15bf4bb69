"""The training step itself needs more memory than the GPU has.

What happens: forward, backward or the optimizer asks for memory that the GPU does not have, mostly in the first steps,
because the optimizer's state only exists from the second step on.

Why: activations grow with micro-batch and sequence length (attention: with its square), optimizer state with the
parameters (Adam: twice the weights, in float32). Logits of a large vocabulary are often the single largest tensor.

How it shows: ``CUDA out of memory. Tried to allocate ...`` with a stack in forward, backward or ``optimizer.step``. The
hint about fragmentation at the end of the message is printed almost always and means nothing by itself. A recording shows
that it was not another phase, another process, growing memory or a larger batch.

What to do: halve the micro-batch and double the accumulation (the same global batch), switch on activation
checkpointing, shorten sequences, shard optimizer state (ZeRO, FSDP). ``empty_cache()`` in the loop does not help.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from crashcart.causes.gpu_memory._numbers import alive, deaths, gib, phase, survived
from crashcart.causes.gpu_memory._recorded import signs
from crashcart.flight import during
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
        told = f"; it asked for {gib(memory.tried)} more" if memory.tried else ""
        doing = phase(case, memory)
        when = f" {during(doing)}" if doing else ""
        says = f"the GPU ran out of memory{when}{told}"
        yield Sign("decisive", says, (evidence(memory.line),), not alive(case, memory), memory.line.order)
    for memory in survived(case):
        says = "the GPU ran out of memory, but the program continued"
        yield Sign("weak", says, (evidence(memory.line),), fatal=False, order=memory.line.order, survived=True)


def in_recorder(case: Case) -> Iterator[Sign]:
    """An allocation failed in the training itself, and nothing else explains it."""
    yield from signs(case, "train-step")


fixes = (
    Fix(
        "Halve the micro-batch and double gradient accumulation",
        "changes-training",
        "the global batch stays the same and activations take about half the memory; batch norm and per-batch losses see smaller batches",
        settings={"train.batch_size": "half", "train.accumulation": "double"},
    ),
    Fix(
        "Turn on gradient checkpointing",
        "exact",
        "it recomputes activations in the backward pass: about a third slower, but most of the activation memory is saved",
        arguments={"--gradient_checkpointing": "true"},
    ),
)
experiment = Experiment(
    title="Run 20 steps with half the micro-batch and twice the gradient accumulation",
    change={"train.batch_size": "half", "train.accumulation": "double"},
    start_from="the beginning",
    stop_after="20 optimizer steps (the optimizer's state exists from the second one on)",
    confirms="it passes the failing step, and peak memory falls by the activations of half a batch",
    refutes="it fails at the same step with nearly the same peak: then the batch is not the reason (weights, leak, another process)",
)
