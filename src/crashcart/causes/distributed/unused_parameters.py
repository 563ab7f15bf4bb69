"""DDP waits for gradients that never arrive, or arrive twice.

What happens: the second step raises in ``prepare_for_forward`` or ``_rebuild_buckets``, or backward raises at once.

Why: parameters that take no part in the loss (a frozen branch, a head that this batch does not use, a layer that
``forward`` never calls); or parameters that are used twice in one backward (reentrant activation checkpointing, shared
weights, two forwards before one backward).

How it shows: ``Expected to have finished reduction in the prior iteration`` with the indices of the parameters, or
``Expected to mark a variable ready only once`` with the name of one.

What to do: unused: freeze with ``requires_grad_(False)`` before wrapping, or let every output take part in the loss, or
``find_unused_parameters=True`` (slower). Twice: ``use_reentrant=False`` in checkpointing, or ``static_graph=True``.
Passing ``find_unused_parameters=True`` makes the second kind worse.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from crashcart.cause import Stack, decisive, strong
from crashcart.causes._joined import edits_of
from crashcart.model import Experiment, Fix

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.case import Case

title = "DDP: some parameters got no gradient, or got it twice"
alike = ("code/autograd", "distributed/desync")
TWICE = ("ready only once", "marked as ready twice", "computed twice for this partition", "already been reduced")
phrases = (
    decisive(
        "have finished reduction in the prior iteration", "module has parameters that were not used in producing",
        says="some parameters got no gradient in the previous step",
    ),
    decisive("which did not receive grad for rank", says="the reducer lists the parameters that got no gradient"),
    decisive(
        "mark a variable ready only once", "marked as ready twice", "gradient computed twice for this partition",
        says="a parameter got its gradient twice in one step",
    ),
    strong("finished reduction in the prior", "parameters that were not used in producing",
           says="some parameters got no gradient"),
)  # fmt: skip
stacks = (
    Stack(
        r"nn/parallel/distributed\.py:(?:_rebuild_buckets|_pre_forward)",
        "the traceback ends where DDP prepares its reduction",
    ),
)


def fix(case: Case) -> Iterator[Fix]:
    """Unused and twice-used parameters want opposite remedies."""
    if case.log.index.saying(TWICE):
        yield Fix(
            "Checkpoint without reentrance",
            "exact",
            "`checkpoint(..., use_reentrant=False)`, HF: gradient_checkpointing_kwargs={'use_reentrant': False}; "
            "find_unused_parameters "
            "must be off; static_graph=True where the graph never changes",
            settings={"distributed.unused_parameters": False},
        )
        return
    edits = edits_of([fact for fact in case.all("code.ddp") if not fact.value["finds_unused"]], "edits")
    if edits:
        why = "the gradients are the same; DDP searches the graph in every step, so freezing unused parameters is faster"
        yield Fix("Let DDP find unused parameters", "exact", why, edits=edits)
    yield Fix(
        "Freeze unused parameters, or let DDP find them",
        "exact",
        "requires_grad_(False) before wrapping costs nothing; find_unused_parameters=True searches the graph in every step",
        settings={"distributed.unused_parameters": True},
    )


experiment = Experiment(
    title="Run three steps with TORCH_DISTRIBUTED_DEBUG=DETAIL, which names the parameters",
    change={"environment": {"TORCH_DISTRIBUTED_DEBUG": "DETAIL"}},
    start_from="the beginning",
    stop_after="three steps",
    confirms="the parameters it names belong to a branch that this batch does not use, or that is used twice",
    refutes="one process without DDP fails as well: then the error is in the model",
)
