"""Series of losses and accuracies that do not move, and the levels at which a model only guesses.

A classifier that guesses among n classes has a loss of ln n and an accuracy of 1/n. A loss that is the same to the last
digit on step after step means that the weights, or the batch, do not change at all. What hovers by nature (GANs, rewards)
and what a bar shows again between two updates is left out.
"""

from __future__ import annotations

from math import log, nan
from typing import TYPE_CHECKING

from crashcart.cause import compiled
from crashcart.numbers import to_float, to_int

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.case import Case
    from crashcart.log import Line, Metrics

Told = tuple["Line", "Line", str]

VOCABULARIES = (
    21128,
    28996,
    30522,
    32000,
    32128,
    49152,
    49408,
    50257,
    50304,
    51200,
    64000,
    100277,
    128256,
    151936,
    250002,
    256000,
)
CHANCE = tuple(log(classes) for classes in (2, 10, 100, 1000, *VOCABULARIES))
AT_CHANCE = 0.005
FLAT = 0.03
TREND = 0.003  # what a loss may fall from the first third to the last one and still be called flat
SAME_LINES = 6
SAME_WITH_ACCURACY = 4
REPEATED = 4
EPOCH_STEP_LOSS = (
    r"\bepoch\W{0,4}(\d+)\b(?:/\d+)?.{0,20}?\b(?:step|iter(?:ation)?|batch)\W{0,4}(\d+)\b.{0,30}?\bloss\W{0,4}(\d+\.\d{3,})"
)
CHANCE_LINES = 6
BEGINNING = 50  # steps in which every model guesses
LONG = 8
PAIRS = 3
EPOCHS = 5
UNMOVED = 0.001
SMALLEST = 0.05
DIGITS = 4
FAR_APART = 1000
LOW_ACCURACY = 0.05
HOVERING = ("reward", "kl", "policy", "adv", "g_loss", "d_loss", "gen_loss", "dis", "critic", "margin")
BAR = r"\d%\|| ?(?:it/s|s/it)\b"
NO_LOSS = r"scale|^(?:val|valid|validation|eval|test|dev)(?:[_/ ]|$)|[_/](?:val|epoch)$|best|min_|aux"
NOT_TRAINING = r"^\W{0,20}(?:\S{1,200}\s{1,20}){0,4}?\W{0,20}(?:val(?:id(?:ation)?)?|eval(?:uation)?|test(?:ing)?|best|sample)\b(?![_/])"
ACCURACY = r"(?<![a-z])(?:acc(?:uracy)?|prec@1|top-?1|acc@1|acc1)(?:[ _](?:train|val|top-?1))?['\"]?\W{1,14}(\d+(?:\.\d+)?)"
LOSS = r"(?<![a-z])loss['\"]?\W{1,14}(\d+\.\d+)"
EPOCH = r"\bepochs?\W{0,4}(\d+)"
TRAINED = r"(?<![\w])((?:train\w{0,60}[_/ ])\w{1,60}|\w{0,60}loss\w{0,60}|train\w{1,60})['\"]?[ :=]{1,4}['\"]?(\d{1,20}\.\d{1,20}(?:e[-+]?\d{1,20})?)"
NO_TRAINED = r"lr|rate|time|mem|speed|sec|size|throughput|samples|step|val|eval|test|scale"
ROW = r"^\s*\d+(?:\s+-?\d+(?:\.\d+)?(?:e[-+]?\d+)?){3,9}\s*$"


def hovers(one: Metrics) -> bool:
    """Whether the line holds losses that go up and down by nature."""
    return any(word in name for name, _ in one.values for word in HOVERING)


def flat(case: Case) -> Iterator[Told]:
    """Everything that stays where it is for so long that nothing can be learned."""
    for found in (_same, _repeats, _at_chance, _guessing, _epochs, _table):
        told = next(found(case), None)
        if told:
            yield told
            return


def _losses(case: Case) -> Iterator[tuple[str, list[tuple[Metrics, float]]]]:
    lines = [
        metric for metric in case.log.metrics if not hovers(metric) and not compiled(NOT_TRAINING).search(metric.line.text)
    ]
    for name in sorted({name for line in lines for name, _ in line.values if "loss" in name}):
        if not compiled(NO_LOSS).search(name):
            yield name, [(line, value) for line in lines if (value := line.get(name)) is not None and value > 0]


def _same(case: Case) -> Iterator[Told]:
    """The same digits on different steps, up to the end."""
    for name, series in _losses(case):
        plain = [(one, value) for one, value in series if not compiled(BAR).search(one.line.text)]
        if not plain:
            continue
        last = plain[-1][1]
        tail = []
        for one, value in reversed(plain):
            if value != last:
                break
            tail.append(one)
        steps = {_when(one) for one in tail} - {None}
        enough = SAME_WITH_ACCURACY if _same_accuracy(tail) else SAME_LINES
        if len(steps) >= enough and last >= SMALLEST and len(f"{last:g}".replace(".", "").lstrip("0")) >= DIGITS:
            yield tail[-1].line, tail[0].line, f"{name} is exactly {last:g} in {len(steps)} different steps"


def _when(one: Metrics) -> int | None:
    """What tells one line from the next: its step, its epoch, or its place where it closes an epoch (``1563/1563 [====``)."""
    if "[==" in one.line.text:
        return one.line.order
    return one.step if one.step is not None else _epoch(one.line)


def _same_accuracy(lines: list[Metrics]) -> bool:
    told = [compiled(ACCURACY).search(line.line.text) for line in lines]
    return all(told) and len({match[1] for match in told if match}) == 1


def _repeats(case: Case) -> Iterator[Told]:
    """The loss of each step is that of the same step one epoch before: the weights do not change."""
    seen: dict[tuple[int, int], tuple[Line, str]] = {}
    again = compared = 0
    first: Line | None = None
    for line in case.log.index.saying(("loss",)):
        match = compiled(EPOCH_STEP_LOSS).search(line.text)
        if match is None:
            continue
        epoch, step, loss = to_int(match[1], 0), to_int(match[2], 0), match[3]
        if (epoch - 1, step) in seen:
            before, old = seen[epoch - 1, step]
            compared += 1
            again += old == loss
            first = first or before
        seen.setdefault((epoch, step), (line, loss))
        if first and again >= REPEATED and again == compared:
            yield first, line, f"the losses of {again} steps are identical to those of the same steps one epoch before"


def _at_chance(case: Case) -> Iterator[Told]:
    for name, series in _losses(case):
        values = [value for _, value in series]
        if len(values) < CHANCE_LINES or max(values) - min(values) > FLAT * max(values):
            continue
        middle = sum(values) / len(values)
        beginning = all((one.step or BEGINNING) < BEGINNING and (_epoch(one.line) or 0) == 0 for one, _ in series)
        guessed = not beginning and any(abs(middle - level) < AT_CHANCE * level for level in CHANCE) and not _falls(values)
        if guessed or (len(values) >= LONG and _low_accuracy([one for one, _ in series])):
            says = f"{name} stays at {middle:.4g} over {len(values)} lines, the level of random guessing"
            yield series[0][0].line, series[-1][0].line, says


def _falls(values: list[float]) -> bool:
    third = max(1, len(values) // 3)
    first, last = sum(values[:third]) / third, sum(values[-third:]) / third
    return first - last > TREND * first


def _low_accuracy(lines: list[Metrics]) -> bool:
    told = [
        value
        for line in lines
        for name, value in line.values
        if name.startswith("acc") or name.endswith(("acc", "accuracy"))
    ]
    return len(told) >= LONG and max(told) < LOW_ACCURACY


def _guessing(case: Case) -> Iterator[Told]:
    """A loss of ln n and an accuracy of 1/n, each several times, also on lines of their own."""
    losses, accuracies = [list(_read(case, pattern)) for pattern in (LOSS, ACCURACY)]
    if min(len(losses), len(accuracies)) < PAIRS:
        return
    percent = any(value > 1 for _, value in accuracies)
    rates = [value / 100 if percent else value for _, value in accuracies]
    middle = sum(rates) / len(rates)
    classes = to_int(round(1 / middle, 0), 0) if middle > 0 else 0
    if classes < 2 or max(abs(rate * classes - 1) for rate in rates) > 0.06:
        return
    if all(abs(value - log(classes)) < AT_CHANCE * 2 * log(classes) for _, value in losses):
        says = (
            f"loss and accuracy are always those of random guessing among {classes} classes (ln {classes} and 1/{classes})"
        )
        yield losses[0][0], losses[-1][0], says


def _read(case: Case, pattern: str) -> Iterator[tuple[Line, float]]:
    for line in case.log.index.saying(("loss", "acc", "prec@", "top")):
        match = compiled(pattern).search(line.text)
        value = to_float(match[1]) if match else None
        if value is not None:
            yield line, value


def _epoch(line: Line) -> int | None:
    match = compiled(EPOCH).search(line.text)
    return to_int(match[1]) if match else None


def _epochs(case: Case) -> Iterator[Told]:
    """What is trained for reads the same in epoch after epoch."""
    columns: dict[str, dict[int, tuple[Line, str]]] = {}
    for line in case.log.index.saying(("epoch",)):
        epoch = _epoch(line)
        if epoch is None or compiled(BAR).search(line.text):
            continue
        for name, value in compiled(TRAINED).findall(line.text):
            if not compiled(NO_TRAINED).search(name):
                columns.setdefault(name.lower(), {})[epoch] = (line, value)
    for name, column in columns.items():
        values = [to_float(value, nan) for _, value in column.values()]
        digits = min(len(value.split("e")[0].replace(".", "").lstrip("0")) for _, value in column.values())
        if (
            len(values) >= EPOCHS
            and digits >= DIGITS
            and max(values) - min(values) <= UNMOVED * max(values) >= UNMOVED * SMALLEST
        ):
            lines = [line for line, _ in column.values()]
            yield lines[0], lines[-1], f"{name} is {values[0]:g} in {len(values)} epochs and never changes"


def _table(case: Case) -> Iterator[Told]:
    """Rows of numbers over thousands of steps (Chainer, Keras): one column is 0 throughout, and one stays flat."""
    rows = [
        (line, line.text.split())
        for line in case.log.lines
        if line.text[:30].strip()[:1].isdigit() and compiled(ROW).match(line.text)
    ]
    if len(rows) < LONG or len(rows) < len(case.log.lines) // 4:
        return
    width = min(len(cells) for _, cells in rows)
    columns = [[to_float(cells[index], nan) for _, cells in rows] for index in range(width)]
    counts = any(column == sorted(column) and column[-1] - column[0] >= FAR_APART for column in columns)
    nothing = any(not any(column) for column in columns)
    still = [column for column in columns if min(column) > SMALLEST and 0 < max(column) - min(column) < FLAT * max(column)]
    still = [column for column in still if column != sorted(column) and not _falls(column)]
    if counts and nothing and still:
        says = f"over {len(rows)} rows one column is 0 and one stays at {still[0][-1]:g}: nothing changes"
        yield rows[0][0], rows[-1][0], says
