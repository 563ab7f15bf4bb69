"""Which data a job names: flags, settings and constants of the code whose value is a path that exists.

Folders of output, weights, logs and caches are no data; nor is a folder that holds the program itself.
"""

from __future__ import annotations

import glob
import os
import re
from itertools import islice
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from crashcart.case import Case
    from crashcart.model import Fact

__all__ = ["named"]

IS_DATA = re.compile(
    r"(?i)data|train|val(?:id)?(?:ation)?[._-]|test|hdf5|h5\b|lmdb|parquet|image|img|episode|annotation|label|sample|corpus|split|root|split"
)
NO_DATA = re.compile(
    r"(?i)out|ckpt|checkpoint|weight|pretrain|model|resume|log|cache|save|config|cfg|wandb|tensorboard|vocab|token|script|venv|home|python"
    r"|deepspeed|hostfile|encoder|vae|tmp|temp|work_?dir|project|stats?\b|norm"
)
NAMES = ("data.path",)
NO_SUFFIX = (".py", ".sh", ".yaml", ".yml", ".toml")
_MOST = 12
_MATCHES = 100_000
_WILDCARDS = 3  # folders with a wildcard in a path: each lists all that the one before it found


def named(case: Case, places: Sequence[str], program: Sequence[str]) -> list[tuple[str, Fact]]:
    """Each path once, with the first fact that names it; the job's own settings before the code's constants."""
    found: dict[str, tuple[str, Fact]] = {}
    code: list[str] = []
    facts = sorted(case.facts.values(), key=lambda fact: fact.name not in NAMES)
    for fact, value in (*_settings(facts), *_constants(case)):
        for path in _existing(value, places):
            real = os.path.realpath(path)
            code = code or [os.path.realpath(one) for one in program]
            holds_code = any(one == real or one.startswith(real + os.sep) for one in code)
            covered = any(real.startswith(known + os.sep) and one.name in case.facts for known, (_, one) in found.items())
            if real not in found and not holds_code and not covered and len(found) < _MOST:
                found[real] = (path, fact)
    bases = {
        one
        for one, (_, fact) in found.items()
        if fact.origin == "code" and any(other.startswith(one + os.sep) for other in found)
    }
    return [named for real, named in found.items() if real not in bases]


def _settings(facts: Sequence[Fact]) -> Iterator[tuple[Fact, object]]:
    for fact in facts:
        if _may_be(fact):
            for value in fact.value if isinstance(fact.value, list) else [fact.value]:
                yield fact, value


def _constants(case: Case) -> Iterator[tuple[Fact, object]]:
    """What the program was seen to read, where its code names it."""
    set_here = {name for fact in case.all("launch.variables") for name in fact.value} | set(os.environ)
    for fact in case.all("code.data_path"):
        if not set_here & set(fact.value["variables"]):
            yield fact, fact.value["path"]


def _may_be(fact: Fact) -> bool:
    if fact.name in NAMES:
        return True
    if fact.name.startswith(
        ("launch.", "environment.", "output.", "resume.", "command.", "script.", "tracker.", "distributed.")
    ):
        return False
    spelling = fact.spelling or fact.name
    if fact.name.endswith("config_path") or fact.name == "config.path" or NO_DATA.search(spelling.rpartition(".")[2]):
        return False
    return bool(IS_DATA.search(spelling))


def _existing(value: object, places: Sequence[str]) -> Iterator[str]:
    if (
        not isinstance(value, str)
        or not value.strip()
        or "\n" in value
        or "\0" in value
        or "://" in value
        or value in {".", "/", "..", "~"}
    ):
        return
    value = os.path.expanduser(value)
    if value.endswith(NO_SUFFIX):
        return
    for place in places:
        path = os.path.normpath(os.path.join(place, value))
        if any(sign in value for sign in "*?["):
            if sum(any(sign in part for sign in "*?[") for part in path.split(os.sep)) <= _WILDCARDS:
                found = islice((one for one in glob.iglob(path) if not one.endswith(NO_SUFFIX)), _MATCHES)
                yield from sorted(found)[:_MOST]
            continue
        if os.path.isfile(path) or (os.path.isdir(path) and not os.path.ismount(path)):
            yield path
            return
