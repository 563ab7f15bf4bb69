"""Batch, accumulation, sequence length, world size or chunking gives zero, nothing, or does not divide.

What happens: the settings are each plausible, but their product or quotient is not: a start-up check fails, or an integer
division gives 0 and the first loop dies on an empty chunk.

Why: the global batch is micro-batch x accumulation x data-parallel ranks; layers, heads and sequences are cut by the
parallel sizes; ``max_img_per_gpu // images_per_sequence`` is 0 as soon as a sequence has more images; accumulation larger
than the batch makes empty chunks. Often the settings were right for another number of GPUs. A world size of 1 in the message
means that the launcher started one process only.

How it shows: ``Check batch related parameters ... 256 != 2 * 18 * 7``, ``must be divisible by``, ``batch size must be
positive``, ``only support equal chunk``, ``Expected more than 1 value per channel`` (a last batch of one sample).

What to do: keep the global batch and change accumulation so that the product holds; choose sizes that divide.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from crashcart.cause import compiled, decisive, strong, weak
from crashcart.causes._joined import edits_of
from crashcart.causes._loaders import loaders
from crashcart.causes.config._framework_checks import framework
from crashcart.causes.config._sizes import batch_sizes, repaired
from crashcart.deaths import first, order
from crashcart.log import evidence
from crashcart.model import Experiment, Fix, Sign
from crashcart.numbers import to_int

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.case import Case
    from crashcart.model import Evidence, Fact, Strength

title = "Batch size, accumulation and world size do not match"
piece = "chunks"
lasting = True
SIZE_ERRORS = frozenset({"ZeroDivisionError", "ValueError", "IndexError"})
HIGH_RATE = 0.1  # SGD with a large batch goes there; Adam never does
alike = ("config/missing-or-wrong", "data/empty-or-short")
SIZES = (
    r"batch|micro|gpu|world|process|\brank|accumul|chunk|queue|parallel|pipeline|tensor|\b[tpdce]p\b|mp_size|generations|"
    r"rollout|"
    r"sequence|seq_?len|stage|layers|heads|device|replica|envs|n_steps|group|buffer"
)
MODEL = r"embed|hidden|channels|d_model|head_dim|in_features|height|width|image|stride|patch|resolution|\bdim\b"

phrases = (
    decisive("check batch related parameters", "only support equal chunk", says="the batch size is not micro-batch x "
        "accumulation x ranks"),
    decisive(
        "has to be greater than 0", "batch size must be positive", "batch_size should be a positive integer value",
        "batch size must be greater than 0", "batch_size must be positive", "range() arg 3 must not be zero",
        "accumulation steps must be",
        says="a batch size or number of chunks is zero",
        pattern=r"batch|accumulation|got batch_size=(?:0|-\d+)|arg 3 must not be zero",
        unless=r"got batch_size=(?:['\"\[]|[1-9]|\d+\.\d)",
    ),
    decisive(
        "divisible by", "multiple of", "evenly divide", "divide evenly", "equally divi",
        says="a size is not divisible by the number of devices, chunks or parts",
        pattern=rf"(?:divisible by|multiple of|divide).{{0,200}}?(?:{SIZES})|(?:{SIZES}).{{0,200}}?(?:divisible by|multiple of|divide)",
        unless=rf"\b(?:ideally|better|performance|faster|recommended|pad(?:ded|ding)?|round|truncated|adjust|"
               rf"maximum ratio)\b|{MODEL}",
    ),
    strong("is not divisible by", says="one number is not divisible by another",
           pattern=r"Error: \d+ is not divisible by \d+"),
    strong(
        "expected more than 1 value per channel when training",
        says="batch normalisation got a batch of one sample: the last batch of the epoch, or a batch of 1 per GPU",
    ),
    strong(
        "== 0", says="a divisibility check failed",
        pattern=rf"^\W*assert (?=.*(?:{SIZES}))[^%]*%.*== ?0",
    ),
    weak("max_steps=0", "num_train_steps=0", "total optimization steps = 0", says="the planned number of steps is 0",
         pattern=r"(?:steps ?= ?0)\b"),
)  # fmt: skip


def in_log(case: Case) -> Iterator[Sign]:
    """A division by zero or an empty product whose operands are sizes of the batch."""
    for raised in case.log.uncaught():
        code = raised.frames[-1].code if raised.frames else ""
        if raised.kind == "ZeroDivisionError" and compiled(
            r"batch|accum|world_size|update_freq|n_gpu|num_gpus|replica|micro"
        ).search(code):
            counted = compiled(r"len\(|epoch_size|num_samples").search(code)
            says = f"division by zero in a batch size calculation: {code}"
            yield Sign("weak" if counted else "strong", says, (evidence(raised.line),), order=raised.line.order)
        elif raised.kind == "ZeroDivisionError":
            says = "division by zero: there was no batch, or it was split into more parts than it has samples"
            yield Sign("weak", says, (evidence(raised.line),), order=raised.line.order)
        elif (
            raised.kind == "ValueError"
            and "chunk" in raised.stack(2)
            and "must be" in raised.message
            and "batch" in raised.message
        ):
            yield Sign(
                "strong",
                "a batch was split into more chunks than it has samples",
                (evidence(raised.line),),
                order=raised.line.order,
            )


def in_recorder(case: Case) -> Iterator[Sign]:
    """A sampler that drew a batch of no samples at all, at which the program died."""
    leader = first(case)
    if leader is None or leader.raised is None or case.flight is None:
        return
    for event in case.flight.of_kind("batch failed"):
        if event.pid == leader.process.pid and event.details.get("indices") == [] and event.time <= leader.time + 1:
            says = f"the sampler of {leader.process.name} produced batch {event.details.get('batch')} without a sample, so the batch could not be built"
            yield Sign("decisive", says, (event.evidence, leader.evidence), order=order(case))
            return


def in_config(case: Case) -> Iterator[Sign]:
    """The products and quotients that frameworks check or, worse, do not check."""
    if case.before:
        yield from _foreseen(case)
        return
    images, sequence = case.number("train.images_per_device"), case.number("data.images_per_sequence")
    if images is not None and sequence and images < sequence:
        says = f"{images:g} images per device and {sequence:g} per sequence: {images:g} // {sequence:g} is 0"
        facts = (case.facts["train.images_per_device"].evidence, case.facts["data.images_per_sequence"].evidence)
        yield Sign("decisive", says, facts)
    batch, micro = case.number("train.global_batch_size"), case.number("train.batch_size")
    ranks = case.number("launch.processes")
    accumulation = case.number("train.accumulation")
    if batch and micro and ranks and accumulation and micro * ranks * accumulation != batch:
        says = f"{micro:g} x {accumulation:g} x {ranks:g} is {micro * accumulation * ranks:g}, but the global batch is {batch:g}"
        names = ("train.global_batch_size", "train.batch_size", "train.accumulation", "launch.processes")
        yield Sign("strong", says, tuple(case.facts[name].evidence for name in names))
    if accumulation and micro and accumulation > micro and "train.images_per_device" in case.facts:
        says = f"splitting a batch of {micro:g} into {accumulation:g} chunks leaves empty chunks"
        yield Sign("weak", says, (case.facts["train.accumulation"].evidence, case.facts["train.batch_size"].evidence))


def in_code(case: Case) -> Iterator[Sign]:
    """A batch that the code cuts into parts, joined with the sizes of this job."""
    for fact in case.all("code.chunks"):
        found = _cut(case, fact)
        if found is not None:
            strength, told, items = found
            yield Sign(strength, told, (fact.evidence, *items), fatal=strength != "weak")


def _cut(case: Case, fact: Fact) -> tuple[Strength, str, tuple[Evidence, ...]] | None:
    """What becomes of a batch that is cut into ``len // n``; for a single part, what another number would do."""
    parts, text = fact.value["parts"], fact.value["parts_text"]
    smallest, largest = batch_sizes(case, fact)
    items = fact.value["places"]
    if largest == 0:
        return None  # of a size that comes out as 0 its own expression tells
    if parts == 1:
        says = f"with {text} above 1, a batch with fewer samples than that is split into empty parts"
        return "weak", says, items
    if largest is not None and largest < parts:
        return (
            "decisive",
            f"a batch of {largest:g} is split into {parts:g} parts of {largest:g} // {parts:g} = 0 samples",
            items,
        )
    if smallest is not None and smallest < parts:
        return "strong", f"a batch can be as small as {smallest:g}: split into {parts:g} parts, each part is empty", items
    if smallest is not None and smallest == largest and smallest % parts:
        lost = to_int(smallest % parts)
        cut = fact.value["form"] == "slices"
        says = f"each step skips {lost} of {smallest:g} samples: {smallest:g} is not divisible by {parts:g}"
        return ("strong", says, items) if cut else None
    if smallest is not None:
        training = [loader for loader in loaders(case) if loader.fact.value["for"] != "eval"]
        if training and all(one.drop_last for one in training):
            return None  # the last batch is as large as the others, or left out
        return "weak", f"a last batch with fewer than {parts:g} samples would be split into empty parts", items
    return "strong", f"a batch with fewer than {parts:g} samples is split into empty parts", items


def _foreseen(case: Case) -> Iterator[Sign]:
    """Before the start: where the program fails with this job's numbers, then what the frameworks demand."""
    for fact in case.all("code.failed_arithmetic"):
        numbers = ", ".join(f"{name.lstrip('-')} = {value}" for name, value in fact.value["settings"])
        is_check = fact.value["error"] not in SIZE_ERRORS
        what = "the program's own check fails: " if is_check else f"{fact.value['says'] or fact.value['error']}: "
        when = "" if fact.value["sure"] else ", for some of the numbers that are drawn"
        says = f"{what}{fact.value['text']} with {numbers}{when}"
        yield Sign("decisive" if fact.value["sure"] else "strong", says, (fact.evidence, *fact.value["places"]))
    rate = case.facts.get("train.learning_rate")
    is_calculated = rate is not None and rate.origin == "code" and bool(rate.spelling)
    if rate is not None and is_calculated and isinstance(rate.value, float) and rate.value >= HIGH_RATE:
        yield Sign("weak", f"the learning rate after scaling is {rate.value:g}", (rate.evidence,), fatal=False)
    yield from framework(case)


def _met_one_sample(case: Case) -> bool:
    """Whether a layer that normalises over the batch was given a single sample."""
    messages = [raised.message for raised in case.log.raised]
    messages += [
        str(event.details.get("message", "")) for event in (case.flight.of_kind("exception") if case.flight else ())
    ]
    return any("more than 1 value per channel" in message for message in messages)


def fix(case: Case) -> Iterator[Fix]:
    """The cut made without loss, where the code allows; the smallest change of the numbers that makes the size positive; else words."""
    cut = [fact for fact in case.all("code.chunks") if (found := _cut(case, fact)) and found[0] != "weak"]
    edits = edits_of(cut, "edits")
    if edits:
        why = "the parts differ by one sample at most and none is empty; a divisible batch is split as before"
        yield Fix("Split the batch without losing samples", "same-recipe", why, edits=edits)
    yield from repaired(case)
    if _met_one_sample(case):
        for fact in case.all("code.loader"):
            edits = fact.value["drop_last_edits"]
            if edits and fact.value["for"] == "train" and not fact.value["drop_last"]:
                why = "the last batch of an epoch has one sample; with shuffling a different sample is skipped each time"
                yield Fix("Drop an incomplete last batch", "same-recipe", why, edits=edits)
        yield Fix("Drop an incomplete last batch", "by-hand", "set `drop_last=True` for the training loader")
        return
    yield Fix(
        "Choose the accumulation so that micro-batch x accumulation x data-parallel ranks equals the global batch",
        "by-hand",
        "keep the global batch; change the accumulation first, then the micro-batch, and the number of GPUs last",
    )


experiment = Experiment(
    title="Start with matching sizes (accumulation 1, global batch = micro-batch x ranks) and print the actual world size",
    start_from="the beginning",
    stop_after="the first optimizer step",
    confirms="the start passes with these sizes and fails with the old ones on the same number of ranks",
    refutes="the printed world size is not what you requested: then the launcher is the problem (config/launch-mismatch)",
)
