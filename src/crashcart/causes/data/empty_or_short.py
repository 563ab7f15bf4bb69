"""There are no samples, or fewer than one batch, chunk or window needs.

What happens: the data set or the loader is empty. Some programs say so; others divide by ``len(loader)``, use a loop
variable after a loop that never ran, or train for a hundred epochs in no time with a loss of exactly 0.

Why: a wrong folder or suffix, a filter that drops everything, a split without lines; ``drop_last`` with a batch larger than
the set; episodes shorter than the action chunk (``range(max(0, n - chunk + 1))`` is empty); more ranks than samples.

How it shows: ``num_samples=0``, ``Found 0 files in subfolders``, ``not a single sample in your epoch_iterator``,
``ZeroDivisionError`` at ``len(...)``, ``local variable 'step' referenced before assignment`` after the loop, ``0it [00:00,
?it/s]``.

What to do: print ``len(dataset)`` and ``len(loader)`` of each rank before training, and refuse to start at 0; say how many
samples a filter dropped.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from crashcart.cause import compiled, decisive, strong, weak
from crashcart.causes._joined import launched_with, ranks
from crashcart.causes._length import batches, lengths, share
from crashcart.causes._loaders import loaders
from crashcart.causes.data._episodes import shortened
from crashcart.causes.data._where import LOADER
from crashcart.log import evidence
from crashcart.model import Edit, Experiment, Fix, Sign

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.case import Case
    from crashcart.log import Raised
    from crashcart.model import Strength

title = "The dataset is empty, or smaller than one batch or chunk"
piece = "chunk_index"
lasting = True
alike = ("config/missing-or-wrong", "config/batch-arithmetic")
COUNTS = (
    r"len\(|epoch_size|num_batches|n_batches|num_samples|n_samples|dataset_size|data_size|steps_per_epoch|iters?_per_epoch|"
    r"batches_per_epoch|"
    r"count\b|total\b|\bn\b|num_\w+|step\b|steps\b|\bi\b|batch_idx|num_examples|len_|_len\b|size\b|\.avg|sum\b"
)
THINGS = (
    r"(?:datasets?|data ?set|data|(?:data)?loaders?|split|samples?|images?|examples?|episodes?|annotations?|videos?|"
    r"files?|labels?|batch(?:es)?|sequences)"
)
AVERAGED = (
    r"(?:mean|avg|average|running|epoch_?loss|train_?loss|total_?loss|losses|loss_?sum|cum_loss|"
    r"loss_acc)(?:\w{0,20}['\"\])]{0,4}\s{0,4}=[^=]|.{0,40}/)"
    r"(?!.{0,80}(?:lr|weight|dim|scale|time|height|width))"
)
EVALUATION = r"metric|precision|recall|f1|\biou\b|accuracy|fps|elapsed|time"
LOOP = (
    r"(?:local variable|variable|name|free variable) '(?:step|steps|data|batch|i|idx|index|it|iteration|batch_idx|batch_i|"
    r"loss|losses|outputs?|"
    r"inputs?|images?|imgs?|targets?|labels?|pred\w*|logits|x|y|loss_\w+|\w*_loss|iter|global_step|samples?|results?|"
    r"metrics)' "
    r"(?:referenced before assignment|is not defined)|cannot access (?:local|free) variable '(?:step|steps|data|batch|i|"
    r"idx|index|it|iteration|batch_idx|"
    r"batch_i|loss|losses|outputs?|inputs?|images?|imgs?|targets?|labels?|pred\w*|logits|x|y|loss_\w+|\w*_loss|iter|"
    r"global_step|samples?|results?)'"
)

phrases = (
    decisive(
        "num_samples=0", "found 0 files in subfolders", "found 0 images in", "found no valid file for the classes",
        "couldn't find any class folder", "no labels found in", "train without labels", "corresponds to no data", "returned 0 length",
        "can not be larger than number of episodes", "out of bounds for size 0",
        "last epoch number of samples exceeded max value", "no sample to consume", "no longer able to sample",
        "no valid data found in", "bigger than number of samples", "larger than the number of samples",
        "larger than the dataset", "shorter than the sequence length",
        says="there are no samples, or too few for a batch",
        unless=r"in val set|compute metrics|\bval(?:idation)?: |val_dataloader|background|validation|\btest\b",
    ),
    decisive("not a single sample in your epoch_iterator", "across ranks is zero", "stopped: no training batches",
             says="the loader produced no batches", unless=r"val_|test_", any_level=True),
    strong(
        "is empty", "are empty", "empty dataset", "length 0", "0 samples", "0 images", "0 examples", "zero length",
        "no images", "no samples", "no data", "no files", "no training", "no episodes", "no examples", "no annotations",
        "no videos", "no valid", "0 files", "length of the dataset is 0",
        says="a dataset or loader is empty",
        pattern=rf"(?:Error|Exception|assert|FATAL|CRITICAL).{{0,80}}(?:{THINGS}.{{0,40}}(?:(?:is|are) empty|length (?:is |of )?0|"
                r"zero length|is 0\b)|empty (?:dataset|data)|"
        rf"\b(?:0|no|zero)(?: \w+){{0,2}} {THINGS}(?: \w+)? ?(?:found|were|was|available|left|in\b|for\b|to\b|given|"
        r"provided|exist|$))",
        unless=r"validation|\beval|cache|No data augmentation|such file",
    ),
    strong(
        "a must be greater than 0 unless no samples", "random_ expects 'from' to be less than 'to'",
        "empty range for randrange", "low >= high", "cannot choose from an empty", "need at least one array to",
        "expected a non-empty list of tensors", "expects a non-empty tensorlist", "arg is an empty sequence",
        "cannot infer schema from empty", "not enough samples", "too few samples", "no objects to concatenate",
        "datasets should not be an empty iterable", "sampler is empty", "n_samples=0", "num_samples should be",
        "with n_samples=1", "__len__() should return >= 0",
        says="an item or batch was requested from an empty collection",
        pattern=r"unless no samples|random_ expects|randrange|low >= high|empty|at least one array|non-empty|"
                r"enough samples|few samples|"
        r"n(?:um)?_samples=[01]\b|No objects|>= 0",
        unless=r"to=-\d{10,}|got num_samples=[1-9]",
    ),
    weak("0it [00:00", "division by zero", "referenced before assignment", "where it is not associated with a value",
         "num examples = 0", "list index out of range",
         says="a loop ran zero times", fatal=False, pattern=r"0it \[00:00, \?it|Num examples = 0\b"),
)  # fmt: skip


def in_log(case: Case) -> Iterator[Sign]:
    """Code that trips over an empty loop, and epochs that cost nothing and learn nothing."""
    trained = [metric.line.order for metric in case.log.metrics if metric.get("loss") not in {None, 0.0}][1:2]
    for raised in case.log.uncaught(cut=True):
        if trained and trained[0] < raised.line.order:  # in the order of the log: all that follow have trained too
            break
        told = _told(case, raised)
        if told:
            yield Sign("strong", told, (evidence(raised.line),), order=raised.line.order)
    yield from _idle_epochs(case)


def _told(case: Case, raised: Raised) -> str | None:
    first = raised.message.split("\n", 1)[0]
    code = raised.frames[-1].code if raised.frames else ""
    if raised.kind == "ZeroDivisionError" and raised.phase != "evaluate":
        divisor = code.rsplit("/", 1)[-1] if "/" in code else code.rsplit("%", 1)[-1]
        if (compiled(COUNTS).search(divisor) and not compiled(EVALUATION).search(code)) or "len(" in code:
            return f"division by a count of 0: {code}"
        if compiled(AVERAGED).search(code):
            return f"an average over 0 batches: {code}"
        bare = any("0it [00:00, ?it" in line.text for line in case.log.around(raised.line, before=60))
        return "a loop that ran zero times, then a division by zero" if bare else None
    if raised.kind in {"UnboundLocalError", "NameError"} and compiled(LOOP).search(first):
        return "a loop variable is used after the loop, and the loop never ran"
    if raised.stack_only and compiled(
        r"utils/data/sampler\.py __init__|datasets/folder\.py (?:make_dataset|find_classes)"
    ).search(raised.stack(1)):
        return "the stack ends where a sampler or class folder is built, which fails if it is empty"
    if raised.kind == "StopIteration" and compiled(LOADER + r"|next\(").search(raised.stack(4)):
        return "the first batch was requested, but there is none"
    if (
        raised.kind == "IndexError"
        and "list index out of range" in first
        and compiled(r"(?:files|paths|dataset|samples|images|episodes|data)\w{0,60}\[0\]").search(code)
    ):
        return "the first item of an empty list was requested"
    return None


def _idle_epochs(case: Case) -> Iterator[Sign]:
    """A loss of exactly 0 in every epoch, in no time: no batch came."""
    losses = [metric for metric in case.log.metrics if metric.get("loss") is not None]
    idle = [
        loss
        for loss in losses
        if loss.get("loss") == 0.0
        and compiled(r"\b0?0:00:00s?\b|\b0(?:\.0+)? ?s(?:ec)?\b|time: 0\.0+\b|\?it/s").search(loss.line.text)
    ]
    alike = [loss for loss in losses if idle and loss.shape == idle[0].shape]
    if len(idle) >= 3 and len(idle) == len(alike):
        says = f"{len(idle)} epochs took no time and had a loss of exactly 0: there were no batches (dataset smaller than a batch, drop_last)"
        yield Sign("strong", says, (evidence(idle[0].line), evidence(idle[-1].line)), order=idle[0].line.order)


def in_data(case: Case) -> Iterator[Sign]:
    """Files without rows, folders without files, episodes that are too short for a chunk, batches larger than the set."""
    for fact in case.all("data.no_rows"):
        strength: Strength = "decisive" if fact.value["direct"] else "weak"
        yield Sign(strength, f"{fact.value['file']} has no rows", (fact.evidence, fact.value["named"]))
    for fact in case.all("data.held"):
        if not fact.value["files"] and not fact.value["others"] and fact.value["complete"] and not case.all("code.fetch"):
            says = f"{fact.value['path']} has no files, and no code was found that creates any"
            yield Sign("strong", says, (fact.value["named"],))
    for short in shortened(case):
        yield short.sign
    yield from _dropped_whole(case)
    yield from _by_the_trainer(case)


def _dropped_whole(case: Case) -> Iterator[Sign]:
    """drop_last with a batch larger than what each rank gets: no batch at all comes, and many programs do not say so."""
    for loader in loaders(case):
        if not loader.drop_last or not loader.batch or loader.fact.value["for"] != "train":
            continue
        for length in lengths(case, loader):
            each = share(case, loader, length.count)
            if each is None or batches(case, loader, length.count) != 0:
                continue
            count = ranks(case) or 1
            says = f"{length.count:,} {length.what}" + (f" give each of {count} ranks {each}" if count > 1 else "")
            says += f", fewer than a batch of {loader.batch}, and drop_last drops it: there are no batches"
            sure = not length.when and loader.fact.value["sure"]
            condition = f", when {length.when}" if length.when else ""
            items = (*length.evidence, *loader.evidence, *launched_with(case))
            yield Sign("decisive" if sure else "strong", says + condition, tuple(dict.fromkeys(items)))
            break


def _by_the_trainer(case: Case) -> Iterator[Sign]:
    """The Hugging Face trainer deals whole batches out to the ranks, and with drop_last only as long as each gets one."""
    drop, most, batch = (case.facts.get(name) for name in ("loader.drop_last", "data.samples", "train.batch_size"))
    count = ranks(case)
    if (
        not case.all("code.hf_trainer")
        or drop is None
        or drop.value is not True
        or most is None
        or batch is None
        or not count
    ):
        return
    if type(most.value) is int and type(batch.value) is int and 0 < most.value < batch.value * count:
        says = f"{most.spelling} leaves {most.value} samples, fewer than {count} x {batch.value}, and {drop.spelling} drops them"
        items = (most.evidence, batch.evidence, drop.evidence, *launched_with(case))
        yield Sign("strong", f"{says}: there are no batches, unless samples are packed or split", items)


def fix(case: Case) -> Iterator[Fix]:
    """A chunk that the episodes have room for, where no episode has it now; the last batch kept; else words."""
    for short in shortened(case):
        if short.place is not None and short.empty and short.longest > 0:
            why = "too few episodes are long enough; a shorter chunk changes the training, and so would padding"
            title = f"Set {short.name} to {short.longest}, which fits into every episode"
            yield Fix(title, "changes-training", why, edits=(Edit(short.place, str(short.longest)),))
    if any(True for _ in _dropped_whole(case)):
        places = [
            loader.fact.value["places"]["drop_last"]
            for loader in loaders(case)
            if loader.drop_last and "drop_last" in loader.fact.value["places"]
        ]
        edits = tuple(Edit(place, "False") for place in dict.fromkeys(places))
        if edits:
            why = "the only batch is then used, although it is smaller; alternatively use more data or a smaller batch"
            yield Fix("Keep the last batch", "changes-training", why, edits=edits)
    yield from by_hand


by_hand = (
    Fix(
        "Check the size of the dataset, and make the batch or chunk fit",
        "by-hand",
        "print len(dataset) and len(loader) on each rank; check folder, suffix, split and filters; use drop_last=False, or a "
        "batch not larger than the "
        "set divided by the ranks; pad episodes that are shorter than the chunk",
    ),
)
experiment = Experiment(
    title="Build only the dataset and loader, and print their lengths and the first batch",
    start_from="the beginning",
    stop_after="the first batch is printed",
    confirms="a length is 0, or there is no batch; with batch 1 and drop_last=False there is one",
    refutes="the lengths are as expected and there are batches: then the division or variable is a bug in the code",
)
