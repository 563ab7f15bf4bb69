"""Loss or gradients become NaN or infinite.

What happens: from one step on the loss is NaN, or gradients overflow on every step until the loss scale is at its
minimum. The weights are lost from that step on; everything computed later is waste.

Why: the learning rate is too high for this batch or precision, warm-up or clipping is missing, half precision overflows
(attention logits, a large loss, a small epsilon in Adam), a division by zero or the logarithm of zero in the loss. A
library that damages gradients looks the same.

How it shows: the loss jumps or turns ``nan`` and stays so; frameworks stop with their own sentence. A few overflows at
the start, while the scaler looks for its scale, are healthy, and so is a single step that was skipped. A
recording sees each loss where it goes backward, with its step.

What to do: go back to a checkpoint before the first NaN (a later one is useless), lower the rate or lengthen the
warm-up, clip gradients, train in bfloat16 instead of float16. If the first NaN comes at the same batch whatever the
rate, look at that batch.
"""

from __future__ import annotations

from math import isfinite, isnan
from typing import TYPE_CHECKING

from crashcart.account import NOT_FINITE
from crashcart.cause import compiled, decisive, strong, weak
from crashcart.causes.numerics._recorded import (
    alone,
    broke_the_weights,
    broken_losses,
    brought_in,
    had_finite_inputs,
    has_usual_loss,
    held_by_last_batch,
    lost_in_one_step,
    other_death,
    was_data,
)
from crashcart.causes.numerics._series import broken, climbing, falling, gradient, gradients, scales
from crashcart.deaths import first, order
from crashcart.log import evidence
from crashcart.model import Evidence, Experiment, Fix, Sign

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.case import Case
    from crashcart.causes.numerics._recorded import Broken

title = "Training diverged: the loss or the gradients are not finite"
piece = "StepGuard"
lasting = True
judges_training = True
alike = ("numerics/bad-data", "numerics/grad-scaler")
SMALLEST_SCALE = 1.0
HUGE_LOSS = 1e8
IMPOSSIBLE_RATE, USUAL_RATE = 10.0, 3e-4
SMALLEST_FAIRSEQ = 0.01
MANY_SKIPPED = 10
ROW = r"^\s*\d+/\d+\s+[\d.]+G\s+\S+"  # epoch, memory, losses: the table of the YOLO family
BROKEN_ROW = r"^\s*\d+/\d+\s+[\d.]+G(?:\s+(?:nan|inf)){2,}"
GOES_ON = r"skip|ignor|setting loss|replac|continu|check[-_ ]for|--|nan_to_num|\?|disabled|policy|->|\braise\b"
NOT_OURS = r"val(?:idation)?[_ ]|eval|metric|accuracy|mAP"

INFINITE_GRADIENT = "code.infinite_gradient"  # an operation that leads to the loss, whose gradient is not finite somewhere
RATE_ABOVE = (
    "code.rate_above"  # a rate that rose far above the one that the optimizer was made with, and where it is worked out
)
AT_END = 20
AT_ONE = frozenset({"acos", "asin", "arccos", "arcsin", "acosh", "atanh", "arctanh"})
SEVERAL = 3
NOT_A_NUMBER = r"[:=]\s*-?nan\b|\b(?:loss|grad(?:ient)? norm) is nan\b"

phrases = (
    strong("is nan", "= nan", ": nan", "got nan", "(nan", "value nan", says="the program stopped at a value that is NaN",
           pattern=r"(?:Error|Exception|assert\w{0,60})\b.{0,200}\b(?:nan|-?inf)\b", unless=r"\braise\b|^\s+assert\b|print\("),
    decisive("become infinite or nan", "became infinite or nan", "becomes nan", "is nan or inf", says="the program detected NaN or Inf and stopped",
             pattern=r"Error|assert|FloatingPoint|loss|delta|gradient|weight"),
    decisive(
        "loss became infinite or nan", "loss scale already at minimum", "minimum loss scale reached", "model diverged "
                                                                                                      "with loss",
        says="the framework stopped because the loss or its scale is no longer finite",
    ),
    decisive("loss is nan", "loss is inf", "loss is not finite", "loss is non", says="the program stopped because the "
                                                                                     "loss is not finite",
             pattern=r"loss is \W?(?:nan|inf|non-?finite|not finite)\b.{0,30}(?:stop|exit|abort|terminat)"),
    decisive("found nan in", "found inf in", "nan/inf in local", "nan or inf in local", says="a gradient or the loss is "
                                                                                             "not finite",
             pattern=r"found \W?(?:nan|inf)(?:/inf)?\W? in (?:local |the )?(?:grad|forward loss|loss|param|weight|model)"),
    decisive("returned nan values in its", says="anomaly detection found the operation whose gradient is NaN"),
    decisive("is non-finite, so it cannot be clipped", says="the norm of the gradients is not finite"),
    decisive("gradients are nan/inf", "loss is probably exploding", says="gradients are not finite"),
    decisive("detected nan", "detected inf", "encountered nan", "nan encountered", "nan detected", "non-finite loss",
             "nan loss",
             says="the program reports that the loss or weights are not finite", unless=GOES_ON,
             pattern=r"(?:Error|Exception|stop|abort|exit|terminat|diverg)"),
    strong("loss returned in `training_step`", "loss returned in training_step", says="the loss of a step is not finite"),
    strong("grad scale is small", "grad_scale is too small", "grad scale is too small", says="the loss scale reached its minimum: every step overflows",
           any_level=True, pattern=r"too small|\d(?:\.\d+)?e-(?:0[5-9]|[1-9]\d)"),
    strong("the histogram is empty, please file a bug report", says="a histogram of weights or gradients got no finite values"),
    strong("nan grad norm occurs", "nan gradient norm", "inf grad norm", says="the norm of the gradients is not finite",
           any_level=True, unless=GOES_ON),
    strong("weights are nan", "weights contain nan", "parameters contain nan", "nan in model", "nan weights", "nan parameters",
           "nan or inf in logits", "logits contain nan", "logits are nan", "outputs contain nan", "output contains nan",
           "gradients contain nan", "gradient contains nan", "nan gradients", "gradients are nan", "gradients exploded",
           "exploding gradients detected", "training is unstable", "training collapsed",
           says="weights, outputs or gradients are not finite", any_level=True, unless=GOES_ON + "|if |avoid|prevent|config"),
    strong("input_val >= zero", "input >= 0. && input <= 1.", says="the loss got a probability outside of 0 to 1, usually NaN",
           pattern=r"Assertion"),
    strong("probability tensor contains either", "expects all elements of std >= 0", says="the model outputs probabilities that are not finite"),
    strong("found invalid values", says="a distribution got parameters that are NaN", pattern=r"constraint.{0,200}invalid values"),
    strong("matrix contains invalid numeric entries", "cost matrix is infeasible", "input matrix contained non-finite",
           "array must not contain infs or nans", says="predictions are not finite"),
    strong("boxes1[:, 2:] >= boxes1[:, :2]", says="the model predicts boxes that are NaN", pattern=r"Assert|assert"),
    strong("cannot convert float nan to integer", "cannot convert float infinity to integer", says="a value that should "
                                                                                                   "be a "
           "number is NaN"),
    strong("loss is nan", "loss is inf", "loss is non", "loss is not finite", "loss became nan", "loss was nan",
           "loss diverged", "training diverged", "has diverged", "nan loss", "loss exploded",
           says="the program reports that the loss is not finite", unless=GOES_ON + "|" + NOT_OURS, any_level=True,
           pattern=r"loss (?:is|became|was|=)\W*(?:nan|inf|non-?finite|not finite|exploding)\b|(?:loss|training|has|"
                   r"model) diverged"),
    strong("math range error", says="an exponential overflowed, usually of the loss for the perplexity",
           pattern=r"OverflowError: math range error"),
    strong("inf avg,", "nan avg,", says="the loss is not finite", pattern=r"(?:^|\d: )-?(?:inf|nan), -?(?:inf|nan) avg"),
    weak("nan or inf found in input tensor", says="a value that was logged is not finite", fatal=False, any_level=True),
    weak("skipping step", "overflow detected", "gradient overflow", "grad overflow", says="a step was skipped for an "
                                                                                          "overflow",
         fatal=False, any_level=True, pattern=r"overflow"),
)  # fmt: skip


def in_log(case: Case) -> Iterator[Sign]:
    """Losses and gradients that end as NaN, and loss scales that went to the bottom."""
    rows = [line for line in case.log.lines if "/" in line.text and compiled(ROW).match(line.text)]
    if rows and compiled(BROKEN_ROW).match(rows[-1].text):
        says = "the losses in the table are NaN and stay NaN"
        yield Sign(_grade(case, sure=True), says, (evidence(rows[-1]),), order=rows[-1].order)  # type: ignore[arg-type]
    found = list(broken(case))
    partial = any(one.partial for one in found)
    for one in found:
        if one.recovered:
            says = f"{one.bad[0]} was {one.first.get(one.bad[0]):g} in {one.lines} lines and recovered"
            yield Sign("weak", says, (evidence(one.first.line),), fatal=False, order=one.first.line.order)
            continue
        items = tuple(evidence(metrics.line) for metrics in (one.before, one.first) if metrics)
        sure = one.jumped or not (partial or len(one.fine) >= len(one.bad))
        says = f"{', '.join(one.bad[:3])} became NaN or infinite and did not recover"
        yield Sign(_grade(case, sure=sure), says, items, order=one.first.line.order)  # type: ignore[arg-type]
    if not found and not rows:
        yield from _ends_in_nan(case)
    tail, zero, late = gradients(case)
    if tail and (zero or len(tail) >= (2 if late else 3)):  # a scaler may need a step or two at the start
        says = f"the gradient norm is not finite in the last {len(tail)} step lines" + (
            ", and the loss is printed as 0" if zero else ""
        )
        yield Sign(_grade(case, sure=True), says, (evidence(tail[0].line),), order=tail[0].line.order)  # type: ignore[arg-type]
    elif tail and late and isnan(gradient(tail[0]) or 0):
        says = "the gradient norm is not finite in the last step line, but was before"
        yield Sign("strong", says, (evidence(tail[0].line),), order=tail[0].line.order)
    low = [(line, scale) for line, scale in scales(case) if scale <= _bottom(line.lowered)]
    if low:
        says = f"the loss scale fell to {low[-1][1]:g}: nearly every step overflows"
        yield Sign("strong", says, (evidence(low[-1][0]),), order=low[0][0].order)
        return
    down = falling(case)
    if down:
        says = f"the loss scale only falls, to {down[2]:g} at the end of the log: step after step overflows"
        yield Sign(_softer(case), says, (evidence(down[0]), evidence(down[1])), fatal=False, order=down[0].order)  # type: ignore[arg-type]
    up = climbing(case)
    if up:
        yield Sign(_softer(case), up[2], (evidence(up[0]), evidence(up[1])), fatal=False, order=up[0].order)  # type: ignore[arg-type]


def _ends_in_nan(case: Case) -> Iterator[Sign]:
    """The last lines hold values that are no numbers, whatever they are called."""
    last = [line for line in case.log.lines[-AT_END:] if compiled(NOT_A_NUMBER).search(line.text)]
    if len(last) >= SEVERAL:
        says = f"{len(last)} of the last lines contain values that are not finite"
        yield Sign("weak", says, (evidence(last[0]), evidence(last[-1])), fatal=False, order=last[0].order)


def _softer(case: Case) -> str:
    """A trend is no death: it settles only what nothing else ended."""
    log = case.log
    ended = log.deaths or log.collectives or log.memory or any(one.kind and not one.survivable for one in log.raised)
    return "weak" if ended or log.finished else "strong"


def _grade(case: Case, *, sure: bool) -> str:
    """Decisive where nothing else ended the run; beside another death it is one of two things that went wrong."""
    other = [
        one
        for one in case.log.raised
        if one.kind and not one.survivable and not compiled(r"nan|inf|finite").search(one.message)
    ]
    return "decisive" if sure and not other and not case.log.memory and not _by_data(case) else "strong"


def _by_data(case: Case) -> bool:
    """Whether a recording shows that a batch brought it in."""
    found = broken_losses(case)
    if not found or alone(case, found) or brought_in(case, found) is not None:
        return bool(found)
    return broke_the_weights(found[0]) is not None and was_data(case, found[0])


def _bottom(lowered: str) -> float:
    return SMALLEST_FAIRSEQ if "setting loss scale" in lowered else SMALLEST_SCALE


def in_recorder(case: Case) -> Iterator[Sign]:
    """Losses as ``backward()`` saw them, before any framework averaged or hid them; and the scaler's scale."""
    found = broken_losses(case)
    lasting_ones = [one for one in found if one.stays]
    if lasting_ones:
        one = lasting_ones[0]
        says = f"the loss of {one.process.name} is not finite from step {one.step} on ({one.count} times)"
        if _began_broken(one):
            says += "; its weights contained NaN or Inf before the first step, so these came from the loaded weights or the initialisation"
        samples = None if was_data(case, one) else broke_the_weights(one)
        if samples is not None:
            says += f"; the previous step broke its weights although loss and inputs were normal ({samples}): its gradient was not finite"
        sure = not other_death(case) and not _by_data(case)
        yield Sign("decisive" if sure else "strong", says, (one.event.evidence,), order=order(case))
    elif found:
        one = found[0]
        says = f"the loss of {one.process.name} was not finite at step {one.step}, and recovered"
        yield Sign("weak", says, (one.event.evidence,), fatal=False, order=order(case))
    yield from _exploded(case)
    yield from _scale(case)


def _began_broken(broken: Broken) -> bool:
    """Whether the weights were not finite before the program had made one step."""
    return broken.step == 0 and broken.event.details.get("weights_finite") is False


def _exploded(case: Case) -> Iterator[Sign]:
    """A death that speaks of NaN after a loss that had grown beyond all measure."""
    leader = first(case)
    if leader is None or leader.raised is None or not leader.says(NOT_FINITE) or held_by_last_batch(case) is not None:
        return
    process = next((rank for rank in case.flight.ranks if rank.rank == leader.process.rank), None) if case.flight else None
    loss = process.page.get("loss", 0.0) if process is not None else 0.0
    if process is None or not (abs(loss) > HUGE_LOSS or loss - loss != 0):
        return
    quote = f"{process.name}: the last loss was {loss:.3g}, at step {process.page.get('loss_step', 0.0):.0f}"
    says = f"{leader.process.name} stopped at a value that is not finite, and its last loss was {loss:.3g}"
    evidence_of_loss = Evidence("recorder", quote, "recorder", process.rank)
    yield Sign("strong" if _by_data(case) else "decisive", says, (leader.evidence, evidence_of_loss), order=order(case))


def _scale(case: Case) -> Iterator[Sign]:
    for process in case.flight.ranks if case.flight is not None else ():
        skipped, done = process.page.get("skipped", 0.0), process.page.get("steps", 0.0)
        scale = process.page.get("scale", float("nan"))
        if skipped >= MANY_SKIPPED and skipped > done and scale < SMALLEST_SCALE:
            quote = f"{process.name}: scale {scale:g}, {skipped:.0f} steps skipped, {done:.0f} done"
            says = "the loss scale reached its minimum: most steps overflow"
            yield Sign("strong", says, (Evidence("recorder", quote, "recorder", process.rank),), order=order(case))
            return


SLOWER = Fix(
    "Resume from before the first NaN with half the learning rate, gradient clipping and a longer warm-up",
    "changes-training",
    "the weights after the first NaN are unusable; a lower rate keeps the steps stable",
    settings={"train.learning_rate": "half", "train.clip": 1.0, "train.warmup": "double"},
)
EARLIER = Fix(
    "Start from an earlier checkpoint with finite weights",
    "by-hand",
    "the weights contained NaN or Inf before the first step of this run; a lower rate or clipping cannot fix that",
)
WIDER = Fix(
    "Use bfloat16 instead of float16",
    "changes-training",
    "it has the range of float32, so nothing overflows and no scaler is needed; it requires Ampere or later",
    settings={"train.bf16": True, "train.fp16": False},
)


def in_code(case: Case) -> Iterator[Sign]:
    """After a run: operations whose gradient is not finite at a value that their argument can have."""
    for fact in case.all(INFINITE_GRADIENT) if not case.before and _broke_by_gradient(case) else ():
        what = (
            "at 1"
            if fact.value["operation"] in AT_ONE
            else "where there is nothing to divide by"
            if fact.value["operation"] == "division"
            else "at 0"
        )
        says = f"the gradient of this {fact.value['operation']} is not finite {what}, and nothing prevents such an argument"
        yield Sign("strong", says, (fact.evidence,))

    for fact in case.all(RATE_ABOVE) if not case.before else ():
        made, top = fact.value["made"], fact.value["top"]
        says = f"the learning rate is worked out here: it rose to {top:.3g}, and the optimizer was made with {made:.3g}"
        yield Sign("strong", says, tuple(fact.value["places"]))


def _broke_by_gradient(case: Case) -> bool:
    """Whether the loss was as usual when the weights were lost, or was no number with finite weights and inputs."""
    found = [broken for broken in broken_losses(case) if broken.stays]
    if not broken_losses(case) and not any(True for _ in _exploded(case)):  # hidden in the loss, it came up elsewhere
        leader = first(case)
        return leader is not None and leader.says(NOT_FINITE) and held_by_last_batch(case) is None
    if not found or _by_data(case):
        return False
    made_now = found[0].event.details.get("weights_finite") is True and had_finite_inputs(found[0].event)
    return lost_in_one_step(found[0]) or (made_now and has_usual_loss(found[0]))


def fix(case: Case) -> tuple[Fix, ...]:
    """A smaller step; another precision only where half precision may be in use."""
    if any(_began_broken(broken) for broken in broken_losses(case)[:1]):
        return (EARLIER,)
    slower = _usual_rate(case) or SLOWER
    return (slower, WIDER) if _half(case) else (slower,)


def _usual_rate(case: Case) -> Fix | None:
    """A rate that no optimizer can use is not halved: it is a slip."""
    fact = case.facts.get("train.learning_rate")
    rate = fact.value if fact is not None else None
    if not isinstance(rate, float) or rate < IMPOSSIBLE_RATE:
        return None
    return Fix(
        f"Set a usual learning rate: {rate:g} is too large for any optimizer",
        "changes-training",
        f"{USUAL_RATE:g} is a common start for Adam and its variants; plain SGD uses ten to a hundred times as much",
        settings={"train.learning_rate": USUAL_RATE},
    )


def _half(case: Case) -> bool:
    """Whether the job may compute in float16: a recording that saw no scaler at work says no."""
    bf16, fp16 = case.facts.get("train.bf16"), case.facts.get("train.fp16")
    if (fp16 is not None and fp16.value) or (bf16 is not None and bf16.value):
        return not (bf16 is not None and bf16.value)
    if case.flight is None:
        return True
    return any(isfinite(rank.page.get("scale", float("nan"))) for rank in case.flight.ranks)


experiment = Experiment(
    title="Resume from the last checkpoint before the NaN, once with half the rate and clipping, once unchanged with the same seed",
    change={"train.learning_rate": "half"},
    stop_after="twice the number of steps between the checkpoint and the first NaN",
    confirms="only the unchanged run becomes NaN",
    refutes="both become NaN at the same batch: look at that batch (numerics/bad-data) or at the kernels (float32 as a "
    "control)",
)
