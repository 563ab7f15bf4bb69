"""Paths that the job names and that are not there.

Only what is surely a path of this machine's file system counts: relative to a folder that is known (the program itself was
found from there), or absolute. Names of a hub (``org/name``), addresses, patterns, words like ``latest`` and what the script
makes itself are none. An absolute path whose first folders are not here either belongs to another machine.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from crashcart.errors import CommandError
from crashcart.model import Fact
from crashcart.readers.job.script_files import text_of
from crashcart.regular_files import walk

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

__all__ = ["NO_PATH", "lies_elsewhere", "missing", "missing_program"]

KINDS = {
    "config.path": "config", "launch.config_path": "config", "distributed.config_path": "config", "resume.path": "checkpoint",
    "data.path": "data",
}  # fmt: skip
SUFFIX = re.compile(
    r"\.(?:ya?ml|json|toml|py|pth?|ckpt|bin|safetensors|tar|csv|tsv|parquet|h5|hdf5|lmdb|jsonl|txt|npz|npy|pkl|arrow)$"
)
NO_PATH = re.compile(r"://|[*?\[\]{}$<>|]|^~|\n|^(?:hf|s3|gs|hdfs|oss):|path/to|your[_-]|xxx|put ", re.IGNORECASE)
WORDS = {"latest", "last", "auto", "best", "true", "false", "none", "null", "allow", "must", "never", ""}
_HYDRA = {"--config-name", "-cn", "--config-path", "-cp", "--config-dir", "-cd"}  # counted from the program's own folder
_MOST_NAMES, _LOOKING_SECONDS = 5_000, 0.2


def missing(
    facts: Sequence[Fact], places: Sequence[str], *, sure: bool, unread: frozenset[str] = frozenset()
) -> Iterator[Fact]:
    """``path.missing``: the kind, and whether the folder from which it counts is known; ``unread`` settings may not be read."""
    made = " ".join(str(fact.value) for fact in facts if fact.name == "script.other_commands")
    last = {fact.name: fact for fact in facts if fact.name in KINDS}
    for name, fact in last.items():
        kind, path = KINDS[name], fact.value
        if not isinstance(path, str) or not _is_path(path, kind) or (made and os.path.basename(path.rstrip("/")) in made):
            continue
        if fact.spelling in _HYDRA or any(os.path.exists(os.path.join(place, path)) for place in places):
            continue
        if fact.origin == "file" and os.path.exists(os.path.join(os.path.dirname(fact.evidence.where), path)):
            continue  # it counts from the file that names it
        if os.path.basename(path) == path and _is_somewhere(path, places):
            continue  # the program may look for it in its own folders
        if not fact.spelling and path.endswith(".json"):
            continue  # a word without a flag may as well name what is written
        elsewhere = lies_elsewhere(path)
        yield Fact(
            "path.missing",
            {"kind": kind, "path": path, "sure": sure and not elsewhere and name not in unread, "elsewhere": elsewhere},
            fact.evidence,
            fact.origin,
            fact.spelling,
            fact.span,
        )


def missing_program(facts: Sequence[Fact], places: Sequence[str]) -> Iterator[Fact]:
    """``path.missing`` for a program or script that is typed, or that a script beside others starts and none of them is named so."""
    folders = [str(fact.value) for fact in facts if fact.name == "launch.folder"]
    if not all(any(os.path.isdir(os.path.join(place, folder)) for place in (".", *places)) for folder in folders):
        return  # the script makes it, or it is on another machine
    for fact in facts:
        path = str(fact.value)
        suffix = os.path.splitext(path)[1]
        if fact.name != "launch.script" or suffix not in {".py", ".sh"} or NO_PATH.search(path) or os.path.isabs(path):
            continue
        name, is_typed = os.path.basename(path), fact.evidence.where == "command"
        if any(os.path.exists(os.path.join(place, path)) for place in places) or _names_again(fact, name):
            continue
        if is_typed or (_is_somewhere(suffix, places) and not _is_somewhere(name, places)):
            about = {"kind": "program", "path": path, "sure": True, "elsewhere": False, "folder_here": True}
            yield Fact("path.missing", about, fact.evidence, fact.origin, fact.spelling, fact.span)


def _names_again(fact: Fact, name: str) -> bool:
    """Whether the script that starts a program has its name in another place: it may make it."""
    try:
        return text_of(fact.evidence.where.rpartition(":")[0]).count(name) > 1
    except CommandError:
        return False


def _is_somewhere(name: str, places: Sequence[str]) -> bool:
    """Whether a folder of the project holds a file of that name, or with that suffix."""
    for place in dict.fromkeys(map(os.path.realpath, places)):
        for _, folders, names in walk(place, most=_MOST_NAMES, processor_seconds=_LOOKING_SECONDS):
            folders[:] = [each for each in folders if not each.startswith(".")]
            if name in names or (name.startswith(".") and any(each.endswith(name) for each in names)):
                return True
    return False


def lies_elsewhere(path: str) -> bool:
    """Whether not even the first folders of an absolute path are here: then it belongs to another machine."""
    return os.path.isabs(path) and not os.path.exists("/".join(path.split("/")[:3]))


def _is_path(path: str, kind: str) -> bool:
    if NO_PATH.search(path) or path.strip().lower() in WORDS:
        return False
    if SUFFIX.search(path):
        return True
    if kind == "config":
        return False
    if path.startswith(("/", "./", "../")):
        return True
    return kind == "checkpoint" and "/" in path and bool(re.search(r"(?i)checkpoint|ckpt|epoch|step|runs?/|outputs?/", path))
