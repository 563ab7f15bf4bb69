"""Folders of torch.distributed.checkpoint.

    .metadata   __0_0.distcp   __1_0.distcp ...       (rank, number of the file)

`.metadata` is a pickle, renamed into place when every rank is done. For each piece of a tensor it has a
`_StorageInfo(relative_path, offset, length)`, and each such slice of a `.distcp` file is a torch.save zip of its own,
with its checksums. So the slices can be checked as files are, and the lengths of the files follow.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from crashcart.checkpoints import imports
from crashcart.checkpoints.model import DamageError, Look, Problem, in_words
from crashcart.checkpoints.paper import Built, Global, Pickle, Table
from crashcart.checkpoints.pickles import PICKLE_BYTES, walk
from crashcart.checkpoints.spans import Budget, Span, opened
from crashcart.checkpoints.torch_zip import look_at_zip

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.checkpoints.listing import Listing, Looks

METADATA: Final = ".metadata"
SUFFIX: Final = ".distcp"
_AT_MOST: Final = 4


@dataclass(frozen=True)
class Slice:
    """Where one piece of a tensor lies; a transformed one (compressed) is no zip."""

    file: str
    offset: int
    length: int
    transformed: bool


def is_dcp(listing: Listing) -> bool:
    """Recognise the folder, also when the save was cut off before `.metadata`."""
    return METADATA in listing.files or bool(listing.matching(SUFFIX))


def problems(listing: Listing, looks: Looks) -> Iterator[Problem]:
    """Say whether the save finished."""
    if METADATA not in listing.files:
        yield Problem("broken", f"{METADATA} is missing: the save did not finish (it is written last)")
    elif looks[METADATA].verdict == "whole" and not listing.matching(SUFFIX) and len(looks) == 1:
        yield Problem("doubtful", f"{METADATA} names no files, and there are none")


def look_at_slices(listing: Listing, budget: Budget) -> dict[str, Look]:
    """Check `.metadata` and each `.distcp` file slice by slice."""
    looks = {name: Look("dcp") for name in listing.matching(SUFFIX)}
    if METADATA not in listing.files:
        return looks
    try:
        pickle = _read(listing.folder / METADATA)
        slices = list(_slices(pickle))
    except DamageError as damage:
        return {**looks, METADATA: Look("dcp", (damage.problem,))}
    except OSError as error:
        problem = Problem("unknown", f"could not be read: {error.strerror or error}")
        return {**looks, METADATA: Look("dcp", (problem,))}
    by_file: dict[str, list[Slice]] = {}
    for piece in slices:
        by_file.setdefault(piece.file, []).append(piece)
    stray = [name for name in looks if name not in by_file]
    says = f"{METADATA} does not name {', '.join(stray[:_AT_MOST])}" if stray else None
    unnamed = (Problem("doubtful", says),) if says and not by_file else ()
    notes = (says,) if says and by_file else ()
    looks[METADATA] = Look("dcp", unnamed, (*imports.notes(pickle.imports), *notes))
    for name, pieces in sorted(by_file.items()):
        looks[name] = _look_at_file(listing.folder / name, sorted(pieces, key=lambda piece: piece.offset), budget)
    return looks


def _read(path: Path) -> Pickle:
    with opened(path) as span:
        if span.size == 0:
            raise DamageError(Problem("broken", "the file is empty (0 bytes)"))
        if span.size > PICKLE_BYTES:
            raise DamageError(Problem("unknown", f"it has {in_words(span.size)}, too much to be followed"))
        pickle = walk(span.at(0, span.size))
    if pickle.end != span.size:
        raise DamageError(Problem("broken", f"{in_words(span.size - pickle.end)} follow after its end"))
    built = pickle.value
    if not isinstance(built, Built) or not isinstance(built.function, Global) or built.function.name != "Metadata":
        raise DamageError(Problem("broken", "it holds something other than the metadata of a checkpoint"))
    return pickle


def _slices(pickle: Pickle) -> Iterator[Slice]:
    for call in pickle.calls:
        if isinstance(call.function, Global) and call.function.name == "_StorageInfo":
            state = dict(_fields(call))
            file, offset, length = state.get("relative_path"), state.get("offset"), state.get("length")
            if not isinstance(file, str) or not isinstance(offset, int) or not isinstance(length, int):
                raise DamageError(Problem("broken", "the place of a tensor cannot be read from it"))
            if Path(file).name != file or min(offset, length) < 0:
                raise DamageError(Problem("broken", f"it names a place outside the folder: {file}"))
            yield Slice(file, offset, length, bool(state.get("transform_descriptors")))


def _fields(call: Built) -> Iterator[tuple[str, object]]:
    for state in call.state:
        if isinstance(state, Table):
            yield from ((key, value) for key, value in state.pairs if isinstance(key, str))


def _look_at_file(path: Path, slices: list[Slice], budget: Budget) -> Look:
    try:
        with opened(path) as span:
            misplaced = list(_misplaced(span, slices))
            return Look("dcp", tuple(misplaced)) if misplaced else _look_into(span, slices, budget)
    except FileNotFoundError:
        return Look("dcp", (Problem("broken", f"the file is not there, and {len(slices)} tensors lie in it"),))
    except OSError as error:
        return Look("dcp", (Problem("unknown", f"could not be read: {error.strerror or error}"),))


def _misplaced(span: Span, slices: list[Slice]) -> Iterator[Problem]:
    position = 0
    for piece in slices:
        if piece.offset < position:
            yield Problem("broken", f"{METADATA} puts two tensors into the same place of it")
            return
        position = piece.offset + piece.length
    if position > span.size:
        sizes = f"{in_words(span.size)} on disk, {in_words(position)} expected"
        yield Problem("broken", "the file is empty (0 bytes)" if not span.size else f"the file ends in the middle ({sizes})")
    elif position < span.size:
        yield Problem(
            "doubtful", f"{in_words(span.size - position)} of it are unknown to {METADATA}: perhaps of another save"
        )


def _look_into(span: Span, slices: list[Slice], budget: Budget) -> Look:
    found: list[Problem] = []
    notes: dict[str, None] = {}
    unread = 0
    for piece in slices:
        if piece.transformed or not piece.length:
            continue
        try:
            look = look_at_zip(span.part(piece.offset, piece.length), budget)
        except DamageError as damage:
            look = Look("dcp", (damage.problem,))
        found.extend(Problem(p.verdict, f"the tensor at byte {piece.offset}: {p.says}") for p in look.problems)
        notes.update(dict.fromkeys(look.notes))
        unread += look.unread_bytes
    return Look("dcp", tuple(found[:_AT_MOST]), tuple(notes)[:_AT_MOST], unread)
