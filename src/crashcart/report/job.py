"""The model of a job as a table: what was understood of it, where each value comes from, and what is not known.

A value is only as good as its origin, so every row says it: a flag, a line of a file, the environment, a default in the code,
a calculation from rows above. Unknown is a row too: what a check could not see it cannot vouch for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from crashcart.causes._loaders import loaders
from crashcart.escapes import one_line
from crashcart.numbers import to_int
from crashcart.report.terminal import printed

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from crashcart.case import Case
    from crashcart.causes._loaders import Loader
    from crashcart.model import Fact

__all__ = ["counting", "plain_job", "write_jobs"]

# Heading, then a row for each: label, and the canonical names of which the first known counts.
TABLE: tuple[tuple[str, tuple[tuple[str, tuple[str, ...]], ...]], ...] = (
    ("Launch", (
        ("launcher", ("launch.kind",)), ("program", ("launch.script",)), ("ranks", ("launch.processes",)), ("nodes", ("launch.nodes",)),
        ("ranks on a node", ("launch.processes_per_node", "launch.tasks_per_node")), ("cards on a node", ("launch.gpus_per_node", "launch.gpus")),
        ("host memory limit", ("launch.memory_bytes",)), ("time limit, seconds", ("launch.time_limit_seconds",)),
    )),
    ("Batch", (
        ("batch of a rank", ("train.batch_size",)), ("images of a rank", ("train.images_per_device",)),
        ("tokens of a rank", ("train.tokens_per_device",)), ("accumulation", ("train.accumulation",)),
        ("global batch", ("train.global_batch_size",)), ("evaluation batch", ("eval.batch_size",)), ("sampling batch", ("sample.batch_size",)),
    )),
    ("Length and periods", (
        ("steps", ("train.max_steps",)), ("epochs", ("train.epochs",)), ("logging", ("log.period",)),
        ("evaluation", ("eval.period", "eval.period_epochs", "eval.period_batches", "eval.strategy")),
        ("sampling", ("sample.period",)), ("saving", ("save.period", "save.period_epochs", "save.strategy")), ("checkpoints kept", ("save.keep",)),
    )),
    ("Loaders", (
        ("workers of a loader", ("loader.workers",)), ("prefetch", ("loader.prefetch",)), ("persistent", ("loader.persistent",)),
        ("pinned", ("loader.pin",)), ("evaluation workers", ("eval.workers",)), ("drop last", ("loader.drop_last",)),
    )),
    ("Numbers", (
        ("learning rate", ("train.learning_rate",)), ("warm-up", ("train.warmup", "train.warmup_ratio", "train.warmup_epochs")),
        ("clipping", ("train.clip",)), ("precision", ("train.precision", "train.bf16", "train.fp16", "train.amp")), ("seed", ("train.seed",)),
    )),
    ("Ranks together", (
        ("parallel kind", ("distributed.kind",)), ("ZeRO stage", ("distributed.zero_stage",)), ("backend", ("distributed.backend",)),
        ("time-out", ("distributed.timeout_seconds", "distributed.timeout_minutes")),
    )),
    ("Files and trackers", (
        ("config loader", ("config.loader",)), ("data", ("data.path",)), ("output", ("output.path",)), ("resume", ("resume.path",)),
        ("tracker", ("tracker.kind", "tracker.enabled", "tracker.mode")),
    )),
)  # fmt: skip
# Rows that the program's loaders know better than any setting: the field of a loader, and what it is for.
OF_LOADERS = {
    "workers of a loader": ("workers", ""), "prefetch": ("prefetch", ""), "persistent": ("persistent", ""), "pinned": ("pin", ""),
    "drop last": ("drop_last", "train"), "evaluation workers": ("workers", "eval"), "evaluation batch": ("batch", "eval"),
}  # fmt: skip
KINDS = {"train.bf16": "bf16", "train.fp16": "fp16", "train.amp": "mixed"}  # switches that stand for a precision
SOME = {"images of a rank", "tokens of a rank"}  # of jobs that count so, and of no others
UNKNOWN = "unknown"
_LONGEST, _SHORT = 36, 14


def plain_job(name: str, case: Case, counted: dict[str, int]) -> dict[str, Any]:
    """A job as plain data: every row with its value and origin, null where it is unknown."""
    rows = {label: row for _, part in _rows(case, counted) for label, row in part}
    return {
        "name": name,
        "settings": {label: None if row is None else {"value": row[0], "origin": row[1]} for label, row in rows.items()},
    }


def write_jobs(jobs: Sequence[tuple[str, Case, dict[str, int]]]) -> None:
    """Print the tables of all jobs on standard output."""
    printed([line for name, case, counted in jobs for line in _lines(name, case, counted)])


def _lines(name: str, case: Case, counted: dict[str, int]) -> Iterator[tuple[str, str]]:
    from crashcart.redact import clean

    yield "bold", f"The job: {one_line(clean(name))}"
    for heading, part in _rows(case, counted):
        yield "bold", f"  {heading}"
        for label, row in part:
            value, origin = (UNKNOWN, "") if row is None else (_shown(row[0], label), one_line(clean(row[1])))
            yield (
                "" if row else "dim",
                f"    {label:<22}{value:<{_LONGEST if len(value) > _SHORT else _SHORT}} {origin}".rstrip(),
            )
    yield "", ""


def _shown(value: object, label: str) -> str:
    if isinstance(value, tuple):
        return " and ".join(map(str, value))
    if label == "host memory limit" and isinstance(value, int):
        return f"{value / 2**30:.4g} GiB"
    from crashcart.redact import clean

    text = repr(value) if isinstance(value, str) and (value[:1].isdigit() or value in {"None", "none"}) else str(value)
    text = one_line(clean(text))
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."


def _rows(case: Case, counted: dict[str, int]) -> Iterator[tuple[str, list[tuple[str, tuple[Any, str] | None]]]]:
    built = loaders(case)
    followed = {"workers of a loader"} if case.all("used.loader.workers") else set()
    for heading, part in TABLE:
        rows = [
            (label, known if label in followed else _of_loaders(built, label, known))
            for label, known in ((label, _known(case, names)) for label, names in part)
        ]
        rows = [(label, row) for label, row in rows if row is not None or label not in SOME]
        yield heading, [*_calculated(case, heading, rows), *_counted(case, heading, counted, built)]


def _of_loaders(built: list[Loader], label: str, told: tuple[Any, str] | None) -> tuple[Any, str] | None:
    """What the loaders of the program are given, where that is known of all: it counts more than a setting beside them."""
    name, kind = OF_LOADERS.get(label, ("", ""))
    asked = [one for one in built if kind in {"", one.fact.value["for"]}]
    if name == "workers" and not kind:  # those that feed the training, where that is known
        asked = [one for one in built if one.fact.value["for"] == "train"] or built
    values = [getattr(one, name) for one in asked] if name else []
    different = list(dict.fromkeys(values))
    if not values or None in values or (told is not None and different == [told[0]]):
        return told
    places = dict.fromkeys(item.where for one in asked for item in one.evidence[:1])
    value = different[0] if len(different) == 1 else tuple(different)
    return value, f"passed to the DataLoader, {', '.join(places)}"


def counting(case: Case, names: tuple[str, ...]) -> Fact | None:
    """The first that is known; a strategy goes before a number of steps, which counts with the strategy "steps" alone."""
    when = next((case.facts[name] for name in names if name.endswith(".strategy") and name in case.facts), None)
    first = next((case.facts[name] for name in names if name in case.facts), None)
    return (
        when
        if when is not None and when.value in ("epoch", "no") and first is not None and first.name.endswith(".period")
        else first
    )


def _known(case: Case, names: tuple[str, ...]) -> tuple[Any, str] | None:
    fact = counting(case, names)
    if fact is None and names == ("distributed.kind",):
        return _in_code(case)
    if fact is not None and fact.name in KINDS and isinstance(fact.value, bool):
        return (KINDS[fact.name] if fact.value else f"{KINDS[fact.name]} off"), _origin(fact)
    return None if fact is None else (fact.value, _origin(fact))


def _in_code(case: Case) -> tuple[Any, str] | None:
    """What the code does to make the ranks work together, where no setting says it."""
    seen = case.all("code.parallel")
    kinds = " or ".join(str(fact.value) for fact in seen)
    return (kinds, f"code, {', '.join(fact.evidence.where for fact in seen)}") if seen else None


def _origin(fact: Fact) -> str:
    """Where a value comes from, in words."""
    spelled = f"{fact.spelling}, " if fact.spelling and fact.origin in {"flag", "file", "environment"} else ""
    kind = {"default": "default in ", "environment": "environment, ", "code": "code, "}.get(fact.origin, "")
    return f"{spelled}{kind}{fact.evidence.where}"


def _calculated(
    case: Case, heading: str, rows: list[tuple[str, tuple[Any, str] | None]]
) -> Iterator[tuple[str, tuple[Any, str] | None]]:
    """The global batch, where its factors are known and nobody states it."""
    for label, row in rows:
        if heading == "Batch" and label == "global batch" and row is None:
            each, ranks, times = (
                case.number("train.batch_size"),
                case.number("launch.processes"),
                case.number("train.accumulation"),
            )
            is_open = case.all("unsure.train.accumulation") or any(
                fact.value != 1 for fact in case.all("train.accumulation")
            )
            if each and ranks and (times or not is_open):
                said = "" if times else " (assuming no accumulation)"
                yield label, (to_int(each * ranks * (times or 1)), f"calculated: batch x accumulation x ranks{said}")
                continue
        yield label, row


def _counted(
    case: Case, heading: str, counted: dict[str, int], built: list[Loader]
) -> Iterator[tuple[str, tuple[Any, str] | None]]:
    """Loaders are counted in the code, not by flags: each has workers of its own, on every rank."""
    if heading == "Numbers":
        scalers = counted.get("scalers", 0)
        yield "gradient scaler", (scalers, "calls to GradScaler") if scalers else None
    if heading != "Loaders":
        return
    places = dict.fromkeys(one.fact.evidence.where for one in built)
    yield "loaders in the code", (len(built), f"code, {', '.join(places)}") if built else None
    workers, ranks = [one.workers for one in built], case.number("launch.processes")
    total = sum(each for each in workers if each is not None)
    known = built and ranks and None not in workers
    yield "worker processes", (to_int(total * (ranks or 0)), "calculated: workers of all loaders x ranks") if known else None
