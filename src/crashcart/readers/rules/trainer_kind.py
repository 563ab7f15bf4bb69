"""Whose trainer the program uses, and what its loaders refuse."""

from __future__ import annotations

from typing import TYPE_CHECKING

from crashcart.readers.interpreter.values import constant_of
from crashcart.readers.rules._settings import evidence_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.model import Fact
    from crashcart.readers.interpreter.execution import Execution

_LOOKS = ("exists", "isfile", "isdir", "is_file", "is_dir", "listdir", "makedirs")


def look(execution: Execution) -> Iterator[Fact]:
    """``code.hf_trainer``; ``code.loader_refuses``: what needs workers where there are none; ``code.path_checked``: a setting."""
    for call in execution.trace.methods("TrainingArguments", "Seq2SeqTrainingArguments", "HfArgumentParser"):
        yield call.fact("code.hf_trainer", call.name)
    for loader in execution.loaders:
        workers = loader.argument(5, "num_workers")
        if constant_of(workers) != 0 or not loader.call.region.is_certain():
            continue
        for name in ("prefetch_factor", "persistent_workers"):
            value = loader.argument(None, name)
            if constant_of(value):
                yield loader.call.fact("code.loader_refuses", {"name": name, "places": evidence_of(value, workers)})
    for call in execution.trace.methods(*_LOOKS):
        if call.function is None:
            for value in (call.receiver, *call.arguments[:1]):
                for setting in value.origins if value is not None else ():
                    yield call.fact("code.path_checked", setting.spelling.lstrip("-").rpartition(".")[2])
