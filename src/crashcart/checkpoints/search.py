"""Finding checkpoints below a folder, newest first.

Bounded in every direction: depth, number of folders, number of checkpoints, bytes read. Links are followed once, by
device and inode, so a loop ends and `last.ckpt -> epoch=1-step=8.ckpt` is one checkpoint.
"""

from __future__ import annotations

import heapq
import re
import time
from collections import deque
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from crashcart.checkpoints.folders import pointed_at, recognise
from crashcart.checkpoints.inspection import inspect_within
from crashcart.checkpoints.listing import Listing, list_folder
from crashcart.checkpoints.one_file import SUFFIXES
from crashcart.checkpoints.spans import BUDGET_BYTES, Budget
from crashcart.checkpoints.steps import named_count, named_epoch, named_step

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator

    from crashcart.checkpoints.model import Checkpoint

_DEEPEST: Final = 6
_MOST_FOLDERS: Final = 5_000
_MOST_ENTRIES: Final = 200_000
_LIMIT: Final = 200
# Token files and caches are called .bin and .pkl too; these must look like a checkpoint by their name.
_COMMON_SUFFIXES: Final = frozenset({".bin", ".pkl", ".pickle", ".tar"})
_NAMED_LIKE_ONE: Final = re.compile(
    r"model|checkpoint|ckpt|weights|state|step|epoch|iter|snapshot|\.pth?\.tar$", re.IGNORECASE
)
_COMPANION: Final = re.compile(r"^(optimizer|scheduler|scaler|sampler|random_states|rng_state|training_args)\b")
_SKIPPED: Final = frozenset({"__pycache__", "node_modules", "site-packages"})


@dataclass(frozen=True)
class _Found:
    path: Path
    step: int | None
    epoch: int | None
    modified: float


def find(
    folder: str | os.PathLike[str],
    *,
    limit: int = _LIMIT,
    deep: bool = True,
    budget_bytes: int = BUDGET_BYTES,
    seconds: float | None = None,
    left_out: list[str] | None = None,
) -> list[Checkpoint]:
    """List the checkpoints below a folder, newest first: by step, then by epoch, then by time.

    The budget for checksums is shared, and the newest are served first. ``seconds`` of processor time bound the search through
    the folders; where a bound was reached, ``left_out`` says which.
    """
    root = Path(folder)
    budget = Budget(budget_bytes if deep else 0)
    bounds: list[str] = left_out if left_out is not None else []
    every = list(_search(root, seconds, bounds))
    if len(every) > limit:
        bounds.append(f"{len(every) - limit} older checkpoints below {folder} are left out")
    found = heapq.nsmallest(limit, every, key=_age)
    return sorted((inspect_within(item.path, budget) for item in found), key=_age)


def newest_whole(
    folder: str | os.PathLike[str], *, limit: int = _LIMIT, budget_bytes: int = BUDGET_BYTES
) -> Checkpoint | None:
    """Return the newest checkpoint that is whole, checksums included where they fit into the budget of each."""
    for candidate in find(folder, limit=limit, deep=False):
        if candidate.verdict == "whole":
            checked = inspect_within(candidate.path, Budget(budget_bytes))
            if checked.verdict == "whole":
                return checked
    return None


def _age(item: _Found | Checkpoint) -> tuple[bool, int, bool, int, float]:
    """By step, then by epoch, then by time: file systems lie about times."""
    return item.step is None, -(item.step or 0), item.epoch is None, -(item.epoch or 0), -item.modified


def _found(path: Path) -> _Found:
    try:
        modified = path.stat().st_mtime
    except (OSError, ValueError):
        modified = 0.0
    return _Found(path, named_step(path.name), named_epoch(path.name), modified)


def _search(root: Path, seconds: float | None, left_out: list[str]) -> Iterator[_Found]:
    seen: set[tuple[int, int]] = set()
    waiting = deque([(root, 0)])
    entries = folders = 0
    until = time.thread_time() + seconds if seconds is not None else float("inf")
    while waiting:
        if folders >= _MOST_FOLDERS or entries > _MOST_ENTRIES or time.thread_time() > until:
            left_out.append(f"the search below {root} stopped after {folders} folders and {entries} entries")
            return
        folder, depth = waiting.popleft()
        folders += 1
        if not _is_new(folder, seen):
            continue
        try:
            listing = list_folder(folder)
        except (OSError, ValueError):
            yield _found(folder)
            continue
        entries += len(listing.files) + len(listing.folders)
        own, below = _checkpoints_in(listing)
        yield from (_found(path) for path in own if path == folder or _is_new(path, seen))
        if depth < _DEEPEST:
            waiting.extend((path, depth + 1) for path in below)


def _is_new(path: Path, seen: set[tuple[int, int]]) -> bool:
    try:
        found = path.stat()
    except (OSError, ValueError):
        return True
    known = (found.st_dev, found.st_ino) in seen
    seen.add((found.st_dev, found.st_ino))
    return not known


def _checkpoints_in(listing: Listing) -> tuple[list[Path], list[Path]]:
    """Split a folder into its own checkpoints and the subfolders still to be searched."""
    kind = recognise(listing)
    below = [name for name in listing.folders if not name.startswith(".") and name not in _SKIPPED]
    if kind:
        return [listing.folder], _links_last(listing.folder, [name for name in below if not kind.claims(name)])
    files = [name for name in listing.files if _is_checkpoint_file(name)]
    if files and listing.count is not None and all(named_count(name) is None for name in files):
        return [listing.folder], _links_last(listing.folder, below)  # a folder of the program's own making
    own = _links_last(listing.folder, files)
    pointer = pointed_at(listing)
    if pointer and pointer[1] not in listing.folders:
        own.append(listing.folder / pointer[1])
    if not own and not below and listing.step is not None and not listing.files:
        own = [listing.folder]
    return own, _links_last(listing.folder, below)


def _links_last(folder: Path, names: list[str]) -> list[Path]:
    return sorted((folder / name for name in names), key=lambda path: (path.is_symlink(), path.name))


def _is_checkpoint_file(name: str) -> bool:
    suffix = Path(name).suffix.lower()
    if suffix not in SUFFIXES or _COMPANION.match(name) or name.startswith("."):
        return False
    return suffix not in _COMMON_SUFFIXES or bool(_NAMED_LIKE_ONE.search(name))
