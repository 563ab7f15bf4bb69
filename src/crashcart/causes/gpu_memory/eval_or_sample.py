"""Training fits into device memory; evaluating, sampling or logging images does not.

What happens: every few hundred steps the program evaluates, generates samples or logs images. That phase uses another
batch size, longer outputs, a second copy of a model (EMA, a whole pipeline), or keeps all logits of the evaluation set
on the device, beside the training state that stays in memory.

Why: nobody measures this phase, since it first comes long after the start. Without gradients no activations are kept,
so a larger batch alone need not be too much: ask what stays in memory when the phase begins, and what it adds.

How it shows: an out-of-memory error with ``evaluate``, ``validation``, ``sample``, ``log_images`` or ``generate`` on
the stack, or right after a line that announces the phase, though training steps passed before. A recording knows the phase
from inside the process, and what the allocator held at most in each.

What to do: smaller evaluation and sampling batch, fewer images, move results to the host as they come
(``eval_accumulation_steps``), ``torch.no_grad()``, free the training-only parts first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from crashcart.causes._joined import edits_of
from crashcart.causes.gpu_memory._numbers import alive, deaths, phase
from crashcart.causes.gpu_memory._recorded import signs
from crashcart.log import evidence
from crashcart.model import Evidence, Experiment, Fix, Sign

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.case import Case

title = "Evaluation or sampling does not fit into GPU memory, though training does"
piece = "safe_eval_batch"
alike = ("gpu-memory/train-step", "gpu-memory/outlier-batch")


def in_log(case: Case) -> Iterator[Sign]:
    """An out-of-memory error whose stack or last announced phase is evaluation or sampling."""
    for memory in deaths(case):
        doing = phase(case, memory)
        if doing in {"evaluate", "sample"}:
            says = f"the device ran out of memory in the phase '{doing}'"
            yield Sign("decisive", says, (evidence(memory.line),), not alive(case, memory), memory.line.order)
        elif doing is None and not memory.functions:
            says = "no stack and no step tells which phase it was"
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
        told = f"{fact.value['function']} evaluates without no_grad: each batch keeps its activations as in training, when it is "
        told += "larger than the training batch, or its outputs are kept, memory runs out"
        yield Sign("strong", told, (fact.evidence,))


def in_recorder(case: Case) -> Iterator[Sign]:
    """What the process itself recorded: it was evaluating or sampling."""
    yield from signs(case, "eval-or-sample")


def fix(case: Case) -> Iterator[Fix]:
    """No graph in an evaluation, where the code builds one; then a smaller batch."""
    edits = edits_of(case.all("code.eval_with_graph"), "edits")
    if edits:
        yield Fix("Evaluate without building graphs", "exact", "the same numbers; no activations are kept", edits=edits)
    yield from fixes


fixes = (
    Fix(
        "A smaller batch for evaluation and sampling",
        "same-recipe",
        "the weights see the same training; only the phase that died gets smaller",
        settings={"eval.batch_size": "quarter", "sample.batch_size": "quarter"},
    ),
)
experiment = Experiment(
    title="Resume with the phase switched off, and once more with its batch cut to a quarter",
    change={"sample.period": -1, "eval.period": -1},
    confirms="without the phase it passes the step of death and the next step where the same work meets; with it, it dies",
    refutes="it dies without the phase too, or a control run with the old settings passes",
)
