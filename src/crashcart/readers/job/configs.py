"""Every config file of a job, read as the program's own loader reads it.

Which files: those the user named, those a flag names, else those the code names. Which loader: what the program calls. Where
OmegaConf or another loader of numbers reads the file, ``1e-4`` is a number here too.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from crashcart.deadline import limited
from crashcart.errors import CommandError
from crashcart.model import Evidence, Fact, NotLooked
from crashcart.numbers import to_float
from crashcart.readers.job.config import read_config
from crashcart.readers.job.config_names import FOLDERS, by_module, by_word, with_parents
from crashcart.readers.job.hydra import NUMBER, composed
from crashcart.readers.job.references import resolved
from crashcart.readers.job.shell import text_of
from crashcart.record import field, record, replace

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from crashcart.case import Case
    from crashcart.model import Span

__all__ = ["LOADER", "Read", "read_configs"]

LOADER = "config.loader"
_FILE_SECONDS = 1.5
SUFFIXES = (".yaml", ".yml", ".json", ".toml")
# These read 1e-4 as a number, or make one of it by a type.
NUMERIC = {"omegaconf", "hydra", "ruamel", "jsonargparse", "typed", "yacs"}
# These follow references between settings.
REFERRING = {"omegaconf", "hydra"}
NO_CONFIG = ("data.", "output.", "resume.", "environment.", "command.")
CONFIG_FLAG = re.compile(r"(?i)conf|cfg|yaml|yml|json$|toml|base|param|setting|recipe|opt")


@record
class Read:
    """What the config files say, and which they were."""

    facts: list[Fact] = field(default_factory=list)
    files: list[str] = field(default_factory=list)


def read_configs(
    case: Case,
    facts: Sequence[Fact],
    defaults: Sequence[Fact],
    configs: Sequence[str],
    places: Sequence[str],
    *,
    given: bool,
) -> Read:
    """Read them all, in the order in which the job names them; what cannot be read is told."""
    read = Read()
    hydra = composed(case, facts, places, configs if given else ())
    listed = [*configs, *_named(case, facts, places, words=not hydra.facts), *by_module(case, facts, places)]
    if not listed and not hydra.facts:
        listed = list(_named(case, defaults, places, words=True)) or list(_in_code(case, places))
    read.facts += [*hydra.facts, *hydra.refused]
    read.files += hydra.files
    if not hydra.facts:
        case.not_looked += [gap for fact in facts for gap in _folders(fact, places)]
    loader = _loader(case)
    for path in dict.fromkeys(listed):
        if os.path.realpath(path) in {os.path.realpath(one) for one in hydra.files}:
            continue
        read.facts += _tried(case, path, loader.value if loader else "", read.files, given=given)
    if loader is not None and loader.value in REFERRING:
        read.facts = resolved(read.facts, facts)
    if loader is not None:
        case.facts[LOADER] = loader
        read.facts.append(loader)
    return read


def _named(case: Case, facts: Iterable[Fact], places: Sequence[str], *, words: bool) -> Iterator[str]:
    """The files that flags name, in full or by a word of which the code makes a name."""
    for fact in facts:
        named = list(_paths(fact, places))
        yield from named or (by_word(case, fact, places) if words else ())


def _tried(case: Case, path: str, loader: str, files: list[str], *, given: bool) -> list[Fact]:
    try:
        facts, below = limited(lambda: with_parents(case, path, read_config(path)), _FILE_SECONDS)
        files += [*below, path]
    except (CommandError, OSError) as problem:
        files.append(path)
        case.not_looked.append(NotLooked(path, str(problem)))
        line = re.search(r": line (\d+)", str(problem))
        if line is None or not given or _is_template(path):
            return []
        evidence = Evidence("config", str(problem), f"{path}:{line[1]}")
        return [Fact("config.unreadable", str(problem), evidence, "file")]
    return list(_as_numbers(facts)) if loader in NUMERIC and path.endswith((".yaml", ".yml")) else facts


def _is_template(path: str) -> bool:
    text = text_of(path)
    return "{{" in text or "{%" in text


def _as_numbers(facts: Iterable[Fact]) -> Iterator[Fact]:
    """The plain ``1e-4`` of a file as the number that this loader makes of it."""
    texts: dict[str, str] = {}
    for fact in facts:
        plain = fact.span is not None and _quote(fact.span, texts) not in {"'", '"'}
        if plain and isinstance(fact.value, str) and NUMBER.fullmatch(fact.value):
            yield replace(fact, value=to_float(fact.value, fact.value, finite=False))
        elif isinstance(fact.value, list):
            yield replace(fact, value=[_number(item) for item in fact.value])
        else:
            yield fact


def _quote(span: Span, texts: dict[str, str]) -> str:
    """The first character of a value as it is written."""
    if span.file not in texts:
        texts[span.file] = text_of(span.file)
    return texts[span.file][span.start : span.start + 1]


def _number(item: object) -> object:
    return to_float(item, item, finite=False) if isinstance(item, str) and NUMBER.fullmatch(item) else item


def _loader(case: Case) -> Fact | None:
    """The one kind of loader that the program uses; ``mixed`` where it uses several, nothing where it is not known."""
    calls = case.all("code.config_loader")
    if not calls:
        return None
    kinds = {str(call.value) for call in calls}
    if kinds == {"pyyaml", "huggingface"}:
        kinds = {"huggingface"}
    kind = min(kinds) if len(kinds) == 1 or kinds <= NUMERIC else "mixed"
    if kind == "pyyaml" and case.all("code.number_resolver"):
        kind = "typed"
    return Fact(LOADER, kind, calls[0].evidence, "code", spelling=kind)


def _paths(fact: Fact, places: Sequence[str]) -> Iterator[str]:
    """The config files that a flag names."""
    if fact.name.startswith(NO_CONFIG) or fact.origin == "environment":
        return
    for value in fact.value if isinstance(fact.value, list) else [fact.value]:
        if not isinstance(value, str) or "\n" in value:
            continue
        is_python = value.endswith(".py") and fact.name == "config.path"
        if not value.endswith(SUFFIXES) and not is_python:
            continue
        if value.endswith((".json", ".py")) and not (
            fact.name.endswith("config_path") or CONFIG_FLAG.search(fact.spelling or "conf")
        ):
            continue
        for place in places:
            path = os.path.normpath(os.path.join(place, value))
            if os.path.isfile(path):
                yield path
                break


def _folders(fact: Fact, places: Sequence[str]) -> Iterator[NotLooked]:
    """A folder where a config file is wanted; which of its files the program takes is its own affair."""
    value = fact.value
    if fact.name != "config.path" or not isinstance(value, str) or not value or "dir" in fact.spelling:
        return
    found = next((path for place in places if os.path.exists(path := os.path.normpath(os.path.join(place, value)))), "")
    if os.path.isdir(found):
        yield NotLooked(found, "it is a folder and no config file: which file in it is read is not known")


def _in_code(case: Case, places: Sequence[str]) -> Iterator[str]:
    """The config files that the code names itself."""
    for fact in case.all("code.config_file"):
        own = os.path.dirname(fact.evidence.where.rsplit(":", 1)[0]) or "."
        below = [os.path.join(place, folder) for place in [*places, own] for folder in FOLDERS]
        for place in [*places, own, *below]:  # a name that is joined with a folder elsewhere stands alone in the code
            path = os.path.normpath(os.path.join(place, str(fact.value)))
            if os.path.exists(path) and not os.path.isdir(path):
                yield path
                break
