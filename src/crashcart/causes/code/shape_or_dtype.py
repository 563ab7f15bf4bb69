"""Tensors have mismatched shapes, dtypes or devices.

What happens: an operation refuses its arguments, mostly in the first step or at the first odd batch.

Why: the model was built for another number of classes, channels or features than the data has; half-precision weights
meet float inputs without autocast; a tensor stayed on the CPU or on another card; a sharded or quantised weight is used
before it was gathered.

How it shows: ``mat1 and mat2 shapes cannot be multiplied``, ``must match the size of tensor b``, ``Expected all tensors
to be on the same device``, ``expected scalar type Half but found Float``. The same words inside a loader's worker are
about samples (data/shape), and ``size mismatch for layer.weight`` is about a checkpoint.

What to do: print shapes, dtypes and devices of the arguments at the innermost frame of your own; compare the
configuration's sizes with the data's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from crashcart.cause import Stack, compiled, decisive, strong
from crashcart.causes._joined import edits_of
from crashcart.causes._last_batch import smaller_last_batch
from crashcart.log import evidence
from crashcart.model import Experiment, Fix, Sign

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.case import Case
    from crashcart.log import Raised

title = "Tensors have mismatched shapes, dtypes or devices"
alike = ("code/version", "data/shape")
_NOT = r"Warning:|DataLoader worker|size mismatch for|copying a param|checkpoint"
phrases = (
    decisive(
        "shapes cannot be multiplied", "expected all tensors to be on the same device", "must have the same dtype",
        "to have the same dtype",
        "expected object of backend", "expected object of device type", "expected object of scalar type",
        "expected object of type",
        "expected tensor for argument", "placeholder storage has not been allocated on mps",
        "but found one of them on device",
        says="the arguments of an operation do not match", unless=_NOT,
    ),
    decisive("expected scalar type", pattern=r"expected scalar type \w+ but (?:found|got)", says="dtypes do not match",
             unless=_NOT),
    decisive("weight type (", "bias type (", pattern=r"(?:input|weight|bias) type .{0,200} should be the same",
             says="dtypes or devices do not match", unless=_NOT),
    strong(
        "must match the size of tensor", "sizes of tensors must match", "must match the existing size",
        "is invalid for input of size",
        "to match target batch_size", "is not compatible with input tensor's size", "size mismatch, m1:",
        "size mismatch, got",
        "shapes cannot be broadcast", "operands could not be broadcast", "not aligned:", "must be equal to or broadcast",
        "output with shape", "does not match the broadcast shape", "inconsistent tensor size", "shape mismatch",
        "dimension out of range",
        "expected size for first two dimensions of batch2", "batch1 and batch2 must have same",
        "can't be cast to the desired output type",
        "dimension mismatch", "mismatched shape", "does not match the shape of the indexed tensor", "unmatched size",
        "has invalid shape",
        "mismatch in shape", "cannot be broadcast to", "doesn't match the broadcast shape", "shapes cannot be",
        "must have the same shape",
        "dtypes match, got", "same number of dimensions", "only support fp16 and bf16", "not on the expected device",
        "kernel size can't be greater", "must have same number of", "incompatible dimensions", "incompatible shapes",
        pattern=r"(?:Error|Exception|Assert)\w{0,60}\b.{0,200}:|^\s{0,20}(?:The size|Sizes of|shape ')", says="shapes do not match", unless=_NOT,
    ),
    strong("expected hidden", "size, got", " got [", "expects input to have", "expected input to have", "expected input batch",
           says="an input has a different size than the layer expects", unless=_NOT,
           pattern=r"(?i)expect(?:ed|s) .{0,80}\bsizes? .{0,60}\bgot\b|expect(?:ed|s) .{0,120}\bgot (?:\[|\(|torch\.Size)"),
    strong("channels, but got", "given groups=", "-dimensional input for", "expected input with shape",
           "expected 3d or 4d", "expected 4d (unbatched)",
           "but got 3-dimensional", "target size (torch", "input of size", "dimensional weight", "dim (batched)",
           pattern=r"expected .{0,200}(?:channels|dimension|input|shape)|target size|different (?:to|from) the input size",
           says="an input has a different shape than the layer expects", unless=_NOT),
    strong("found dtype", "dtype mismatch", "same dtype", "expected dtype", "to have dtype", "got dtype",
           "not implemented for 'long'", "not implemented for 'int'",
           "not implemented for 'bool'", "not implemented for 'double'", "without overflow", "on the same device",
           "different from other tensors on",
           "indices should be either on", "can't convert cuda", "cuda:0 device type tensor to numpy",
           "should be the same device",
           pattern=r"Error\b|Assertion", says="dtypes or devices do not match", unless=_NOT),
)  # fmt: skip
SHAPES = r"size|shape|dtype|scalar type|device|dimension"
stacks = (
    Stack(
        r"torch/nn/functional\.py:(?:linear|conv\w*|cross_entropy|nll_loss|mse_loss|layer_norm|batch_norm|embedding|multi_head_attention_forward|scaled_dot_product\w*|interpolate|l1_loss|binary_cross_entropy\w*)$|nn/modules/(?:linear|conv|normalization|batchnorm|loss)\.py:",
        "the traceback ends in a layer or loss, where shapes and dtypes must match",
    ),
)


def in_log(case: Case) -> Iterator[Sign]:
    """The same words inside a loader's worker are about samples, not about the model."""
    for raised in case.log.raised:
        if (
            raised.worker
            and _loads(raised)
            and raised.kind in {"RuntimeError", "ValueError"}
            and compiled(SHAPES).search(raised.message[:300])
        ):
            says = "it was raised in a loader's worker, on a sample"
            yield Sign("against", says, (evidence(raised.line),), order=raised.line.order)
            return


def _loads(raised: Raised) -> bool:
    """Whether the process prepared batches: a program's own child process may well run the model."""
    return (
        compiled(r"DataLoader worker|torch/utils/data/|Original Traceback").search(f"{raised.message} {raised.stack()}")
        is not None
    )


def in_code(case: Case) -> Iterator[Sign]:
    """The loader whose last batch is smaller than the size that the program counts on."""
    found = None if case.before else smaller_last_batch(case)
    if found is not None:
        loader, samples = found
        says = f"this loader's batches have {loader.batch} samples and the last one may have {samples}, but the program expects {loader.batch}"
        yield Sign("strong", says, loader.evidence[:1])


def fix(case: Case) -> Iterator[Fix]:
    """Leave out the last batch where it is the one that does not fit; else words."""
    found = None if case.before else smaller_last_batch(case)
    if found is not None and (edits := edits_of([found[0].fact], "drop_last_edits")):
        is_training = found[0].fact.value["for"] == "train"
        why = "alternatively use the size of the batch, `len(batch)`, where the program uses the fixed number"
        if not is_training:
            why = f"evaluation then skips up to {(found[0].batch or 1) - 1} samples; {why}"
        yield Fix("Drop an incomplete last batch", "same-recipe" if is_training else "exact", why, edits=edits)
    yield from fixes


fixes = (
    Fix(
        "Make the shapes, dtypes or devices match",
        "by-hand",
        "print shape, dtype and device of both arguments before the line in the traceback; the number that does "
        "not match is "
        "usually a class count, channel count or hidden size in the configuration",
    ),
)
experiment = Experiment(
    title="Run one batch on one process with CUDA_LAUNCH_BLOCKING=1 and print both arguments before the failing line",
    start_from="the beginning",
    stop_after="the failing batch",
    confirms="the printed shapes, types or devices differ as the message says, for every batch (model) or for one (data)",
    refutes="it passes on one process: then sharding, DataParallel or quantisation changes the tensor",
)
