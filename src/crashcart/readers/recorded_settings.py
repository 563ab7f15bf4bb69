"""The settings as the running program had them, from what its own parser and constructors returned.

They go before everything that is read in scripts and configs: a script may compute a value, a program may change it. Where both say
the same, the one that was read is kept, since it knows the place to edit. A value of a constructor (the loader, the optimizer)
goes before one of a parser, which the program may have scaled since.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from crashcart.flight import clock
from crashcart.model import Evidence, Fact
from crashcart.names import canonical
from crashcart.record import replace

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from crashcart.flight import Event, Flight

__all__ = ["merge_recorded", "program_flags", "recorded_facts"]

# What parsers and framework objects return, by spelling: later ones go before earlier ones.
_PARSED = ("yaml", "omegaconf", "hydra", "argparse", "Trainer", "Accelerator", "TrainingArguments")
# What constructors were given, under canonical names.
_LOADER = {
    "batch_size": "train.batch_size",
    "num_workers": "loader.workers",
    "prefetch_factor": "loader.prefetch",
    "persistent_workers": "loader.persistent",
    "pin_memory": "loader.pin",
    "drop_last": "loader.drop_last",
}
_MADE = {
    "DataLoader": _LOADER,
    "optimizer": {"lr": "train.learning_rate"},
    "process group": {"backend": "distributed.backend", "timeout_seconds": "distributed.timeout_seconds"},
}
_PAIR = 2
_EVALUATION = {"train.batch_size": "eval.batch_size", "loader.workers": "eval.workers"}


def recorded_facts(flight: Flight) -> dict[str, Fact]:
    """The settings of the first rank of the stage in question, by canonical name."""
    events = _of_first_rank(flight)
    facts: dict[str, Fact] = {}
    for source in _PARSED:
        for event in events:
            if event.details.get("source") == source:
                facts |= {fact.name: fact for fact in _parsed(flight, event)}
    made: dict[str, Fact] = {}
    for event in events:
        for fact in _constructed(flight, event):
            made.setdefault(fact.name, fact)  # the first loader and the first optimizer are the ones of the training
    return facts | made


def program_flags(flight: Flight) -> dict[str, str] | None:
    """The flags that the program's own parser knows, with the settings that they stand for; nothing where that was not recorded."""
    events = _of_first_rank(flight)
    if not events:
        return None
    return {flag: str(setting) for event in events for flag, setting in _pairs(event, "flags").items()}


def merge_recorded(read: Mapping[str, Fact], recorded: Mapping[str, Fact]) -> dict[str, Fact]:
    """What was recorded before what was read; where both agree, the one that was read."""
    merged = dict(read)
    for name, fact in recorded.items():
        known = read.get(name)
        if known is None or not _agree(known.value, fact.value):
            merged[name] = fact if known is None else replace(fact, spelling=known.spelling or fact.spelling)
    return merged


def _agree(one: Any, other: Any) -> bool:  # noqa: ANN401 - values of settings
    if type(one) is type(other) or (isinstance(one, (int, float)) and isinstance(other, (int, float))):
        return bool(one == other)
    return False


def _of_first_rank(flight: Flight) -> list[Event]:
    ranks = flight.ranks
    first = ranks[0].pid if ranks else None
    return [event for event in flight.of_kind("settings") if first is None or event.pid == first]


def _pairs(event: Event, name: str) -> dict[str, Any]:
    """Names and values, which stand in a list: the names are the program's own."""
    listed = event.details.get(name)
    pairs = [one for one in listed if isinstance(one, list) and len(one) == _PAIR] if isinstance(listed, list) else []
    return {key: value for key, value in pairs if isinstance(key, str)}


def _parsed(flight: Flight, event: Event) -> Iterator[Fact]:
    by_setting = {setting: flag for flag, setting in _pairs(event, "flags").items() if isinstance(setting, str)}
    for spelling, value in _pairs(event, "settings").items():
        name = canonical(spelling)
        if name is not None and value is not None:
            yield _fact(flight, event, name, spelling, value, by_setting.get(spelling, ""))


def _constructed(flight: Flight, event: Event) -> Iterator[Fact]:
    values = _pairs(event, "settings")
    names = _MADE.get(str(event.details.get("source")), {})
    for spelling, name in names.items():
        value = values.get(spelling)
        evaluates = values.get("evaluates") is True
        if value is None or (evaluates and name not in _EVALUATION):
            continue
        yield _fact(flight, event, _EVALUATION[name] if evaluates else name, spelling, value, "")


def _fact(flight: Flight, event: Event, name: str, spelling: str, value: Any, flag: str) -> Fact:  # noqa: ANN401
    source = str(event.details.get("source"))
    place = str(event.details.get("place", "")).partition(" ")[0]
    folder = str(flight.facts.get("folder") or "")
    if folder and place.startswith(folder + os.sep):
        place = place[len(folder) + 1 :]
    quote = f"{spelling} = {value!r} ({source} at {place})" if place else f"{spelling} = {value!r} ({source})"
    evidence = Evidence("recorder", quote[:400], f"recorder {clock(event.time)}", rank=event.rank, time=clock(event.time))
    return Fact(name, value, evidence, origin="recorded", spelling=flag)
