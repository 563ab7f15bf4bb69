"""The checkpoint is complete but does not match: keys, shapes, optimizer groups, parallel layout, or what pickle may load.

What happens: loading compares what was saved with what is there now, and they differ.

Why: another number of classes or vocabulary, a wrapper's prefix (``module.``, ``_orig_mod.``, ``base_model.``), a frozen
part that was not frozen then, ZeRO or FSDP state of another world size, the dictionary of a whole training given as weights;
torch 2.6 loads only weights by default (``weights_only=True``) and refuses other classes; a class was moved or renamed
since.

How it shows: ``Error(s) in loading state_dict``, ``size mismatch for``, ``parameter group that doesn't match the size of
optimizer's group``, ``Weights only load failed``, ``used a DP world size of 4 but the current world size is 6``,
``Attempting to deserialize object on a CUDA device``.

What to do: load with the code and settings that saved it; rename prefixes; load weights without optimizer for a new task;
convert a sharded checkpoint to a universal one. ``strict=False`` hides the difference: read what it returns.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from crashcart.cause import Stack, compiled, decisive, strong, weak
from crashcart.causes.checkpoint._where import LOADING, no_pickle
from crashcart.log import evidence
from crashcart.model import Experiment, Fix, Sign

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.case import Case

title = "The checkpoint does not match the model, optimizer or library version"
alike = ("checkpoint/corrupt", "code/version")

CUT = (
    r" (?:_load_rng_state|_load_optimizer_and_scheduler|_load_from_checkpoint|load_state_dict|_load_from_state_dict|"
    r"set_state_dict|"
    r"_load_state_dict_into_model|_load_pretrained_model|restore_(?:training_state|optimizers|callbacks|loops|model|"
    r"checkpoint\w*)|"
    r"load_optimizer\w*|_load_zero_checkpoint|load_checkpoint_state|_restore_\w+|load_sharded_\w+|"
    r"_load_callback_state)(?: |$)"
)

phrases = (
    decisive(
        "error(s) in loading state_dict for", "contains a parameter group that doesn't match",
        "has a different number of parameter groups", "loaded state dict contains a parameter group",
        "used a dp world size of", "missing key in checkpoint", "while copying the parameter named",
        "is not specified in param_groups", "did you mean to use torch.jit.load", "kmaxsupportedfileformatversion",
        "missing key(s) in state_dict:", "unexpected key(s) in state_dict:", "attempting to deserialize object on",
        "cannot load checkpoint", "checkpoint was saved with a different", "checkpoint is incompatible",
        "incompatible checkpoint", "was saved with mesh", "different world size", "unsupported global: global",
        "was not an allowed global by default", "unsupported class", "cannot copy out of meta tensor; checkpoint",
        says="the saved state differs from the current model or optimizer",
        unless=r"(?:Warning|WARN).{0,200}Missing key|Elastic|raise (?:Runtime|Value)Error|DistributedSampler",
        pattern=r"state_dict|parameter group|world size|checkpoint|copying|param_groups|jit\.load|FileFormat|deserialize|"
                r"mesh|global|WeightsUnpickler|Unsupported class",
    ),
    decisive("in create_default_local_load_plan", says="a sharded checkpoint lacks a tensor that the program wants to load"),
    weak("size mismatch for", says="a weight has a different shape in the checkpoint",
         pattern=r"size mismatch for [\w.]+: copying a param"),
    decisive("value from checkpoint", says="the arguments differ from the saved ones",
             pattern=r"value from checkpoint \(.{0,200}\) is not equal"),
    decisive("in state_dict", says="the checkpoint has different keys",
             pattern=r"KeyError: ['\"]unexpected key|unexpected key \"[\w.]+\" in state_dict"),
    strong("weights only load failed", "weightsunpickler error", "types accepted by default with weights_only", says="torch.load refuses a file that is not plain weights",
           unless=r"invalid load key"),
    strong("can't find a valid checkpoint at", "ignore_mismatched_sizes", "can't get attribute '",
           "shapes do not match the checkpoint",
           "universal checkpoint", "missing keys in checkpoint", "mismatched keys",
           says="the checkpoint does not match the program",
           pattern=r"valid checkpoint at|expected shape|Can't get attribute|mismatch|not match|missing keys|"
                   r"requires? (?:a )?universal",
           unless=r"newly initialized|You should probably TRAIN|Some weights of"),
)  # fmt: skip
stacks = (
    Stack(
        r":(?:_?load_state_dict|_load_from_state_dict|_load_rng_state|_load_optimizer_and_scheduler|"
        r"load_from_checkpoint|_load_pretrained_model|_load_state_dict_into_\w+|set_model_state_dict|restore_checkpoint|"
        r"resume_checkpoint)$",
        "the traceback ends where a saved state is restored",
    ),
)


def in_log(case: Case) -> Iterator[Sign]:
    """Errors that any code can give, where the frames say that a checkpoint was being loaded."""
    yield from _mismatch_at_the_end(case)
    for raised in case.log.uncaught(cut=True):
        where, text = raised.stack(), f"{raised.kind}: {raised.message}"
        if "weights only load failed" in text.lower() or "WeightsUnpickler" in text:
            if not compiled(r"invalid load key|truncated|operand (?:118|60)\b").search(text) and not no_pickle(text):
                yield Sign(
                    "decisive",
                    "torch.load with weights_only=True refuses the file",
                    (evidence(raised.line),),
                    order=raised.line.order,
                )
            continue
        if raised.stack_only and compiled(CUT).search(raised.stack(1)):
            says = "the stack ends where a saved state is restored; its last line was cut off"
            yield Sign("strong", says, (evidence(raised.line),), order=raised.line.order)
            continue
        if raised.worker or not compiled(LOADING).search(where):
            continue
        if compiled(
            r"Can't get attribute|No module named|KeyError: |has no attribute|must match the size|expected shape|"
            r"Unexpected keys?|Missing keys?"
        ).search(text):
            inner = raised.stack(3)
            if compiled(LOADING + r"|find_class|checkpoint\[|ckpt\[|state_dict\[").search(inner):
                yield Sign(
                    "strong",
                    f"{raised.kind} while a checkpoint was loaded",
                    (evidence(raised.line),),
                    order=raised.line.order,
                )
        elif raised.stack_only and compiled(
            r"create_(?:default_)?\w{0,60}load_plan|default_planner|load_state_dict|set_state_dict"
        ).search(raised.stack(2)):
            yield Sign(
                "strong",
                "the stack ends where saved keys are compared with the model's",
                (evidence(raised.line),),
                order=raised.line.order,
            )


def _mismatch_at_the_end(case: Case) -> Iterator[Sign]:
    """Shapes that differ, and no training after them: loaders that skip such weights list them too, and go on."""
    for line in case.log.lines:
        if "size mismatch for" in line.lowered and "copying a param" in line.lowered:
            went_on = case.log.finished is not None or any(
                metric.line.order > line.order and metric.get("loss") is not None for metric in case.log.metrics
            )
            if not went_on:
                yield Sign("strong", "a weight has a different shape in the checkpoint", (evidence(line),), order=line.order)
            return


fixes = (
    Fix(
        "Load with the code that saved it, or load only the parts that match",
        "by-hand",
        "use the same code version, number of classes, vocabulary and parallel layout; strip `module.` or `_orig_mod.`; pass "
        "`checkpoint['state_dict']`, not the "
        "whole dictionary; torch.load(..., weights_only=False) only for files that you trust; map_location='cpu'; for a "
        "new task load weights "
        "without the optimizer and read what load_state_dict(strict=False) returns",
    ),
)
experiment = Experiment(
    title="Print the differences: keys and shapes of the file and of model.state_dict(), number of parameter groups, saved "
    "world size",
    start_from="the checkpoint it failed on",
    stop_after="the difference is printed",
    confirms="keys, shapes, groups or layout differ, and after mapping them the strict load passes",
    refutes="nothing differs: then the program loads a different file than you think",
)
