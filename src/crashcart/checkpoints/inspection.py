"""One checkpoint, file or folder, put together into its verdict."""

from __future__ import annotations

import stat
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from crashcart.checkpoints.folders import Examined, examine, examine_folder, pointed_at, recognise
from crashcart.checkpoints.json_files import INDEX_SUFFIX, look_at_json
from crashcart.checkpoints.listing import Listing, Looks, list_folder
from crashcart.checkpoints.model import Checkpoint, Look, Part, Problem, Verdict, unread_sentence, worst
from crashcart.checkpoints.one_file import look_at_file
from crashcart.checkpoints.spans import BUDGET_BYTES, Budget
from crashcart.checkpoints.steps import named_epoch, named_step, step_in
from crashcart.errors import our_errors

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Iterator

_FRESH_SECONDS: Final = 60
_MOST_REASONS: Final = 12
_FOLDER_STEP_KEYS: Final = ("global_step", "global_steps", "iteration")


def inspect(path: str | os.PathLike[str], *, deep: bool = True, budget_bytes: int = BUDGET_BYTES) -> Checkpoint:
    """Tell whether one checkpoint is whole, without loading it.

    With `deep`, checksums are read too, of as many files as fit into `budget_bytes`; the reasons say what was left out.
    """
    return inspect_within(Path(path), Budget(budget_bytes if deep else 0))


def inspect_within(path: Path, budget: Budget) -> Checkpoint:
    """Tell whether one checkpoint is whole, spending from a budget that others share."""
    if "\0" in str(path):
        return _unreadable(path, "no file can have this name")
    problems: list[str] = []
    with our_errors(path.name, lambda _, why, how: problems.append(f"{why} ({how})")):
        try:
            return _inspect(path, budget)
        except FileNotFoundError:
            return _absent(path)
        except OSError as error:
            return _unreadable(path, f"could not be read: {error.strerror or error}")
    return _unreadable(path, " ".join(problems))


def _inspect(path: Path, budget: Budget) -> Checkpoint:
    if stat.S_ISDIR(path.stat().st_mode):
        return _inspect_folder(path, budget)
    if path.name.endswith(INDEX_SUFFIX):
        return _inspect_index(path, budget)
    return _inspect_file(path, look_at_file(path, budget))


def _inspect_file(path: Path, look: Look) -> Checkpoint:
    size, modified = _size_and_time(path)
    part = Part(path, look.kind, size, look.verdict, look.reasons)
    step, epoch = named_step(path.name), named_epoch(path.name)
    return Checkpoint(
        path,
        look.kind,
        step_in(look.numbers) if step is None else step,
        look.numbers.get("epoch") if epoch is None else epoch,
        size,
        modified,
        look.verdict,
        (*look.reasons, *_fresh(look.verdict, modified)),
        (part,),
    )


def _inspect_index(path: Path, budget: Budget) -> Checkpoint:
    names = {path.name, *look_at_json(path).shards}
    try:
        whole = list_folder(path.parent)
    except OSError as error:
        return _unreadable(path, f"the folder could not be listed: {error.strerror or error}")
    listing = Listing(whole.folder, {name: size for name, size in whole.files.items() if name in names}, frozenset())
    return _from_examined(path, listing.folder, examine(listing, budget))


def _inspect_folder(folder: Path, budget: Budget) -> Checkpoint:
    try:
        listing = list_folder(folder)
    except OSError as error:
        return _unreadable(folder, f"could not be listed: {error.strerror or error}")
    pointer = pointed_at(listing)
    if recognise(listing) is None and pointer:
        target = folder / pointer[1]
        return _inspect_target(folder, target, budget) if pointer[1] in listing.folders else _absent(target)
    examined = examine_folder(folder, budget)
    if not examined.looks and not examined.problems:
        return _nothing_in(folder, listing)
    return _from_examined(folder, folder, examined)


def _inspect_target(folder: Path, target: Path, budget: Budget) -> Checkpoint:
    path = folder if named_step(target.name) is None else target
    return _from_examined(path, target, examine_folder(target, budget))


def _from_examined(path: Path, folder: Path, examined: Examined) -> Checkpoint:
    parts = tuple(_parts(folder, examined.looks))
    verdict = worst((*(problem.verdict for problem in examined.problems), *(part.verdict for part in parts)))
    modified = max((_size_and_time(part.path)[1] for part in parts), default=_size_and_time(path)[1])
    step, epoch = named_step(path.name), named_epoch(path.name)
    return Checkpoint(
        path,
        examined.kind,
        _number(examined.looks, _FOLDER_STEP_KEYS) if step is None else step,
        _number(examined.looks, ("epoch",)) if epoch is None else epoch,
        sum(part.size_bytes for part in parts),
        modified,
        verdict,
        (*_shortened(_reasons(examined)), *_fresh(verdict, modified)),
        parts,
    )


def _parts(folder: Path, looks: Looks) -> Iterator[Part]:
    for name, look in looks.items():
        path = folder / name
        yield Part(path, look.kind, _size_and_time(path)[0], look.verdict, look.reasons)


def _reasons(examined: Examined) -> Iterator[str]:
    yield from (problem.says for problem in _worst_first(examined.problems))
    for name, look in examined.looks.items():
        yield from (f"{name}: {problem.says}" for problem in look.problems)
    yield from examined.notes
    for name, look in examined.looks.items():
        yield from (f"{name}: {note}" for note in look.notes)
    unread = sum(look.unread_bytes for look in examined.looks.values())
    if unread:
        yield unread_sentence(unread)


def _worst_first(problems: Iterable[Problem]) -> list[Problem]:
    return sorted(problems, key=lambda problem: problem.verdict != "broken")


def _shortened(reasons: Iterable[str]) -> tuple[str, ...]:
    every = tuple(dict.fromkeys(reasons))
    more = len(every) - _MOST_REASONS
    return (*every[:_MOST_REASONS], f"and {more} more") if more > 0 else every


def _number(looks: Looks, keys: tuple[str, ...]) -> int | None:
    return next((look.numbers[key] for key in keys for look in looks.values() if key in look.numbers), None)


def _nothing_in(folder: Path, listing: Listing) -> Checkpoint:
    empty = not listing.files and not listing.folders
    verdict: Verdict = "broken" if empty and listing.step is not None else "unknown"
    says = "the folder is empty" if empty else "no checkpoint file lies directly in this folder"
    return Checkpoint(
        folder, "unknown", listing.step, named_epoch(folder.name), 0, _size_and_time(folder)[1], verdict, (says,)
    )


def _absent(path: Path) -> Checkpoint:
    says, verdict = _why_absent(path)
    return Checkpoint(path, "unknown", named_step(path.name), named_epoch(path.name), 0, 0.0, verdict, (says,))


def _why_absent(path: Path) -> tuple[str, Verdict]:
    if path.is_symlink():
        return f"a link to {path.readlink()}, which is not there", "broken"
    try:
        pointer = pointed_at(list_folder(path.parent))
    except OSError:
        pointer = None
    if pointer and pointer[1] == path.name:
        return f"{pointer[0]} names it, and it is not there", "broken"
    return "there is no such file or folder", "unknown"


def _unreadable(path: Path, says: str) -> Checkpoint:
    return Checkpoint(path, "unknown", named_step(path.name), named_epoch(path.name), 0, 0.0, "unknown", (says,))


def _fresh(verdict: Verdict, modified: float) -> tuple[str, ...]:
    age = time.time() - modified
    if verdict in {"whole", "unknown"} or not 0 <= age < _FRESH_SECONDS:
        return ()
    return (f"it was written {age:.0f} seconds ago: the save may still be going on",)


def _size_and_time(path: Path) -> tuple[int, float]:
    try:
        found = path.stat()
    except OSError:
        return 0, 0.0
    return (found.st_size if stat.S_ISREG(found.st_mode) else 0), found.st_mtime
