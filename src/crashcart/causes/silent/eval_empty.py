"""The evaluation had no data.

What happens: metrics are -1, 0 or constant, or missing, though training goes well; the best checkpoint and early
stopping follow a number that means nothing.

Why: the validation set is empty, has no labels, or labels that do not belong to its images; a batch larger than the set
with ``drop_last``; a split that was filtered away; the name of the metric is never logged.

How it shows: COCO averages of -1.000 for all areas (no ground truth); ``no labels found in val set``; 0 labels in the
table of the detector; ``Num examples = 0``; early stopping on a metric that is not there; the same value to the last
digit each time. One area of -1.000 beside valid ones is healthy, and so is 0 after the first epoch. A recording counts the
batches of each evaluation.

What to do: print the number of batches, samples and labels of the validation loader; evaluate the training set for a
moment: it must not be 0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from crashcart.cause import compiled, decisive, strong, weak
from crashcart.causes._joined import edits_of
from crashcart.causes._length import batches, lengths
from crashcart.causes._loaders import loaders
from crashcart.causes.silent._lines import grade, lines_with
from crashcart.deaths import first, order
from crashcart.doubts import emptied, never_evaluated
from crashcart.log import evidence
from crashcart.model import Evidence, Experiment, Fix, Sign
from crashcart.numbers import to_float, to_int

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.case import Case
    from crashcart.causes._length import Length
    from crashcart.causes._loaders import Loader
    from crashcart.flight import Event
    from crashcart.log import Line

title = "The evaluation had no data, or no usable data"
lasting = True
alike = ("silent/not-learning", "data/empty-or-short")
ZEROS = r"^[\w\s@.:/*-]{1,30}\|(?:\s{0,20}0\.0{1,20}\s{0,20}\|){4,30}\s{0,20}(?:0\.0{1,20})?\s{0,20}$"
NO_LABELS = r"^\s*all\s+[1-9]\d*\s+0(?:\s+(?:0(?:\.0*)?|nan)){3,}"
NO_TRUE = r"\(TP = 0, FP = [1-9]\d*\)"
NO_HITS = r"^\s*all\s+\d+\s+[1-9]\d*(?:\s+0(?:\.0*)?){4}\s*$"
ANY_HITS = r"^\s*all\s+\d+\s+\d+(?:\s+[\d.e-]+){4}"
SEVERAL = 10
SAME = 5
LATE = 1000
NO_TIME = 0.05  # seconds
TRAIN_LOSS = frozenset({"loss", "train_loss", "train loss", "train/loss"})
METRIC = (
    r"^(?:val|valid|validation|eval|test)[_/ ].{0,200}(?:acc|map|f1|auc|iou|bleu|success|score|wer|cer|loss|precision|recall)|"
    r"^(?:precision|recall|f1|success_rate|\S{0,200}bbox_map\S{0,200})$"
)

MEAN_LOST = r"\b(?:bbox_|segm_|mean[_ ]|val[_/ ]){0,8}(?:map|miou|mdice|macc|mean (?:ap|iou|dice|auc)|mauc)(?:[_@]\S{0,10})?\s{0,20}[:=|]\s{0,20}-?nan\b"
ZERO_SCORE = r"\b(?:map(?:@\S{1,200})?|precision|recall|f1(?:-score)?)\s{0,20}[:=]\s{0,20}(\d{1,20}(?:\.\d{1,20})?)(?![\w.])"
ZERO_SCORES = 3
VALIDATION_BAR = r"\b(?:valid\w*|val|eval\w*|test\w*)\b[^|\[]{0,40}\d(?:it \[|%\|)"
SCORE = (
    r"\b(?:mean[ _]?|avg[ _]?|average[ _]?|overall[ _]?|val[_/ ]|eval[_/ ]|test[_/ ])?(?:ap|map\w*|dice|iou|miou|f1|acc(?:uracy)?|"
    r"precision|recall|psnr|ssim|bleu|rouge\w*|ndcg|mrr|hits@\d+|kappa|mae|rmse|score|fid)\b[^:=\d]{0,24}[:=]\s*(?:tensor\()?['\"]?nan\b"
)
NOTHING = ("mean of empty slice", "degrees of freedom <= 0 for slice", "invalid value encountered in double_scalars",
           "invalid value encountered in scalar divide", "invalid value encountered in long_scalars")  # fmt: skip

phrases = (
    decisive("average precision  (ap)", "average precision (ap)", says="no ground truth was met: the average over all "
                                                                       "areas is -1",
             pattern=r"area=\s{0,20}all\b.{0,200}=\s{0,20}-1(?:\.0{1,20})?\s{0,20}$", any_level=True),
    decisive("no labels found in val", "unique_truth_count = 0", "no validation data", "validation set is empty",
             "empty validation", "val_dataloader contains 0", "0 batches in the validation", "no validation batches",
             "evaluation dataset is empty", "eval dataset is empty", "eval_dataset is empty", "validation dataset is empty",
             "validation loader is empty", "val loader is empty", "no samples to evaluate", "nothing to evaluate",
             "0 validation samples", "0 val samples", "no ground truth found", "no groundtruth", "no annotations found in val", says="the validation set "
                                                                                                  "has nothing to "
             "compare with", any_level=True),
    decisive("num examples = 0", "eval_samples_per_second': 0.0,", says="the evaluation had 0 samples", any_level=True),
    decisive("scanning", says="the validation folder has images but no labels", any_level=True,
             pattern=r"val\w{0,60}:? .{0,200}\b0 images, [1-9]\d{0,20} backgrounds"),
    strong("total length of `dataloader` across ranks is zero", "total length of `combinedloader` across ranks is zero",
           says="a loader is empty", any_level=True),
    decisive("conditioned on metric", "could not find the monitored key", says="a metric of the evaluation is waited "
                                                                               "for, and only those "
             "of training were logged", any_level=True, unless=r"(?:following:[^.]{0,200}|metrics: ?\[[^\]]{0,200})(?:val|eval|test|"
                                                               r"dev)",
             pattern=r"(?:metric|monitor=)\W{0,20}(?:val|valid|eval|dev).{0,200}(?:which is not available|"
                     r"could not find the monitored key)"),
    strong("conditioned on metric", "could not find the monitored key", says="the monitored metric was never logged",
           pattern=r"which is not available|could not find the monitored key", any_level=True,
           unless=r"(?:following:[^.]{0,200}|metrics: ?\[[^\]]{0,200})(?:val|eval|test|dev)"),
    decisive("results of the whole dataset is empty", says="the evaluation produced no results", fatal=False, any_level=True),
    strong("no valid predictions for", "caused by empty gts", "evaluation results empty", says="the evaluation got no "
                                                                                               "result",
           fatal=False, any_level=True),
    strong("classes have no ground truth examples", says="classes of the evaluation have no labels", any_level=True, fatal=False,
           pattern=r"\[\s*\d+(?:,?\s+\d+){4,}"),
    weak("map: nan", "miou: nan", "map = nan", "map=nan", says="an average of the evaluation is NaN", fatal=False, any_level=True),
    strong("being set to 0.0 due to no true samples", "set to 0.0 due to no true nor predicted", "no positive samples in y_true",
           "no positive class found in y_true", "only one class present in y_true. roc auc score is not defined",
           says="the evaluation has no samples of the positive class", any_level=True, fatal=False,
           pattern=r"due to no true|no positive"),
    weak("validation: 0it", "validating: 0it", "eval: 0it", "evaluating: 0it", "testing: 0it", "test: 0it",
         says="a bar without a batch", fatal=False, any_level=True),
    weak(*NOTHING[1:], says="an average over 0 values", fatal=False, any_level=True),
    weak("mean of empty slice", "skipping val loop", "no true samples", "only one class present in y_true",
         says="a warning that fits an empty evaluation", fatal=False, any_level=True),
    weak("tp = 0, fp = ", "validation map", "calculating map", says="an evaluation without a correct detection", fatal=False),
)  # fmt: skip


def in_log(case: Case) -> Iterator[Sign]:
    """Tables of nothing but zeros late in a run, detections without one true, a metric that never moves."""
    classes = [line for line in lines_with(case, "tp = ") if "ap = " in line.lowered]
    if classes and all(compiled(NO_TRUE).search(line.text) for line in classes):
        says = "none of many detections is correct: labels and images do not match"
        yield Sign(grade(case, "strong"), says, (evidence(classes[0]),), fatal=False, order=classes[0].order)
    for line in lines_with(case, "all "):
        if compiled(NO_LABELS).match(line.text):
            says = "the detector's table has images but no labels in the validation set"
            yield Sign(grade(case, "decisive"), says, (evidence(line),), order=line.order)
            break
    hopeless = [line for line in lines_with(case, "all ") if compiled(NO_HITS).match(line.text)]
    if len(hopeless) >= SEVERAL and len(hopeless) == sum(
        compiled(ANY_HITS).match(line.text) is not None for line in lines_with(case, "all ")
    ):
        says = f"no correct prediction in {len(hopeless)} evaluations"
        yield Sign(grade(case, "strong"), says, (evidence(hopeless[-1]),), fatal=False, order=hopeless[0].order)
    tables = [line for line in lines_with(case, "|") if compiled(ZEROS).match(line.text)]
    if tables and _late(case):
        says = "every metric of the evaluation is 0, long after the start"
        yield Sign(grade(case, "strong"), says, (evidence(tables[0]),), fatal=False, order=tables[0].order)
    yield from _average_of_nothing(case)
    yield from _bars_of_nothing(case)
    yield from _no_number(case)
    yield from _constant(case)


def _no_number(case: Case) -> Iterator[Sign]:
    """Means over all classes that are NaN though the loss is a number, and scores that are all 0 late in a run."""
    lost = [line for line in lines_with(case, "nan") if compiled(MEAN_LOST).search(line.text)]
    broken = any(value != value for metric in case.log.metrics for name, value in metric.values if "loss" in name)  # noqa: PLR0124 - NaN
    if lost and not broken:
        says = "the mean over all classes is NaN: no class was present"
        yield Sign(grade(case, "strong"), says, (evidence(lost[0]),), fatal=False, order=lost[0].order)
        return
    scores = [
        (line, match[1])
        for line in lines_with(case, "map", "precision", "recall")
        if (match := compiled(ZERO_SCORE).search(line.text))
    ]
    if len(scores) >= ZERO_SCORES and _late(case) and not any(to_float(value, 1.0) for _, value in scores):
        says = "precision, recall and mean precision are exactly 0, long after the start"
        yield Sign(grade(case, "strong"), says, (evidence(scores[0][0]),), fatal=False, order=scores[0][0].order)


def _bars_of_nothing(case: Case) -> Iterator[Sign]:
    """Bars of validation that never count one batch. Some frameworks draw one such bar before the true one."""
    bars = [line for line in lines_with(case, "it/s", "s/it") if compiled(VALIDATION_BAR).search(line.text)]
    bare = [line for line in bars if "0it [00:00, ?it/s" in line.text]
    if len(bare) > 1 and len(bare) == len(bars):
        says = f"{len(bare)} validation progress bars without a single batch"
        yield Sign(grade(case, "strong"), says, (evidence(bare[0]),), fatal=False, order=bare[0].order)


def _average_of_nothing(case: Case) -> Iterator[Sign]:
    """NumPy's warning that an average is over nothing, and a score that is NaN beside it."""
    for line in lines_with(case, *NOTHING):
        for other in case.log.around(line, before=8, after=12):
            if "nan" in other.lowered and compiled(SCORE).search(other.text):
                says = "an evaluation score is an average over 0 values"
                yield Sign(grade(case, "strong"), says, (evidence(line), evidence(other)), fatal=False, order=line.order)
                return


def in_recorder(case: Case) -> Iterator[Sign]:
    """A loader that gave not one batch while the model was evaluated; an ``eval()`` without batches may be anything."""
    flight = case.flight
    leader = first(case)
    led_to = (
        emptied(flight, leader.raised) if flight is not None and leader is not None and leader.raised is not None else None
    )
    if led_to is not None and led_to.details.get("role") == "evaluation":
        place = str(led_to.details.get("place", "")).partition(" ")[0]
        here = (Evidence("recorder", "the loop over the loader that gave nothing", place),) if place else ()
        says = "the loader of the evaluation gave no batch, so that what the program wants later was never made"
        yield Sign("decisive", says, (led_to.evidence, *here), order=order(case))
        return
    phases = [event for event in flight.of_kind("phase") if event.details.get("phase") == "evaluate"] if flight else []
    bare = [event for event in phases if event.details.get("edge") == "empty loader"]
    if flight is not None and bare:
        seen = max((rank.page.get("eval_batches", 0.0) for rank in flight.ranks), default=0.0)
        says = f"a loader produced no batches in {len(bare)} evaluation(s)" + (f", others gave {seen:.0f}" if seen else "")
        yield Sign(grade(case, "strong" if seen else "decisive"), says, (bare[0].evidence,), order=order(case))
        return
    ends = [event for event in phases if event.details.get("edge") == "end"]
    if len(ends) > 1 and all(event.details.get("batches") == 0 and _short(event) for event in ends):
        says = f"{len(ends)} evaluations got no batches from a loader and took no time"
        yield Sign("weak", says, (ends[0].evidence, ends[-1].evidence), fatal=False, order=order(case))


def in_data(case: Case) -> Iterator[Sign]:
    """A loader of the evaluation that leaves out its one batch, since that is not full; in a recording also that none came."""
    for loader, length in _emptied(case):
        says = f"{length.count:,} {length.what} are fewer than a batch of {loader.batch}, and drop_last drops them: there are no batches"
        items = tuple(dict.fromkeys((*loader.evidence, *length.evidence)))
        if case.before:
            yield Sign("decisive", f"the evaluation loader produces nothing: {says}", items)
        elif case.flight is not None and never_evaluated(case.flight):
            steps = max(process.page.get("steps", 0.0) for process in case.flight.ranks)
            quote = f"{steps:.0f} optimizer steps, 0 batches for evaluation"
            seen = Evidence("recorder", quote, "recorder")
            yield Sign(grade(case, "decisive"), f"{quote}: {says}", (*items, seen), order=order(case))


def _emptied(case: Case) -> Iterator[tuple[Loader, Length]]:
    """Loaders of the evaluation with the length of their data, which is surely less than a batch."""
    for loader in loaders(case):
        value = loader.fact.value
        if loader.drop_last and loader.batch and value["for"] == "eval" and value["sure"] and not value["alternative"]:
            for length in lengths(case, loader):
                if not length.when and batches(case, loader, length.count) == 0:
                    yield loader, length
                break


def _short(event: Event) -> bool:
    seconds = event.details.get("seconds")
    return isinstance(seconds, (int, float)) and seconds < NO_TIME


def _late(case: Case) -> bool:
    told = [
        to_int(number, 0)
        for line in lines_with(case, "||", "iter", "step")
        for number in compiled(r"\b(\d{4,})\b").findall(line.text)
    ]
    return max([case.log.progress.step or 0, *told]) > LATE


def _constant(case: Case) -> Iterator[Sign]:
    metric = compiled(METRIC)
    values: dict[str, list[tuple[str, float]]] = {}
    lines: dict[str, Line] = {}
    for one in case.log.metrics:
        for name, value in one.values:
            if metric.search(name):
                values.setdefault(name, []).append((one.line.log, value))
                lines.setdefault(name, one.line)
    moving = {value for one in case.log.metrics for name, value in one.values if name in TRAIN_LOSS}
    if len(moving) < SAME:
        return
    for name, series in values.items():
        numbers = [value for _, value in series]
        if len(numbers) >= SAME and len(set(numbers)) == 1 and not (numbers[0] == 1 or "best" in name):
            says = f"{name} is exactly {numbers[0]:g} in {len(numbers)} lines"
            yield Sign(grade(case, "strong"), says, (evidence(lines[name]),), fatal=False, order=lines[name].order)
            return


def fix(case: Case) -> Iterator[Fix]:
    """Keep the batch that is not full; else words."""
    edits = edits_of((loader.fact for loader, _ in _emptied(case)), "keep_last_edits")
    if edits:
        why = "an evaluation needs every sample, and an incomplete batch does no harm there; training does not change"
        yield Fix("Keep the last batch of the evaluation", "exact", why, edits=edits)
    yield from fixes


fixes = (
    Fix(
        "Count the batches, samples and labels of the validation loader",
        "by-hand",
        "print len(loader), len(dataset) and the number of labels before the first epoch, and stop if one of them is 0; "
        "use drop_last=False for evaluation",
    ),
)
experiment = Experiment(
    title="Evaluate 100 training samples with the same code, then 100 validation samples",
    stop_after="both evaluations",
    confirms="the training samples give a sensible metric and the validation samples none",
    refutes="both are 0: then the model learns nothing, or the metric is wrong",
)
