"""Which kind of checkpoint a folder is, and what its files show together.

Kinds are tried in order, the most particular first: a Trainer folder with DeepSpeed inside is a Trainer folder. A kind
recognises a listing, claims the subfolders that belong to it, and says what is missing; the files are looked at alike.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from crashcart.checkpoints import accelerate, dcp, deepspeed, megatron, shards, siblings, trainer
from crashcart.checkpoints.json_files import look_at_json
from crashcart.checkpoints.listing import Listing, Looks, list_folder, pointer_in
from crashcart.checkpoints.model import Kind, Look, Problem
from crashcart.checkpoints.one_file import SUFFIXES, look_at_file
from crashcart.checkpoints.steps import named_step
from crashcart.numbers import to_count

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from crashcart.checkpoints.spans import Budget

_DEEPEST: Final = 3


@dataclass(frozen=True)
class FolderKind:
    """A kind of folder: how it is known, what belongs to it, and what can be wrong."""

    kind: Kind
    recognises: Callable[[Listing], bool]
    problems: Callable[[Listing, Looks], Iterable[Problem]]
    claims: Callable[[str], bool]


@dataclass(frozen=True)
class Examined:
    """A folder that was looked at; the looks are by path relative to it."""

    kind: Kind
    problems: tuple[Problem, ...] = ()
    notes: tuple[str, ...] = ()
    looks: Looks = field(default_factory=dict)


def _no_subfolder(_: str) -> bool:
    return False


def _not_a_checkpoint_itself(name: str) -> bool:
    return named_step(name) is None or name.startswith("global_step")


def _no_problems(_listing: Listing, _looks: Looks) -> Iterable[Problem]:
    return ()


_KINDS: Final = (
    FolderKind("trainer", trainer.is_trainer, trainer.problems, _not_a_checkpoint_itself),
    FolderKind("accelerate", accelerate.is_accelerate, accelerate.problems, _not_a_checkpoint_itself),
    FolderKind("deepspeed", deepspeed.is_deepspeed, deepspeed.problems, _no_subfolder),
    FolderKind("megatron", megatron.is_megatron, megatron.problems, megatron.claims),
    FolderKind("dcp", dcp.is_dcp, dcp.problems, _no_subfolder),
    FolderKind("sharded", shards.is_sharded, _no_problems, _no_subfolder),
    FolderKind("model", shards.is_model, _no_problems, _no_subfolder),
)


def recognise(listing: Listing) -> FolderKind | None:
    """Tell what kind of checkpoint this folder is, if it is one."""
    return next((kind for kind in _KINDS if kind.recognises(listing)), None)


def examine(listing: Listing, budget: Budget, depth: int = 0) -> Examined:
    """Look at every file of a checkpoint folder and at how they fit together."""
    kind = recognise(listing)
    looks = _look_at_files(listing, budget, with_json=kind is not None)
    if kind is None:
        return Examined("files", tuple(siblings.problems(listing, known=False)), looks=looks)
    if dcp.is_dcp(listing):
        looks.update(dcp.look_at_slices(listing, budget))
    inner = list(_examine_inside(listing, kind, budget, depth))
    for name, examined in inner:
        looks.update({f"{name}/{path}": look for path, look in examined.looks.items()})
    problems = [Problem(p.verdict, f"{name}: {p.says}") for name, examined in inner for p in examined.problems]
    problems += [*kind.problems(listing, looks), *shards.problems(listing, looks), *_around(listing, kind)]
    return Examined(kind.kind, tuple(dict.fromkeys(problems)), tuple(_notes(listing, kind)), looks)


def _look_at_files(listing: Listing, budget: Budget, *, with_json: bool) -> dict[str, Look]:
    looks: dict[str, Look] = {}
    for name in sorted(listing.files):
        path = listing.folder / name
        if path.suffix.lower() in SUFFIXES:
            looks[name] = look_at_file(path, budget)
        elif with_json and path.suffix == ".json":
            looks[name] = look_at_json(path)
    return looks


def _examine_inside(listing: Listing, kind: FolderKind, budget: Budget, depth: int) -> Iterator[tuple[str, Examined]]:
    if depth >= _DEEPEST:
        return
    for name in sorted(filter(kind.claims, listing.folders)):
        yield name, examine_folder(listing.folder / name, budget, depth + 1)


def examine_folder(folder: Path, budget: Budget, depth: int = 0) -> Examined:
    """Look at a folder; one that cannot be listed is unknown."""
    try:
        return examine(list_folder(folder), budget, depth)
    except OSError as error:
        return Examined("unknown", (Problem("unknown", f"could not be listed: {error.strerror or error}"),))


def _around(listing: Listing, kind: FolderKind) -> Iterator[Problem]:
    yield from siblings.problems(listing)
    if kind.kind == "dcp":
        yield from megatron.behind_tracker(listing)
    latest = pointer_in(listing.folder, deepspeed.LATEST) if deepspeed.LATEST in listing.files else None
    if latest and latest not in listing.folders:
        yield Problem("broken", f"`latest` names {latest}, which is not there")


def _notes(listing: Listing, kind: FolderKind) -> Iterator[str]:
    if kind.kind == "trainer" and trainer.holds_model_only(listing):
        yield "it holds the model only: no optimizer, scheduler or random states to go on training from"


def pointed_at(listing: Listing) -> tuple[str, str] | None:
    """Return the file that names the newest checkpoint of this folder, and the folder that it names."""
    if deepspeed.LATEST in listing.files:
        latest = pointer_in(listing.folder, deepspeed.LATEST)
        return (deepspeed.LATEST, latest) if latest and Path(latest).name == latest else None
    tracked = pointer_in(listing.folder, megatron.TRACKER) if megatron.TRACKER in listing.files else None
    step = to_count(tracked)
    if step is not None:
        return megatron.TRACKER, f"iter_{step:07}"
    return None
