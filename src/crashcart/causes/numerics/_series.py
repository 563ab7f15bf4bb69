"""The losses of step lines as series: where one stops being a number, and whether it comes back.

Lines that name the same losses belong to one series, whatever else stands in them. A loss of an evaluation is not a
loss of training: a validation set without a class gives NaN in healthy runs.
"""

from __future__ import annotations

from itertools import pairwise
from math import isfinite
from typing import TYPE_CHECKING

from crashcart.cause import compiled
from crashcart.numbers import to_float
from crashcart.record import record

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.case import Case
    from crashcart.log import Line, Metrics

LOSS = r"loss|^(?:ce|nll|nll_loss|ppl|objective|rpn_\w+|rcnn_\w+)$"
NO_LOSS = r"scale|lossy|^(?:val|valid|validation|eval|test|dev)(?:[_/ ]|$)|no_loss|skip|best|min_"
LOWERED = r"(?:reducing (?:loss scale )?to|setting loss scale to:?)\s*([\d.]+(?:e[-+]?\d+)?)"
EVALUATION_LINE = r"^\W*(?:val(?:id(?:ation)?)?|eval(?:uation)?|test)\b"
GRADIENT = r"^(?:grad|gradient|g|total)[_ ]?norm$|^grad[_ ]norm\b|^grad$|^norm$"
LEFT_OUT = (
    r"skipping (?:\w+ ){0,2}(?:batch|step|update|sample)|(?:batch|step|update|sample)s? (?:was |were )?skipped|"
    r"\bignoring\b|discard"
)
HUGE = 50
SCALE = r"(?:loss|grad)[_ ]scale\W{1,4}(\d+(?:\.\d+)?(?:e[-+]?\d+)?)(?![\w.])"
LAST_LINES = 6
MANY_HALVINGS = 6
LOW_SCALE = 2.0**14
VERY_LOW_SCALE = 2.0**9
HOVERING = ("reward", "kl", "policy", "adv", "g_loss", "d_loss", "gen_loss", "dis", "critic", "margin", "actor", "entropy")
TOTAL = frozenset({"loss", "train_loss", "train/loss", "total_loss", "train loss", "lm loss", "total loss", "avg_loss"})
ACCURACY = r"(?<![a-z])(?:acc(?:uracy)?|prec@1|top-?1|acc@1|acc1)['\"]?\W{1,5}(\d+(?:\.\d+)?)"
FEWEST = 5
EXPLODED = 20
SURELY_TOO_LARGE = 10
ACCURACY_LOST = 0.05
WELL_AGAIN = 5
BEGINNING = 10  # lines of one kind begin alike; later parts change ("1 day", "2 days")
NO_SANE_LOSS = 1e4


@record(frozen=True)
class Broken:
    """One series of losses with a value that is no number: its first such line and what stood before and after."""

    first: Metrics
    before: Metrics | None
    last: Metrics
    bad: tuple[str, ...]
    fine: tuple[str, ...]
    lines: int
    recovered: bool

    @property
    def partial(self) -> bool:
        """Whether only some terms of the loss are no numbers, the total set aside, and nothing exploded."""
        terms = [name for name in self.bad if name != "loss" and "total" not in name]
        return bool(terms) and len(terms) <= len(self.fine) and not self.jumped

    @property
    def jumped(self) -> bool:
        """Whether a loss was infinite, or grew by far before the end."""
        values = [*_losses(self.first).values()]
        if self.before is not None:
            then = _losses(self.before)
            values_then = [value for value in then.values() if isfinite(value) and value > 0]
            values_now = [value for value in values if isfinite(value)]
            if values_then and values_now and max(values_now) > HUGE * max(values_then):
                return True
        return any(isfinite(value) and abs(value) > NO_SANE_LOSS for value in values)


def broken(case: Case) -> Iterator[Broken]:
    """Each series of training losses that holds a value that is no number."""
    series: dict[tuple[str, ...], list[Metrics]] = {}
    for metric in case.log.metrics:
        names = tuple(sorted(_losses(metric)))
        if names:
            series.setdefault((metric.shape[:BEGINNING], *names), []).append(metric)
    for lines in series.values():
        bad = [index for index, one in enumerate(lines) if _bad(one)]
        if bad:
            first = lines[bad[0]]
            now = _losses(first)
            yield Broken(
                first=first,
                before=lines[bad[0] - 1] if bad[0] else None,
                last=lines[bad[-1]],
                bad=tuple(name for name, value in now.items() if not isfinite(value)),
                fine=tuple(name for name, value in now.items() if isfinite(value)),
                lines=len(bad),
                recovered=bad[-1] < len(lines) - 1
                or compiled(LEFT_OUT).search(lines[bad[-1]].line.text) is not None
                or _only_quoted(case, lines[bad[-1]]),
            )


def _only_quoted(case: Case, one: Metrics) -> bool:
    """Whether the line names no step, and true step lines with finite losses follow: generated or quoted text."""
    if one.step is not None:
        return False
    later = [other for other in case.log.metrics if other.line.order > one.line.order and other.step is not None]
    return sum(bool(_losses(other)) and not _bad(other) for other in later) >= WELL_AGAIN


# Lines that are only printed when a step went wrong, by a program that deals with it.
REMARK = r"\bWARN|skipping|skipped (?:the )?(?:step|update|batch)|non-?finite|overflow (?:detected|at)|ignoring"


def gradients(case: Case) -> tuple[list[Metrics], bool, bool]:
    """Step lines at the end whose gradient norm is no number; whether the loss reads 0 there; whether it was fine before."""
    by_shape: dict[str, list[tuple[Metrics, float]]] = {}
    for one in case.log.metrics:
        value = gradient(one)
        if value is not None and not compiled(REMARK).search(one.line.text):
            by_shape.setdefault(one.shape, []).append((one, value))
    for lines in by_shape.values():
        tail: list[Metrics] = []
        for one, value in reversed(lines):
            if isfinite(value):
                break
            tail.insert(0, one)
        if tail:
            zero = any(value == 0 for one in tail for value in _losses(one).values())
            return tail, zero, len(lines) - len(tail) >= len(tail)
    return [], False, False


def gradient(one: Metrics) -> float | None:
    return next((value for name, value in one.values if compiled(GRADIENT).search(name)), None)


def _losses(one: Metrics) -> dict[str, float]:
    if compiled(EVALUATION_LINE).match(one.line.text):
        return {}
    pattern, veto = compiled(LOSS), compiled(NO_LOSS)
    return {name: value for name, value in one.values if pattern.search(name) and not veto.search(name)}


EVALUATED = r"^(?:val|valid|validation|eval|evaluation|test|dev)(?:[_/ -]|$)"


def validation(case: Case) -> list[Metrics]:
    """The last lines of an evaluation whose loss is no number, if the very last is one of them."""
    lines = [(metric, values) for metric in case.log.metrics if (values := _evaluated(metric))]
    tail: list[Metrics] = []
    for one, values in reversed(lines):
        if all(isfinite(value) for value in values):
            break
        tail.insert(0, one)
    return tail


def trained(one: Metrics) -> bool:
    """Whether it is a line with a loss of training that is a number."""
    values = _losses(one).values()
    return bool(values) and all(isfinite(value) for value in values)


def _evaluated(one: Metrics) -> list[float]:
    whole = compiled(EVALUATION_LINE).match(one.line.text)
    named, loss = compiled(EVALUATED), compiled(LOSS)
    return [
        value for name, value in one.values if loss.search(name) and (whole or named.search(name)) and "best" not in name
    ]


def _bad(one: Metrics) -> bool:
    return any(not isfinite(value) for value in _losses(one).values())


def scales(case: Case) -> list[tuple[Line, float]]:
    """Loss scales that an optimizer went down to, in order."""
    found = []
    for line in case.log.lines:
        if "scale" in line.lowered and ("overflow" in line.lowered or "loss scale" in line.lowered):
            match = compiled(LOWERED).search(line.text)
            scale = to_float(match[1].rstrip(".")) if match else None
            if scale is not None:
                found.append((line, scale))
    return found


def falling(case: Case) -> tuple[Line, Line, float] | None:
    """Loss scales at the end of the log that only go down: many halvings, or steps in a row from a scale already low."""
    readings = scales(case) or _scale_column(case)
    last_lines = {line.order for line in case.log.lines[-LAST_LINES:]}
    if len(readings) < 2 or readings[-1][0].order not in last_lines:
        return None
    fall = [readings[-1]]
    for line, scale in reversed(readings[:-1]):
        if scale < fall[0][1]:
            break
        fall.insert(0, (line, scale))
    halvings = sum(later < earlier for (_, earlier), (_, later) in pairwise(fall))
    end = fall[-1][1]
    if (halvings >= MANY_HALVINGS and end <= LOW_SCALE) or (halvings >= 1 and end <= VERY_LOW_SCALE):
        return fall[0][0], fall[-1][0], end
    return None


def _scale_column(case: Case) -> list[tuple[Line, float]]:
    found = []
    for line in case.log.lines:
        if "scale" in line.lowered:
            match = compiled(SCALE).search(line.text)
            scale = to_float(match[1].rstrip(".")) if match else None
            if scale is not None:
                found.append((line, scale))
    return found


def climbing(case: Case) -> tuple[Line, Line, str] | None:
    """A loss that grows without end: by far, or steadily while the accuracy falls."""
    lines = [
        metric for metric in case.log.metrics if not any(word in name for name, _ in metric.values for word in HOVERING)
    ]
    series = [(line, value) for line in lines for name, value in _losses(line).items() if name in TOTAL and isfinite(value)]
    values = [value for _, value in series]
    if len(values) < FEWEST:
        return None
    first, last = series[0][0].line, series[-1][0].line
    half = sorted(values[: len(values) // 2])
    usual = half[len(half) // 2]
    if min(values[-2:]) > max(EXPLODED * usual, SURELY_TOO_LARGE):
        return first, last, f"the loss grew from about {usual:.3g} to {values[-1]:.3g}"
    right = [to_float(found[1], 0.0) for one, _ in series if (found := compiled(ACCURACY).search(one.line.text))]
    if len(right) < FEWEST or sum(values[-2:]) < 2 * sum(values[:2]):
        return None
    lost = (sum(right[:2]) - sum(right[-2:])) / max(sum(right[:2]), 1e-9)
    if lost > ACCURACY_LOST:
        return first, last, f"the loss rises from {values[0]:.3g} to {values[-1]:.3g} and the accuracy falls"
    return None
