"""The log shows 0 or an old value although the loss was NaN.

What happens: training looks perfect (``loss: 0.0``) or unchanged while every step is lost.

Why: some frameworks replace what is not finite before they average it for the log (``logging_nan_inf_filter`` of the
Hugging Face Trainer counts NaN as 0), leave the field out (Megatron), or set the loss to 0 and go on. The run ends with
0 and a useless checkpoint.

How it shows: a loss that is exactly 0.0 from one line to the next, mostly with ``grad_norm: nan``; a rate that no
longer moves, since the scaler skips each step; ``eval_loss: nan`` beside a fine training loss; "setting loss value to
0". A recording sees the loss that goes backward, whatever the log says.

What to do: treat the run as diverged from the first such line; switch the filter off (``--logging_nan_inf_filter
false``) so that the next one shows, and stop on it. An honest 0 has a finite gradient norm.
"""

from __future__ import annotations

from math import isfinite
from typing import TYPE_CHECKING

from crashcart.cause import compiled, decisive, weak
from crashcart.causes.numerics._recorded import broken_losses
from crashcart.causes.silent._lines import grade
from crashcart.deaths import order
from crashcart.log import evidence
from crashcart.model import Experiment, Fix, Sign

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.case import Case
    from crashcart.log import Metrics

title = "The log hides NaN: it shows 0 or an old value instead"
piece = "StepGuard"
lasting = True
judges_training = True
alike = ("numerics/diverged", "silent/not-learning")
FINE = r"\btrain_loss\W{1,40}\d"
LOST = r"\beval_loss\W{1,40}(?:nan|inf)\b"
MEAN_ZERO = r"\btrain_loss\W{1,40}0\.0(?![\d.])"
TOOK = r"\btrain_runtime\W{1,40}([\d:.]+)"
AT_END = 60
ALIKE = 6  # two lines of one program begin alike
FAR_FROM_ZERO = 0.05
SEVERAL = 3
GRADIENTS = ("grad_norm", "grad norm", "gnorm", "train/grad_norm", "total_norm")
LOSSES = ("loss", "train/loss", "train_loss", "lm loss")
RATES = ("learning_rate", "lr", "train/learning_rate")

phrases = (
    decisive("setting loss value to 0", "setting loss to 0", "loss set to 0", "loss to zero",
             says="the program replaces NaN in the loss or data by 0", any_level=True, pattern=r"nan|inf"),
    weak("nan_to_num", "replacing with zeros", "logging_nan_inf_filter", says="values that are not finite are replaced",
         fatal=False, any_level=True),
    weak("'loss': 0.0,", '"loss": 0.0,', says="the logged loss is exactly 0", fatal=False),
)  # fmt: skip


def in_log(case: Case) -> Iterator[Sign]:
    """Step lines that contradict themselves, and an evaluation that shows what the training log hides."""
    yield from _shown_by_evaluation(case)
    yield from _zero_beside_nan(case)
    yield from _zero_lines(case)
    yield from _zero_at_the_end(case)


def _zero_at_the_end(case: Case) -> Iterator[Sign]:
    """A summary whose mean loss over all steps is exactly 0, though the steps took their time."""
    for line in case.log.lines[-AT_END:]:
        if "train_loss" in line.lowered and compiled(MEAN_ZERO).search(line.text):
            near = " ".join(other.text for other in case.log.around(line, before=4, after=4))
            took = compiled(TOOK).search(near)
            if took is not None and not compiled(r"^(?:0:00:0[0-4]|[0-4]\.)").match(took[1]):
                says = "the mean loss over the whole training is exactly 0, which only happens if it was never finite"
                yield Sign(grade(case, "strong"), says, (evidence(line),), fatal=False, order=line.order)
            return


def _shown_by_evaluation(case: Case) -> Iterator[Sign]:
    """A loss of training that is fine, and one of evaluation that is not, from a framework that filters the first."""
    fine = [line for line in case.log.index.saying(("train_loss",)) if compiled(FINE).search(line.text)]
    for line in case.log.index.saying(("eval_loss",)):
        if compiled(LOST).search(line.text) and fine:
            says = "the evaluation loss is NaN, while the averaged training loss, which leaves NaN out, looks fine"
            yield Sign(
                grade(case, "strong"), says, (evidence(fine[-1]), evidence(line)), order=min(fine[-1].order, line.order)
            )
            return


def _zero_beside_nan(case: Case) -> Iterator[Sign]:
    """Every step reads a loss of exactly 0 while the evaluation between them is NaN."""
    losses = [metric for metric in case.log.metrics if metric.get("loss") is not None]
    lost = next((line for line in case.log.index.saying(("eval_loss",)) if compiled(LOST).search(line.text)), None)
    if lost is not None and len(losses) > 1 and all(loss.get("loss") == 0 for loss in losses):
        says = "the training loss is exactly 0 in every line, while the evaluation loss is NaN"
        yield Sign(grade(case, "strong"), says, (evidence(losses[0].line), evidence(lost)), order=losses[0].line.order)


def _zero_lines(case: Case) -> Iterator[Sign]:
    """Step lines whose loss is exactly 0 while their gradient, other fields or the step before say that it was not."""
    before: Metrics | None = None
    for metric in case.log.metrics:
        loss = next((metric.get(name) for name in LOSSES if metric.get(name) is not None), None)
        if loss is None:
            if before is not None and _left_out(metric):
                says = "the line has a gradient norm that is not finite, and no loss"
                yield Sign(
                    grade(case, "strong"), says, (evidence(before.line), evidence(metric.line)), order=metric.line.order
                )
                return
            continue
        why = _masked(metric, before) if loss == 0 else None
        if why:
            items = tuple(evidence(item.line) for item in (before, metric) if item)
            yield Sign(grade(case, "strong"), f"the logged loss is exactly 0 while {why}", items, order=metric.line.order)
            return
        before = metric


def _left_out(one: Metrics) -> bool:
    gradient = next((one.get(name) for name in GRADIENTS if one.get(name) is not None), None)
    return (
        gradient is not None
        and not isfinite(gradient)
        and not any("loss" in name and "scale" not in name for name, _ in one.values)
    )


def _masked(one: Metrics, before: Metrics | None) -> str | None:
    gradient = next((one.get(name) for name in GRADIENTS if one.get(name) is not None), None)
    if gradient is not None:
        return None if isfinite(gradient) else "the gradient norm is not finite"
    if any(not isfinite(value) for _, value in one.values):
        return "other values in the line are not finite"
    if before is None or before.shape[:ALIKE] != one.shape[:ALIKE]:
        return None
    old = next((before.get(name) for name in LOSSES if before.get(name) is not None), None)
    if old is None or old < FAR_FROM_ZERO:
        return None
    frozen = any(one.get(name) is not None and one.get(name) == before.get(name) != 0 for name in RATES)
    return f"it was {old:g} in the line before" + (" and the learning rate no longer changes" if frozen else "")


def in_recorder(case: Case) -> Iterator[Sign]:
    """Losses that went backward as NaN while the log shows numbers for the same steps."""
    lost = next((one for one in broken_losses(case) if one.stays and one.count >= SEVERAL), None)
    if lost is None:
        return
    shown = [
        (metric, loss)
        for metric in case.log.metrics
        if (loss := next((metric.get(name) for name in LOSSES if metric.get(name) is not None), None)) is not None
    ]
    after = [(one, loss) for one, loss in shown if one.step is not None and one.step > lost.step]
    if len(after) > 1 and all(isfinite(loss) for _, loss in shown):
        says = f"the loss used in backward was not finite from step {lost.step} on, but the log shows {after[-1][1]:g}"
        items = (lost.event.evidence, evidence(after[-1][0].line))
        yield Sign(grade(case, "decisive"), says, items, order=order(case) + 1)  # after what made it so


fixes = (
    Fix(
        "Show NaN in the log, and stop on it",
        "exact",
        "the training is the same; the next NaN is visible at once",
        arguments={"--logging_nan_inf_filter": "false"},
    ),
)
experiment = Experiment(
    title="Resume from the last checkpoint before the first 0.0 with the filter off, and once unchanged",
    stop_after="50 steps after the first 0.0",
    confirms="with the filter off the loss is nan where the unchanged run shows 0",
    refutes="it is 0 with a finite gradient norm: then no label counts in the loss (silent/not-learning)",
)
