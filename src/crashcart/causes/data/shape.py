"""Samples of different shapes cannot be put into one batch.

What happens: the collate function stacks what ``__getitem__`` returned, and two samples differ in size, number of boxes,
channels or length.

Why: images are not resized or cropped to one size, one grey image is among colour images, texts or labels are not padded, a
detection data set needs its own collate function, a text column is left in the features.

How it shows: ``stack expects each tensor to be equal size`` with collate or fetch on the stack; ``Unable to create tensor,
you should probably activate truncation and/or padding``; ``Trying to resize storage that is not resizable``. The same words
in the model's own code are a fault of the code.

What to do: bring samples to one shape in the transform, pad in the collate function, or use batch size 1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from crashcart.cause import Stack, compiled, decisive, strong, weak
from crashcart.causes._loaders import loaders
from crashcart.causes.data._tables import fits
from crashcart.causes.data._where import LOADER
from crashcart.log import evidence
from crashcart.model import Experiment, Fix, Sign

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.case import Case

title = "Samples with different shapes cannot be batched together"
alike = ("code/shape-or-dtype", "data/corrupt-or-missing")
UNEQUAL = (
    r"stack expect\w* each|Sizes of tensors must match except|invalid argument 0: Sizes|inconsistent tensor sizes|"
    r"Trying to resize storage|"
    r"each element in list of batch|must contain tensors, numpy arrays|expected sequence of length|"
    r"all input arrays must have the same shape|"
    r"inhomogeneous shape|setting an array element with a sequence|could not broadcast input array|"
    r"doesn't match the broadcast shape|"
    r"Unable to create tensor|too many dimensions 'str'|Tensors must have same number of dimensions|same size for collat"
)
COLLATE = r"collat|fetch\.py|_utils/(?:fetch|collate)|data_collator|tokenization_utils|convert_to_tensors|\bpad\("

phrases = (
    decisive("each element in list of batch should be of equal size", "default_collate: batch must contain", "activate "
        "truncation and/or padding",
             "each tensor in list of batch", says="samples in a batch differ in shape or type"),
    strong("stack expects each tensor to be equal size", "each tense to be equal size", "trying to resize storage that is "
        "not resizable",
           "expected sequence of length", "at entry 1", "too many dimensions 'str'",
           says="tensors of different sizes cannot be stacked",
           pattern=r"equal size|resize storage|expected sequence of length \d+ at dim|at entry 0 and|too many dimensions"),
    weak("sizes of tensors must match except in dimension", "inhomogeneous shape", "all input arrays must have the same "
        "shape",
         "doesn't match the broadcast shape", "could not broadcast input array", "inconsistent tensor sizes",
         says="arrays of different shapes cannot be joined"),
)  # fmt: skip
stacks = (
    Stack(
        r"_utils/collate\.py:|:(?:default_collate|collate_fn|collate|pad_collate|collater)$|:pad_sequence$",
        "the traceback ends where samples are collated into a batch",
    ),
)


def in_log(case: Case) -> Iterator[Sign]:
    """Whether the stack that failed belongs to the collate function or to a model."""
    for raised in case.log.uncaught(cut=True):
        where = raised.stack(8)
        collating = compiled(COLLATE).search(where) is not None
        if raised.stack_only and compiled(r"collat").search(raised.stack(1)):
            yield Sign("strong", "the stack ends in the collate function", (evidence(raised.line),), order=raised.line.order)
        elif raised.kind and compiled(UNEQUAL).search(raised.message):
            if collating:
                yield Sign(
                    "decisive",
                    "the collate function could not batch the samples",
                    (evidence(raised.line),),
                    order=raised.line.order,
                )
            elif raised.worker or compiled(LOADER).search(where):
                yield Sign(
                    "strong",
                    "a sample has a different shape than the loader expects",
                    (evidence(raised.line),),
                    order=raised.line.order,
                )
            elif compiled(r"\bforward\b|_call_impl|training_step").search(where):
                yield Sign(
                    "against", "the model's own code joins the tensors", (evidence(raised.line),), order=raised.line.order
                )


def in_data(case: Case) -> Iterator[Sign]:
    """Items of different shapes, where a loader puts several into a batch as they are; episodes that are stacked whole."""
    for fact in case.all("code.stacked_whole"):
        for held in case.all("data.episodes"):
            lengths = held.value["lengths"]
            if lengths[0] != lengths[-1]:
                says = (
                    f"episodes of {held.value['path']} have {lengths[0]} to {lengths[-1]} steps, and here they are stacked"
                )
                sure = fact.value["sure"] and held.value["whole"]
                after = "" if sure else ": it fails for two of different length"
                yield Sign("decisive" if sure else "strong", f"{says}{after}", (fact.evidence, held.evidence))
    plain = [loader for loader in loaders(case) if not loader.fact.value["collate"] and loader.batch not in {None, 1}]
    if not plain or case.all("code.resized"):
        return
    for fact in case.all("data.shapes"):
        value = fact.value
        read = [one for one in case.all("code.sample_read") if fits(one.value["key"], value["name"])]
        if value["kind"] == "hdf5" and not read:
            continue
        shapes = " and ".join(str(shape) for shape in value["shapes"][:3])
        says = f"items of {value['path']} have the shapes {shapes}{value['name'] and ' in ' + value['name']}: two of them cannot be stacked into a batch"
        yield Sign("strong", f"{says}, unless the program resizes or pads them", (fact.evidence, plain[0].fact.evidence))


fixes = (
    Fix(
        "Resize samples to one shape, or pad them in the collate function",
        "by-hand",
        "resize or crop in the transform and convert to RGB; use tokenizer(..., padding=True, truncation=True) or a padding "
        "collator, including "
        "labels; for boxes use a collate_fn that returns lists; remove columns that are not tensors",
    ),
)
experiment = Experiment(
    title="Print the shapes of every sample of the failing batch with num_workers=0, then run with batch size 1",
    start_from="the beginning",
    stop_after="the batch that failed",
    confirms="shapes differ inside the batch, and batch size 1 passes",
    refutes="all shapes match: then the model's code joins other tensors (code/shape-or-dtype)",
)
