"""Every loader that the program builds, with what decides how much it holds: workers, prefetch, batch, pinning, persistence.

Loaders are counted as the program builds them with this launch: a function that builds one counts once for each call. Where a test of
which the outcome is not known chooses between two, the second is an alternative and is not added to the first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from crashcart.numbers import to_int
from crashcart.readers.interpreter.values import Choice, Constant, Instance, Result, Unknown, Value, constant_of
from crashcart.readers.rules._call_options import with_option
from crashcart.readers.rules._settings import evidence_of, fact_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.model import Evidence, Fact, Span
    from crashcart.readers.interpreter.execution import Execution, Loader

_NONE, _FALSE = Constant(None), Constant(False)
_ARGUMENTS = {
    "workers": (5, "num_workers", Constant(0)), "pin": (7, "pin_memory", _FALSE), "drop_last": (8, "drop_last", _FALSE),
    "persistent": (None, "persistent_workers", _FALSE), "prefetch": (None, "prefetch_factor", _NONE),
}  # fmt: skip
_PREFETCH = 2  # batches ahead for each worker, where the program does not say


def look(execution: Execution) -> Iterator[Fact]:
    """``code.loader``: its numbers, where they can be changed, and what it reads."""
    for loader in execution.loaders:
        yield loader.call.fact("code.loader", _describe(execution, loader))


def _describe(execution: Execution, loader: Loader) -> dict[str, Any]:
    values: dict[str, Value | None] = {"batch": loader.batch_size}
    values |= {name: loader.argument(position, word, default) for name, (position, word, default) in _ARGUMENTS.items()}
    plain: dict[str, Any] = {}
    places: dict[str, Span] = {}
    evidence: list[Evidence] = [loader.call.evidence]
    for name, value in values.items():
        fact = fact_of(execution, name, value, loader.call) if isinstance(value, Constant) else None
        plain[name] = fact.value if fact is not None else None
        if fact is not None and fact.span is not None and isinstance(fact.value, int):
            places[name] = fact.span
        evidence += [item for item in evidence_of(value) if item not in evidence]
    if isinstance(values["prefetch"], Constant) and values["prefetch"].value is None:
        plain["prefetch"] = _PREFETCH
    length = execution.length_of(loader.argument(0, "dataset"), loader.call)
    dataset = loader.dataset
    return {
        **plain,
        "places": places,
        "evidence": tuple(evidence),
        "started_by": execution.start_method(loader),
        "for": loader.feeds,
        "sure": loader.call.region.is_certain() and loader.call.complete,
        "alternative": loader.is_alternative,
        "data": dataset.cls.name if isinstance(dataset, Instance) else "",
        "length": constant_of(length) if type(constant_of(length)) is int else None,
        "length_evidence": evidence_of(length),
        "file": _file_behind(execution, loader.argument(0, "dataset")),
        "counts_files": _counts_files(execution, length),
        "sampler": _sampler(loader),
        "worker_init": constant_of(loader.argument(10, "worker_init_fn", _NONE), "given") is not None,
        "drop_last_edits": with_option(loader.call, "drop_last", "True"),
        "keep_last_edits": with_option(loader.call, "drop_last", "False"),
        "collate": constant_of(loader.argument(6, "collate_fn", _NONE), "given") is not None,
    }


def _file_behind(execution: Execution, dataset: Value | None) -> str | None:
    """The one file of which the whole tables are the samples of a data set, row by row; None where it is not that plain."""
    if not isinstance(dataset, Result) or dataset.name != "torch.utils.data.TensorDataset" or dataset.call is None:
        return None
    wholes = {tag for table in dataset.call.arguments for tag in table.tags if tag.startswith("whole:")}
    numbers = {to_int(tag.partition(":")[2], -1) for tag in wholes}
    read = [constant_of(call.argument(0)) for call in execution.trace.calls if call.number in numbers]
    paths = {path for path in read if isinstance(path, str)}
    return paths.pop() if len(paths) == 1 and all(isinstance(path, str) for path in read) else None


def _counts_files(execution: Execution, length: Value | None) -> bool:
    """Whether a length is that of a list of files: each of them is a sample then."""
    counted = length.bound if isinstance(length, Unknown) and length.kind == "length" else None
    items = execution.items(counted)
    return bool(items) and all("file" in item.tags for item in items)


def _sampler(loader: Loader) -> str:
    """The class of the sampler; empty for none, ``?`` where it cannot be told."""
    batches, sampler = loader.argument(4, "batch_sampler", _NONE), loader.argument(3, "sampler", _NONE)
    if batches is None or constant_of(batches, "given") is not None:
        return "?"
    if isinstance(sampler, Constant) and sampler.value is None:
        return ""
    options = sampler.options if isinstance(sampler, Choice) else (sampler,)
    made = [option for option in options if isinstance(option, Result)]
    return made[0].name.rpartition(".")[2] if len(made) == len(options) == 1 else "?"
