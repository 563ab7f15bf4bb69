"""A label, token or index is outside the model's range.

What happens: a kernel looks up class 21 of 21 or token 50257 of 50257 and its assertion stops the device. The error surfaces
later, at any call that waits for the device, so the Python frame is not the place.

Why: labels that begin at 1, or 255 for "ignore" without ``ignore_index``; a mask with grey values instead of classes; tokens
added to the tokenizer without ``resize_token_embeddings``; positions beyond the model's maximum length; ``num_classes`` of
another data set.

How it shows: ``Assertion `t >= 0 && t < n_classes` failed``, ``srcIndex < srcSelectDimSize``, ``index out of bounds``, then
``device-side assert triggered``; on a CPU ``Target 192 is out of bounds`` or ``index out of range in self``.

What to do: check ``labels.min()``, ``labels.max()`` and token ids against the sizes of the model for the whole data set; run
the step on the CPU or with ``CUDA_LAUNCH_BLOCKING=1`` to see the true line.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from crashcart.cause import against, compiled, decisive, strong, weak
from crashcart.causes._joined import setting
from crashcart.deaths import order
from crashcart.log import evidence
from crashcart.model import Edit, Experiment, Fix, Sign
from crashcart.numbers import to_int

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.case import Case
    from crashcart.flight import Event
    from crashcart.model import Fact

title = "A label, token or index is out of range"
alike = ("code/shape-or-dtype", "hardware/gpu-fault")
CLASSES = ("num_classes", "nb_classes", "n_classes", "num_labels", "nclass", "nc", "classes")
IGNORED = {-100, -1, 255}
SPLITS = {"train", "val", "test", "valid", "validation", "eval", "training", "testing", "images", "labels", "annotations"}
LOOK_UP = r"embedding|cross_entropy|nll_loss|one_hot|scatter_|gather\(|index_select|functional\.py|loss|vocab|num_classes"
TARGET = r"\bTarget (-?\d+) is out of bounds"
INDEX = r"^index (-?\d+) is out of bounds for dimension \d+ with size (\d+)"
ROWS = r"^\w+\[(\d+), \d+\]"
HELD = r"^Tensor\[[^]]*\] int\d+ cpu from (-?\d+) to (-?\d+)$"

phrases = (
    decisive(
        "t < n_classes", "cur_target < n_classes", "t >= 0", "srcindex < srcselectdimsize", "ind < ind_dim_size",
        "idx_dim < index_size", "index < sizes[i]", "index out of bounds: 0 <=",
        "cunn_classnllcriterion_updateoutput_kernel", "nll_loss_forward", "idx < dim_size", "label >= 0 && label",
        "targetindex", "indexvalue >= 0", "idx >= 0 && idx <", "indexselectlargeindex", "indexselectsmallindex",
        "dstindex < dstaddictdimsize", "dstindex < dstadddimsize",
        says="a GPU kernel got an index outside of its table",
        pattern=r"assertion|n_classes|SelectDimSize|index out of bounds|indexSelect\w{1,60}Index.{0,200}block:",
    ),
    decisive(
        "class values must be smaller than num_classes", "class values must be non-negative", "index out of range in self",
        "exceeds dataset class count", "label indices should be", "all elements of target should be between 0 and 1",
        "possible class labels are 0-", "exceeds the number of classes", "exceeds number of classes",
        "labels out of range", "label out of range", "token id out of range", "out of vocabulary range",
        says="an index is outside the model's range",
    ),
    decisive("target_val >= zero", "target >= 0. && target <= 1.", says="a target is not between 0 and 1", pattern=r"Assertion"),
    decisive("is out of bounds", says="a target is not one of the model's classes", pattern=TARGET),
    decisive("assertion `", "assertion '", says="an index check in a GPU kernel failed",
             pattern=r"\.cu:\d{1,20}.{0,100}Assertion [`'].{0,100}(?:index|idx|target|class|label|bound|ind\b|src|dst)", unless=r"input_val|"
                 r"probability|isnan|isfinite"),
    strong("device-side assert triggered", "cudaerrorassert", "error=59", "cuda runtime error (59)",
           "cuda runtime error (710)",
           says="a check inside a GPU kernel failed, usually because a label or token is out of range"),
    against("probability tensor contains either", "input_val >= zero", "val >= zero", "inf, nan or element < 0",
            "cumdist[size - 1] >",
            says="the failed check is about NaN, not about an index"),
    weak("token indices sequence length is longer than", says="texts are longer than the model's maximum length", fatal=False),
)  # fmt: skip


def in_log(case: Case) -> Iterator[Sign]:
    """An index error whose frames are an embedding, a loss or a one-hot encoding."""
    outside = r"^index (?:-?\d+ )?(?:is )?out of (?:bounds|range)"
    for raised in case.log.uncaught(cut=True):
        if raised.kind not in {"IndexError", "RuntimeError"} or not compiled(outside).search(raised.message):
            continue
        if compiled(LOOK_UP).search(raised.stack(2)):
            says = "the index of an embedding or loss is out of range"
            yield Sign("strong", says, (evidence(raised.line),), order=raised.line.order)


def in_recorder(case: Case) -> Iterator[Sign]:
    """An index error whose index is the smallest or largest number of a tensor at the line: it came with the data."""
    for event in case.flight.of_kind("exception") if case.flight is not None else ():
        known = rows_and_indices(event)
        if known is not None:
            rows, lowest, highest = known
            says = f"the indices go from {lowest} to {highest}, and the embedding has {rows} rows, numbered from 0"
            yield Sign("decisive", says, (event.evidence,), order=order(case))
            return
        raised = compiled(INDEX).search(str(event.details.get("message") or ""))
        if raised is None or event.details.get("type") != "IndexError":
            continue
        index, size = raised[1], raised[2]
        for frame in reversed(event.details.get("locals") or ()):
            names = frame.get("names")
            held = names.items() if isinstance(names, dict) else ()
            ends = [
                (name, bounds)
                for name, value in held
                if (bounds := compiled(HELD).search(str(value))) and index in bounds.groups()
            ]
            if ends:
                name, bounds = ends[-1]
                holds = index if bounds[1] == bounds[2] else f"{bounds[1]} to {bounds[2]}"
                says = f"{name} holds {holds}, but what it indexes has size {size} there"
                yield Sign("decisive", says, (event.evidence,), order=order(case))
                return


def rows_and_indices(event: Event) -> tuple[int, int, int] | None:
    """How many rows the embedding had whose index was out of range, and the smallest and the largest index."""
    frames = event.details.get("locals") if event.details.get("type") == "IndexError" else None
    for frame in reversed(frames or ()):
        names = frame.get("names") if str(frame.get("frame")).endswith(" embedding") else None
        held = compiled(HELD).search(str(names.get("input"))) if isinstance(names, dict) else None
        rows = compiled(ROWS).search(str(names.get("weight"))) if isinstance(names, dict) else None
        if held is not None and rows is not None:
            count, lowest, highest = (to_int(number, 0) for number in (rows[1], held[1], held[2]))
            return (count, lowest, highest) if lowest < 0 or highest >= count else None
    return None


def in_data(case: Case) -> Iterator[Sign]:
    """Labels in the files, or folders of classes, against the number of classes in the settings."""
    known = next((fact for key in CLASSES if (fact := setting(case, key)) is not None), None)
    if known is None or not isinstance(known.value, int) or isinstance(known.value, bool) or known.value < 2:
        return
    for fact in case.all("data.labels"):
        value = fact.value
        if value["high"] >= known.value and value["high"] not in IGNORED:
            says = f"{value['name']} goes up to {value['high']}, but {known.spelling} is {known.value}, so the last class is {known.value - 1}"
            yield Sign("strong", f"{says}: it fails unless the program maps them", (fact.evidence, known.evidence))
        elif value["low"] < 0 and value["low"] not in IGNORED:
            says = f"{value['name']} goes down to {value['low']}: it fails unless the program skips those"
            yield Sign("strong", says, (fact.evidence, known.evidence))
    for fact in case.all("data.held"):
        value = fact.value
        folders = [folder for folder in value["folders"] if folder not in SPLITS]
        by_folder = case.all("code.folder_classes") and value["kinds"].get("image") and len(folders) == len(value["folders"])
        if by_folder and len(folders) > known.value:
            says = f"{value['path']} has {len(folders)} folders, each of them a class, but {known.spelling} is {known.value}"
            yield Sign("strong", f"{says}: labels from {known.value} on are out of range", (fact.evidence, known.evidence))


def in_code(case: Case) -> Iterator[Sign]:
    """After a death: the layer that has no room for the target that was met."""
    found = None if case.before else _too_small(case)
    if found is not None:
        layer, target = found
        size: Fact = layer.value["size"]
        says = f"{layer.value['layer']} has {size.value} outputs" + (f" ({size.spelling})" if size.spelling else "")
        says += f", so the last class is {size.value - 1}, but a target was {target}"
        yield Sign("strong", says, tuple(dict.fromkeys((size.evidence, layer.evidence))))


def _too_small(case: Case) -> tuple[Fact, int] | None:
    """The layer whose number of outputs is what a target that was met goes beyond, and that target."""
    for line in case.log.index.saying(("is out of bounds",)):
        if (match := compiled(TARGET).search(line.text)) is None:
            continue
        target = to_int(match[1], 0)
        small = {
            fact.value["size"].span: fact for fact in case.all("code.output_size") if 1 < fact.value["size"].value <= target
        }
        exact = [fact for fact in small.values() if fact.value["size"].value == target]
        fits = list(small.values()) if len(small) == 1 else exact
        return (fits[0], target) if len(fits) == 1 else None
    return None


AGREE = (
    Fix(
        "Make labels and model sizes match",
        "by-hand",
        "use labels 0..n-1 with ignore_index for the rest; count the background class in num_classes if the model wants one; "
        "model.resize_token_embeddings(len(tokenizer)); truncate to the model's maximum length",
    ),
)
TRUE_LINE = Fix(
    "Find the failing line",
    "exact",
    "CUDA reports errors late; with blocking launches the traceback shows the real line (slower, for one short run)",
    environment={"CUDA_LAUNCH_BLOCKING": "1"},
)


def fix(case: Case) -> Iterator[Fix]:
    """Room for the target that was met, where one number makes the layer; else words."""
    found = None if case.before else _too_small(case)
    if found is not None and (span := found[0].value["size"].span) is not None:
        layer, target = found
        name = layer.value["size"].spelling or f"the outputs of {layer.value['layer']}"
        why = "correct if that target is a class of its own; if labels start at 1, or the value means `ignore`, change the labels instead"
        yield Fix(f"Set {name} to {target + 1}", "changes-training", why, edits=(Edit(span, str(target + 1)),))
    yield from _in_words(case)


def _in_words(case: Case) -> tuple[Fix, ...]:
    """What a device reports late has to be shown first; an exception on the CPU names its line."""
    on_device = any("cuda" in line.lowered or "device-side" in line.lowered for line in case.log.lines)
    return (
        (*AGREE, TRUE_LINE)
        if on_device and not any(raised.kind == "IndexError" for raised in case.log.uncaught())
        else AGREE
    )


experiment = Experiment(
    title="Read the dataset once on the CPU and compare min and max of labels and token ids with the model's sizes",
    start_from="the beginning",
    stop_after="every batch was checked",
    confirms="a value is below 0 (and not ignore_index) or not below the size, and the failing batch contains one",
    refutes="all are in range: then look at indices that the code computes (positions, gathers), on the CPU",
)
