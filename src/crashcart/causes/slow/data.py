"""The training step waits for the loader.

What happens: the accelerator is idle for a large part of each step, or for a long moment every few steps.

Why: decoding and augmentation need more processor time than there are workers or cores, workers are started anew each
epoch, ``num_workers=0``, all workers finish a batch at the same moment, threads of NumPy or OpenCV fight for the same
cores.

How it shows: ``data_time`` is a good part of ``time``; a burst of fast steps, as many as were prefetched, then a wait;
a profile with ``enumerate(DataLoader)`` on top. The first step of a run always waits: that alone is nothing. A
recording measures the wait of each rank.

What to do: measure the loader alone; more workers up to the cores that the job really has, ``persistent_workers``,
prefetch, smaller or pre-decoded images, augmentation on the accelerator. If the loader is slow with one worker reading,
not decoding, it is the storage.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from crashcart.cause import compiled, strong, weak
from crashcart.causes.slow._pace import grade, lines_with, speeds
from crashcart.causes.slow._recorded import waits
from crashcart.deaths import order
from crashcart.log import evidence
from crashcart.model import Experiment, Fix, Sign
from crashcart.numbers import to_float, to_int

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.case import Case
    from crashcart.log import Line
    from crashcart.model import Strength

title = "The training step waits for data"
alike = ("slow/storage", "slow/straggler")
SHARE = 0.4
SOME = 0.25
NOTICEABLE = 0.1
DROP = 3.0
TIME = r"(?<![a-z_])(?:up?da?te?_s|step_s|train_step_time|(?:(?:i|batch|iter(?:ation)?|step|total|train)[_ ]?)?time)(?:[_/](?:total|step|iter))?(?: cost)?\W{1,3}([\d.]+)"
WAIT = (
    r"(?<![a-z_])(?:data_s|load_data_time|r_?time|read(?:ing)?[_ ]time|data(?:[_ ]?(?:load(?:ing|er)?|fetch(?:ing)?|wait(?:ing)?|iter))?(?:[_ ]?time)?|dataloader[_ ]?(?:time|wait)|"
    r"load(?:ing)?[_ ]time|fetch(?:ing)?[_ ]time|batch[_ ]wait|wait(?:ing)?[_ ](?:time|data)|input[_ ]time|time[_/](?:data|load\w{0,60}))"
    r"\W{1,3}([\d.]{1,24})(?! ?(?:images|samples|files|examples|GB|MB))"
)
AVERAGE = r" ?s? ?\(([\d.]{1,24}) ?s?\)"  # what stands behind the present value: its average so far
COUNTED = r"\[\s*(\d+)\s*/\s*\d+\s*\]|\b(\d+)/\d+\b"
AVERAGED = 10  # a first line at this step or later holds the mean of an interval
COLD = 10
LATE = r"\b(?:step|iter\w*)\W{1,3}(?:[5-9]|\d\d+)\b"  # a line that is not the first step's
SETTLED = 50  # steps after which an average says something
PERCENT = (
    r"(?:data(?:[_ ]?load\w{0,9})?|dataloader|loader|input(?: pipeline)?)[ _](?:wait\w{0,9}|time|stall\w{0,9}|bound|load\w{0,9})\b[^%\n\d]{0,24}([\d.]{1,24}) ?%|"
    r"(?<![\d.])([\d.]{1,24}) ?% of (?:the |each )?(?:step|iteration|training|total|run)?[ _]?time (?:is |was )?(?:spent )?(?:in |on |waiting (?:for|on) )?"
    r"(?:the )?(?:data|loader|input)"
)
PREPARED = (
    r"(?:generated|loaded|prepared|fetched|produced|collated|decoded|built|read) (\d+) (batch|sample|image|example|item|frame|clip)\w*"
    r"[^\d]{0,20}(?:of size \d+ )?(?:in|took|within)\W{1,3}([\d.]+) ?s(?:ec(?:onds?)?)?\b"
)
SLOW_EACH = {"batch": 1.0}
SLOW_SAMPLE = 0.3
RECORDED, RECORDED_SOME = 0.5, 0.2  # shares of the training time
WORTH = 0.02  # seconds for a batch
NET = r"\b(?:net|batch|bt)\W{1,3}([\d.]+)s"
PROFILED = r"(?:enumerate\(DataLoader\)|train_dataloader_next|fetch_next|dataloader_iter)"

phrases = (
    strong("highly input-bound", "step time is in dataloader", "high time cost on input data loading", "input pipeline is the bottleneck",
           "data loading is the bottleneck", "dataloader is the bottleneck", "bottleneck is data", "bottlenecked by data",
           "data loading bottleneck detected", "starved for data", "gpu starvation",
           says="a profiler reports that the step waits for its input", fatal=False, any_level=True,
           unless=r"\bif\b|may be|might be|could be|avoid"),
    weak("% of step time", "% of the step time", "dataloader wait", "data loading time", says="the log has the time spent waiting for data", fatal=False, any_level=True,
         pattern=PERCENT),
    weak("batches of size", " batches in ", says="the log has the time needed to make batches", fatal=False, any_level=True,
         pattern=PREPARED),
    weak("enumerate(dataloader)", "train_dataloader_next", "mb_qsize: 0", says="a profile or a queue shows the loader",
         fatal=False, any_level=True),
    weak("this dataloader will create", "which may be a bottleneck", "input-bound", "input_bound", "data-bound",
         "data loading is slow", "dataloader is slow", "waiting for data", says="a warning about the loader", fatal=False,
         any_level=True),
)  # fmt: skip


def in_log(case: Case) -> Iterator[Sign]:
    """The loader's share of the step time, a profile, or a speed that falls once the prefetched batches are used up."""
    waits = list(_waits(case))
    if (
        len(waits) > 1
        and not compiled(LATE).search(waits[0][0].text)
        and waits[0][2] > COLD * max(wait for _, _, wait in waits[1:])
    ):
        waits = waits[1:]  # only the first interval waited
    total, waited = sum(time for _, time, _ in waits), sum(wait for _, _, wait in waits)
    if len(waits) > 1 and waited > NOTICEABLE * len(waits) and waited > SHARE * total:
        worst = max(waits, key=lambda item: item[2])[0]
        says = f"{waited:.1f} s of {total:.1f} s in {len(waits)} step lines were spent waiting for data"
        yield Sign(grade(case, "strong"), says, (evidence(worst),), fatal=False, order=waits[0][0].order)
    elif len(waits) > 1 and waited > NOTICEABLE * len(waits) and waited > SOME * total:
        says = f"{waited:.1f} s of {total:.1f} s in {len(waits)} step lines were spent waiting for data"
        yield Sign("weak", says, (evidence(waits[0][0]),), fatal=False, order=waits[0][0].order)
    for line in lines_with(case, "enumerate(dataloader)", "train_dataloader_next"):
        share = compiled(r"(?<![\d.])([\d.]{1,24}) ?%").search(line.text) or compiled(
            r"\|\s{0,20}([\d.]{1,24})\s{0,20}\|?\s{0,20}$"
        ).search(line.text)
        if share and to_float(share[1], 0.0) > 100 * SHARE and compiled(PROFILED).search(line.text):
            says = f"{share[1]} % of the profiled time is the loader"
            yield Sign(grade(case, "strong"), says, (evidence(line),), fatal=False, order=line.order)
    yield from _averages(case, waits)
    yield from _told(case)
    yield from _fell_early(case)


def _averages(case: Case, waits: list[tuple[Line, float, float]]) -> Iterator[Sign]:
    """Averages in parentheses, after enough steps, without the share of the first batch."""
    first: float | None = None
    found: tuple[Line, float, float] | None = None
    for line in lines_with(case, "data"):
        wait = compiled(WAIT + AVERAGE).search(line.text)
        if wait is None:
            continue
        whole = compiled(TIME + AVERAGE).search(line.text) or compiled(TIME + r"s,[^()]{0,24}\(([\d.]+)s").search(line.text)
        net = compiled(NET).search(line.text)
        count = compiled(COUNTED).search(line.text)
        steps = to_int(next(group for group in count.groups() if group), 0) if count else 0
        if first is None and steps <= 1:
            first = to_float(wait[1].rstrip("."), 0.0)
        if (whole or net) and steps >= SETTLED:
            total = to_float((whole[2] if whole else net[1] if net else "0").rstrip("."), 0.0)
            found = line, total, max(0.0, to_float(wait[2].rstrip("."), 0.0) - (first or 0) / steps)
    if found and not waits[2:] and found[2] > NOTICEABLE and found[2] > SHARE * found[1]:
        says = f"on average, {found[2]:.2f} s of each {found[1]:.2f} s step are spent waiting for data"
        yield Sign(grade(case, "strong"), says, (evidence(found[0]),), fatal=False, order=found[0].order)


def _told(case: Case) -> Iterator[Sign]:
    """A share of the time in per cent, or how long the making of batches took."""
    for line in lines_with(case, "%", " in ", "took"):
        share = compiled(PERCENT).search(line.text) if "%" in line.text else None
        if share and 100 * SHARE < to_float((share[1] or share[2]).rstrip("."), 0.0) <= 100:
            says = f"{share[1] or share[2]} % of the time is spent on data"
            yield Sign(grade(case, "strong"), says, (evidence(line),), fatal=False, order=line.order)
            return
        made = compiled(PREPARED).search(line.text)
        count = to_int(made[1], 0) if made else 0
        if made and count and to_float(made[3].rstrip("."), 0.0) / count > SLOW_EACH.get(made[2].lower(), SLOW_SAMPLE):
            says = f"making {made[1]} {made[2].lower()}s takes {made[3]} s"
            yield Sign(grade(case, "strong"), says, (evidence(line),), fatal=False, order=line.order)
            return


def _waits(case: Case) -> Iterator[tuple[Line, float, float]]:
    """Line, step time and wait of each step line but the first one, which always waits."""
    first = True
    for line in lines_with(case, "data", "rtime", "wait", "load", "fetch", "input", "read"):
        wait, time = compiled(WAIT).search(line.text), compiled(TIME).search(line.text) or compiled(NET).search(line.text)
        if wait and time:
            counted = compiled(COUNTED + r"|\biter\w*\W{1,3}(\d+)").search(line.text)
            steps = to_int(next(group for group in counted.groups() if group), 0) if counted else 0
            begins = counted is not None and steps == 0  # the first step of an epoch always waits
            if (not first and not begins) or steps >= AVERAGED or compiled(LATE).search(line.text):
                waited = to_float(wait[1].rstrip("."), 0.0)
                yield line, max(to_float(time[1].rstrip("."), 0.0), waited), waited
            first = False


def _fell_early(case: Case) -> Iterator[Sign]:
    found = speeds(case)
    early = [item for item in found if compiled(r"epoch\W{0,3}[01]\b").search(item[0].text)]
    if len(early) > 4 and early == found:
        best, last = max(early, key=lambda item: item[1]), early[-1]
        if best[0].order < last[0].order and last[1] * DROP < best[1]:
            says = f"the speed fell from {best[1]:g} to {last[1]:g} in the first epoch: the prefetched data is used up"
            yield Sign(grade(case, "strong"), says, (evidence(best[0]), evidence(last[0])), fatal=False, order=last[0].order)


def in_recorder(case: Case) -> Iterator[Sign]:
    """The share of the training time in which a rank waited for its loader."""
    for wait in waits(case)[:1]:
        if wait.share > RECORDED_SOME and wait.each > WORTH:
            says = f"{wait.process.name} spent {min(1.0, wait.share):.0%} of its time waiting for data, {wait.each:.2f} s per batch"
            strength: Strength = "strong" if wait.share > RECORDED else "weak"
            yield Sign(grade(case, strength), says, (wait.evidence,), fatal=False, order=order(case))


fixes = (
    Fix(
        "Use more loader workers, and keep them alive",
        "same-recipe",
        "use as many as the job has cores per rank; persistent workers are not restarted every epoch",
        settings={"loader.workers": "double", "loader.persistent": True},
    ),
)
experiment = Experiment(
    title="Time 200 steps on one batch kept on the GPU, and 200 batches of the loader without training",
    start_from="the beginning",
    stop_after="200 steps each",
    confirms="steps on the kept batch are much faster than in training, and the loader alone is as slow as training",
    refutes="the loader alone is faster than the step: then look at compilation, collectives or clocks",
)
