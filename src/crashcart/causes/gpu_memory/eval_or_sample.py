"""Training fits into GPU memory, but evaluating, sampling or logging images does not.

What happens: every few hundred steps the program evaluates, generates samples or logs images. That phase uses another
batch size, longer outputs, a second copy of a model (EMA, a whole pipeline), or keeps all logits of the evaluation set
on the device, while the training state stays in memory.

Why: this phase first runs long after the start, so nobody measures its memory. Without gradients no activations are kept,
so a larger batch alone may still fit: check what stays in memory when the phase begins, and what it adds.

How it shows: an out-of-memory error with ``evaluate``, ``validation``, ``sample``, ``log_images`` or ``generate`` on
the stack, or right after a line that announces the phase, after training steps that passed. A recording has the phase
from inside the process, and the peak memory of each phase.

What to do: use a smaller evaluation and sampling batch and fewer images, move results to the CPU as they are produced
(``eval_accumulation_steps``), use ``torch.no_grad()``, and free what only training needs first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from crashcart.causes._joined import edits_of
from crashcart.causes.gpu_memory._numbers import alive, deaths, phase
from crashcart.causes.gpu_memory._recorded import signs
from crashcart.flight import during
from crashcart.log import evidence
from crashcart.model import Evidence, Experiment, Fix, Sign

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.case import Case

title = "Evaluation or sampling runs out of GPU memory, although training fits"
piece = "safe_eval_batch"
alike = ("gpu-memory/train-step", "gpu-memory/outlier-batch")


def in_log(case: Case) -> Iterator[Sign]:
    """An out-of-memory error whose stack or last announced phase is evaluation or sampling."""
    for memory in deaths(case):
        doing = phase(case, memory)
        if doing in {"evaluate", "sample"}:
            says = f"the GPU ran out of memory {during(doing)}"
            yield Sign("decisive", says, (evidence(memory.line),), not alive(case, memory), memory.line.order)
        elif doing is None and not memory.functions:
            says = "neither a stack nor a step line shows which phase it was"
            yield Sign("weak", says, (evidence(memory.line),), not alive(case, memory), memory.line.order)


def in_config(case: Case) -> Iterator[Sign]:
    """A batch for evaluation or sampling that is larger than the one for training."""
    train = case.number("train.batch_size")
    for name in ("eval.batch_size", "sample.batch_size"):
        other = case.number(name)
        if train and other and other > train:
            says = f"{name} is {other:g}, {other / train:g} times the training batch of {train:g}"
            items: tuple[Evidence, ...] = (case.facts[name].evidence, case.facts["train.batch_size"].evidence)
            yield Sign("weak", says, items, fatal=False)


def in_code(case: Case) -> Iterator[Sign]:
    """An evaluation that builds graphs as training does."""
    for fact in case.all("code.eval_with_graph"):
        says = f"{fact.value['function']} evaluates without no_grad, so each batch keeps its activations as in training. If it is "
        says += "larger than the training batch, or its outputs are kept, memory runs out"
        yield Sign("strong", says, (fact.evidence,))


def in_recorder(case: Case) -> Iterator[Sign]:
    """What the process itself recorded: it was evaluating or sampling."""
    yield from signs(case, "eval-or-sample")


def fix(case: Case) -> Iterator[Fix]:
    """No graph in an evaluation, where the code builds one; then a smaller batch."""
    edits = edits_of(case.all("code.eval_with_graph"), "edits")
    if edits:
        yield Fix(
            "Evaluate under torch.no_grad()", "exact", "the results are the same, and no activations are kept", edits=edits
        )
    yield from fixes


fixes = (
    Fix(
        "Use a smaller batch for evaluation and sampling",
        "same-recipe",
        "training is unchanged; only the phase that failed uses less memory",
        settings={"eval.batch_size": "quarter", "sample.batch_size": "quarter"},
    ),
)
experiment = Experiment(
    title="Resume once with this phase switched off, and once with a quarter of its batch",
    change={"sample.period": -1, "eval.period": -1},
    confirms="without the phase it passes the failing step and the next step with the same work; with the phase it fails",
    refutes="it also fails without the phase, or a control run with the old settings passes",
)
