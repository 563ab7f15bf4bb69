"""backward() failed because the autograd graph lacks something it needs.

What happens: ``backward()`` raises, mostly in the first step; or no gradient reaches what should learn.

Why: a tensor that backward needs was changed in place (``+=``, ``relu_``, an optimizer step between two backwards on one
graph); the same graph was walked twice; the loss is detached from the parameters (``no_grad``, ``.item()``, all frozen);
recomputation in activation checkpointing gave other tensors than the first pass.

How it shows: ``modified by an inplace operation``, ``backward through the graph a second time``, ``does not require
grad``, ``Recomputed values ... have different metadata``.

What to do: ``torch.autograd.set_detect_anomaly(True)`` names the forward line; write ``x = x + y``; do all backwards
before the first step; with frozen inputs call ``enable_input_require_grads()``; ``preserve_rng_state=True`` and no
data-dependent branches in checkpointed blocks.
"""

from __future__ import annotations

from crashcart.cause import Stack, decisive, strong
from crashcart.model import Experiment, Fix

title = "backward() failed: the autograd graph lacks something it needs"
alike = ("code/bug", "code/version")
phrases = (
    decisive(
        "modified by an inplace operation", "backward through the graph a second time",
        "does not require grad and does not have a grad_fn",
        "of variables does not require grad", "graph a second time", "grad can be implicitly created only for scalar",
        "leaf variable that requires grad", "being used in an in-place operation", "been used in an in-place operation",
        "numpy() on tensor that requires grad", "numpy() on variable that requires grad",
        "appears to not have been used in the graph",
        "inference tensors cannot be saved for backward", "inplace update to inference tensor",
        "is a view and is being modified inplace", "can require gradients",
        "rnn backward can only be called in training mode",
        "returned an invalid gradient at index", "a view was created in no_grad mode",
        "returned an incorrect number of gradients",
        says="autograd raised an error",
        unless=r"UserWarning",
    ),
    decisive(
        "have different metadata than during the forward", "was saved during the original forward and recomputation",
        "number of tensors was saved during the original forward", "checkpointing is not compatible with .grad()",
        "recomputed values for the following tensors",
        says="activation checkpointing computed different tensors the second time",
    ),
    strong("variable._execution_engine", "does not require grad", pattern=r"Error.{0,200}does not require grad",
           says="the loss has no gradient"),
)  # fmt: skip
stacks = (
    Stack(
        r"autograd/(?:__init__|graph)\.py:(?:backward|grad|_engine_run_backward)$|torch/_tensor\.py:backward|utils/checkpoint\.py:",
        "the traceback ends in the backward pass",
    ),
)


fixes = (
    Fix(
        "Find the line with anomaly mode",
        "by-hand",
        "use torch.autograd.set_detect_anomaly(True) for one step; then replace the in-place operation, add the losses "
        "up before one "
        "backward, or find where the graph is cut (`no_grad`, `.detach()`, frozen inputs)",
    ),
)
experiment = Experiment(
    title="Run one step on one process under torch.autograd.set_detect_anomaly(True)",
    start_from="the beginning",
    stop_after="one step",
    confirms="the forward line that it names changes a tensor in place, is used by two backwards, or runs under no_grad",
    refutes="one process passes: then look at what several ranks or the wrapper (DDP, ZeRO-3) do differently",
)
