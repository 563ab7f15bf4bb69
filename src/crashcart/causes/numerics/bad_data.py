"""A sample contains NaN or infinity, or leads to them.

What happens: the loss, or one of its terms, is NaN or infinite on certain batches, whatever the learning rate.

Why: NaN or infinity in the files, a box of no width, a statistic with zero deviation to divide by, a transcript longer
than its audio (CTC gives infinity), an image without a label where the loss divides by their number, the logarithm of
silence.

How it shows: one term of the loss is NaN while the others are fine and the rate is small; or the value is infinite on
single lines and finite on the next; or a check names the sample. It comes at the same sample again with another seed or
rate. In a recording of several ranks one of them has it a step before the others, and the batch of the first such loss
is looked into. If the loss of the evaluation alone is NaN, the sample is in the evaluation set.

What to do: scan the data set once for values that are not finite and for degenerate labels, leave those samples out and
count them. Skipping the batch in the training loop hides it: report the share, and under several ranks skip on all
together.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from crashcart.cause import decisive, strong, weak
from crashcart.causes.data._tables import fits
from crashcart.causes.numerics._left_out import finite_only, made_at
from crashcart.causes.numerics._recorded import (
    alone,
    broke_the_weights,
    broken_losses,
    brought_in,
    held_by_last_batch,
    other_death,
    was_data,
)
from crashcart.causes.numerics._series import broken, trained, validation
from crashcart.deaths import order
from crashcart.log import evidence
from crashcart.model import Experiment, Fix, Sign
from crashcart.places import never_better

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.case import Case

title = "A sample in the data causes NaN or infinity"
piece = "StepGuard"
lasting = True
judges_training = True
alike = ("numerics/diverged",)
SMALL_RATE = 1e-3
SHOWN = 5
SEVERAL = 3
EVALUATIONS = 2
DATA = (
    r"(?:input|sample|batch|data|dataset|image|label|target|feature|obs(?:ervation)?|action|state|token|frame|waveform|"
    r"audio|box|annotation)s?"
)

phrases = (
    decisive("positive height and width", "found invalid box", says="a label box has no width or height"),
    decisive("nan in ", "nan values", "nans in ", "inf in ", "non-finite", "contains nan", "contain nan", "has nan",
             "found nan",
             "nan found in",
             says="a sample contains values that are not finite", any_level=True, unless=r"input tensor|grad|loss|weight|param",
             pattern=rf"\b{DATA}\b[^.]{{0,40}}\b(?:contains?|has|have|with|holds?)\b[^.]{{0,12}}(?:nan|inf\b|non-?finite)|"
                     rf"(?:nan|inf|non-?finite)s?(?: values?)? (?:found )?in (?:the )?{DATA}\b|\d nans? in\b"),
    strong("input contains nan", "input x contains nan", "input contains infinity", says="an array that was handed over "
                                                                                         "holds NaN"),
    strong("std is zero", "zero std", "standard deviation is zero", says="a standard deviation used as a divisor is zero", any_level=True),
    weak("invalid value encountered in", "divide by zero encountered in", says="preparing a sample divides by zero or "
                                                                               "takes the "
         "logarithm of zero", fatal=False, any_level=True),
    weak("degenerate", "non-positive w/h", "boxes with non-positive", says="labels are degenerate", fatal=False,
         any_level=True,
         pattern=r"box|label|annot"),
)  # fmt: skip


def in_log(case: Case) -> Iterator[Sign]:
    """A loss of which only one term is no number, without a jump before it; or that of the evaluation alone."""
    yield from _in_evaluation(case)
    for one in broken(case):
        if one.recovered and never_better(case):
            says = (
                f"{', '.join(one.bad)} was NaN in {one.lines} lines, and usual between them: some samples make it so; what went through "
                "the model can stay in its running statistics, and no comparison with NaN is true"
            )
            yield Sign("strong", says, (evidence(one.first.line),), order=one.first.line.order)
        terms = [name for name in one.bad if name != "loss" and "total" not in name]
        if not one.partial:
            if not one.recovered and one.before is not None and not one.jumped:
                says = "the loss became NaN from one line to the next, without growing before"
                yield Sign("weak", says, (evidence(one.before.line), evidence(one.first.line)), order=one.first.line.order)
            continue
        says = f"only {', '.join(terms)} is NaN or infinite; {', '.join(one.fine[:3])} stay finite"
        strength = "strong" if one.recovered or not _small_rate(case) else "decisive"
        items = (evidence(one.first.line),)
        yield Sign(strength, says, items, fatal=not one.recovered, order=one.first.line.order)  # type: ignore[arg-type]


def _in_evaluation(case: Case) -> Iterator[Sign]:
    """An evaluation whose loss is no number, again and again, while that of training is fine."""
    lines = validation(case)
    enough = 1 if case.flight is not None else EVALUATIONS
    hidden = any(loss.stays for loss in broken_losses(case))  # that of the training is none either, whatever the log shows
    if len(lines) < enough or hidden or any(not one.recovered for one in broken(case)):
        return
    train = next((metric for metric in reversed(case.log.metrics) if trained(metric)), None)
    says = (
        "the evaluation loss is not finite but the training loss is: the reason is a sample of the evaluation set, "
        "or code that only the evaluation runs"
    )
    items = (evidence(lines[0].line), *((evidence(train.line),) if train is not None and train is not lines[0] else ()))
    alone_ = not any(one.kind and not one.survivable for one in case.log.raised) and not case.log.deaths
    yield Sign("strong" if alone_ and train is not None else "weak", says, items, order=lines[0].line.order)


def in_recorder(case: Case) -> Iterator[Sign]:
    """What the batch of the first bad loss held; one rank whose loss was no number while the others, with the same weights, had one; or a loss that comes and goes."""
    at_death = held_by_last_batch(case)
    if at_death is not None:
        leader, values = at_death
        says = f"{leader.process.name} stopped at a value that is not finite, and its batch contained such values: {values}"
        yield Sign("decisive", says, (leader.evidence,), order=order(case))
    found = broken_losses(case)
    held = brought_in(case, found)
    if held is not None:
        one = found[0]
        says = f"the first loss that was not finite, of {one.process.name} at step {one.step}, was computed from such data: {held}"
        strength = "weak" if other_death(case) else "decisive" if one.stays else "strong"
        yield Sign(strength, says, (one.event.evidence,), fatal=one.stays, order=order(case))  # type: ignore[arg-type]
    elif found and alone(case, found):
        one = found[0]
        says = (
            f"only {one.process.name} had a loss that was not finite at step {one.step}; the other ranks had the same weights, and "
            "the loss had not grown: its batch is the reason"
        )
        strength = "weak" if other_death(case) else "decisive" if one.stays else "strong"
        yield Sign(strength, says, (one.event.evidence,), fatal=one.stays, order=order(case))  # type: ignore[arg-type]
    elif found and (samples := broke_the_weights(found[0])) is not None:
        says = (
            f"one step broke the weights of {found[0].process.name}, with a loss that had not grown: that of the batch before step "
            f"{found[0].step}, made of {samples}"
        )
        sure = was_data(case, found[0]) and not other_death(case)
        yield Sign("strong" if sure else "weak", says, (found[0].event.evidence,), order=order(case))
    again = (
        [event for event in case.flight.of_kind("nonfinite") if event.details.get("what") == "loss"] if case.flight else []
    )
    if len(again) >= SEVERAL and found and not any(one.stays for one in found):
        says = f"the loss was not finite in {len(again)} single steps and recovered each time"
        yield Sign("weak", says, (again[0].evidence, again[-1].evidence), fatal=False, order=order(case))


def _small_rate(case: Case) -> bool:
    rates = [
        value
        for metric in case.log.metrics
        for name, value in metric.values
        if name in {"lr", "learning_rate", "learning rate"}
    ]
    return bool(rates) and max(rates) <= SMALL_RATE


def in_data(case: Case) -> Iterator[Sign]:
    """Values that are not finite in the files, where the program reads that table and nothing in it looks for them."""
    found = case.all("data.nonfinite")
    reads = [one.value["key"] for one in case.all("code.sample_read")]
    cleaned = bool(case.all("code.cleans_nan"))
    for fact in found[:SHOWN]:
        value = fact.value
        unread = value["kind"] == "hdf5" and reads and not any(fits(key, value["name"]) for key in reads)
        name = f"{value['name']} of {value['file']}" if value["name"] else value["file"]
        many = f" ({len(found)} such tables were seen)" if len(found) > 1 else ""
        says = f"{name} contains NaN or infinity{many}: the loss is not finite when that sample is used"
        strength = "weak" if unread or cleaned or value["kind"] == "parquet" else "strong"
        yield Sign(strength, says, (fact.evidence, value["named"]))  # type: ignore[arg-type]


def in_code(case: Case) -> Iterator[Sign]:
    """After a run: the lines where the fields are made that held such values."""
    for place in made_at(case) if not case.before else ():
        yield Sign("strong", "this sets the values in the samples that are not finite", (place,))


def fix(case: Case) -> Iterator[Fix]:
    """Leave the samples out at their loader; then words."""
    edits = finite_only(case) if not case.before else ()
    if edits:
        why = "all samples are read once at the start; inspect the ones that are left out, because the error is where they were made"
        yield Fix("Leave out the samples whose values are not finite", "changes-training", why, edits=edits)
    yield from fixes


fixes = (
    Fix(
        "Scan the data for NaN and infinity, and leave those samples out",
        "by-hand",
        "in one pass check `torch.isfinite(x).all()` for inputs and targets, x2 > x1 and y2 > y1 for boxes, and transcripts "
        "shorter than "
        "their audio; record the ids and their number",
    ),
)
experiment = Experiment(
    title="Run the batch of the first NaN alone, in float32, with the weights before it; do the same with another batch",
    start_from="the newest complete checkpoint before the first NaN",
    stop_after="one forward and backward pass for each of the two batches",
    confirms="the batch gives NaN with finite weights in float32, and the other batch does not",
    refutes="it is finite: then the weights or the precision are the problem (numerics/diverged)",
)
