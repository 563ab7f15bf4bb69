"""Every config file of a job, read as the program's own loader reads it.

Which files: those that the program was seen to read, those the user named, those a flag names. Which loader: what the program
calls. Where OmegaConf or another loader of numbers reads the file, ``1e-4`` is a number here too.
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
# Which texts OmegaConf and Hydra take for numbers.
NUMBER = re.compile(r"[-+]?(?:\d[\d_]*(?:\.\d*)?|\.\d+)[eE][-+]?\d+")
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
    composed = [fact.value for fact in case.all("code.composed")]
    named = [path for fact in facts for path in _paths(fact, places)]
    by_program = [str(fact.value["path"]) for fact in case.all("code.config_read")]
    commented = {str(fact.value["path"]) for fact in case.all("code.config_read") if fact.value.get("comments")}
    if configs and not {os.path.realpath(path) for path in configs} & {os.path.realpath(path) for path in by_program}:
        by_program = []  # those of another start
    listed = [*(path for path in by_program if path not in named), *configs, *named]
    if not listed and not composed:
        listed = [path for fact in defaults for path in _paths(fact, places)]
    for config in composed:
        read.facts += config["facts"]
        read.files += config["files"]
    if not composed:
        case.not_looked += [gap for fact in facts for gap in _folders(fact, places)]
    loader = _loader(case)
    for path in dict.fromkeys(listed):
        if os.path.realpath(path) in {os.path.realpath(file) for config in composed for file in config["files"]}:
            continue
        read.facts += _tried(case, path, loader.value if loader else "", read.files, given=given, comments=path in commented)
    if loader is not None and loader.value in REFERRING:
        read.facts = resolved(read.facts, facts)
    if loader is not None:
        case.facts[LOADER] = loader
        read.facts.append(loader)
    return read


def _tried(case: Case, path: str, loader: str, files: list[str], *, given: bool, comments: bool) -> list[Fact]:
    try:
        facts = limited(lambda: read_config(path, comments=comments), _FILE_SECONDS)
        files.append(path)
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
    if kind == "pyyaml" and any(fact.value["numbers"] for fact in case.all("code.config_read")):
        kind = "typed"  # with a resolver of its own
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
