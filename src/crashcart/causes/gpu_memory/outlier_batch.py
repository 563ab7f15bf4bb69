"""One batch is much larger than the others and does not fit into GPU memory.

What happens: the run trains for hours, then runs out of GPU memory at a random step; when restarted, it fails at
another step.

Why: dynamic shapes. One very long sequence, an image with hundreds of boxes, a graph with a giant neighbourhood: the
memory of a step is decided by its largest sample.

How it shows: hundreds of steps passed at the same settings before it; or the stack is in work that grows with the
content of a sample (box overlaps, label assignment, pairwise costs); or the framework says that it skips single
batches. A recording has the size of the batch at hand and of the largest that passed before.

What to do: cap the length, batch by tokens instead of samples, put the largest batch first so that it fails at once,
skip and count samples above a limit. Under several ranks skip on all of them together.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from crashcart.cause import compiled, decisive, weak
from crashcart.causes.gpu_memory._numbers import (
    alive,
    capacity,
    deaths,
    epochs_before,
    gib,
    phase,
    sizes_vary,
    steps_before,
    survived,
)
from crashcart.causes.gpu_memory._recorded import signs
from crashcart.log import evidence
from crashcart.model import Experiment, Fix, Sign

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.case import Case
    from crashcart.log import Memory

title = "One batch is much larger than the others and does not fit into GPU memory"
piece = "find_batch_size"
alike = ("gpu-memory/train-step", "gpu-memory/leak")
SHARE = 0.5
MANY_STEPS = 300
MANY_EPOCHS = 2
BY_CONTENT = (
    r"bbox_overlaps|box_iou|pair_?wise|(?:^|[_.\s])(?:sim)?ota(?:$|[_.\s(])|_?assign(?:er|ments)?\b|dynamic_k|hungarian|"
    r"matcher|build_targets|mask_iou|paste_masks|copy_attn|rnnt|transducer_loss|all_pairs|neighbou?r_sampl"
)
SKIPS = r"^(?!.*(?:corrupt|overflow)).*(?:skip|batch removed)"

phrases = (
    decisive(
        "failing criterion:",
        says="the scan before training found a batch that does not fit",
        pattern=r"Failing criterion: \w*(?:longest|largest|max|single|most)",
    ),
    weak("would cause oom", "skipping batch", "batch removed", says="the program tries out batch sizes", fatal=False),
)


def in_log(case: Case) -> Iterator[Sign]:
    """Work that grows with a sample's content, a long history of steps that fitted, or batches that are skipped."""
    for memory in deaths(case):
        if phase(case, memory) in {"evaluate", "sample", "load", "save"}:
            continue
        for strength, says in _reasons(case, memory):
            yield Sign(strength, says, (evidence(memory.line),), not alive(case, memory), memory.line.order)  # type: ignore[arg-type]
    for memory in survived(case):
        near = case.log.around(memory.line, after=2)
        if any(compiled(SKIPS).search(line.text) for line in near):
            says = "some batches do not fit and are skipped; the others pass"
            yield Sign("strong", says, (evidence(memory.line),), fatal=False, order=memory.line.order)


def _reasons(case: Case, memory: Memory) -> Iterator[tuple[str, str]]:
    near = [line.text for line in case.log.around(memory.line, before=4)[:-1] if not line.text.lstrip().startswith("File")]
    if any(compiled(BY_CONTENT).search(text) for text in (*memory.functions[-4:], *near)):
        yield "decisive", "the failing operation needs memory in proportion to a sample's content (boxes, pairs, lengths)"
    steps = steps_before(case, memory)
    known = "decisive" if sizes_vary(case, memory) else "strong"
    if steps >= MANY_STEPS:
        yield known, f"{steps} steps fitted into GPU memory before this one"
    elif epochs_before(case, memory) >= MANY_EPOCHS:
        yield known, f"{epochs_before(case, memory)} epochs fitted into GPU memory before this step"
    card = capacity(memory)
    if steps and memory.tried and card and memory.tried > SHARE * card:
        yield known, f"one request asked for {gib(memory.tried)} on a GPU with {gib(card)}, after steps that fitted"


def in_recorder(case: Case) -> Iterator[Sign]:
    """The batch at hand against the largest that passed before."""
    yield from signs(case, "outlier-batch")


fixes = (
    Fix(
        "Limit the size of a sample, or batch by size",
        "changes-training",
        "truncate or leave out samples above the limit, and report how many",
        settings={"train.sequence_length": "half"},
    ),
)
experiment = Experiment(
    title="Run one pass over the data that only records the shape of each batch, then train on the largest one",
    start_from="the beginning",
    stop_after="one step on the largest batch",
    confirms="the largest batch fails at once, and smaller ones pass",
    refutes="the largest batch passes: then memory leaks, or the GPU was shared",
)
