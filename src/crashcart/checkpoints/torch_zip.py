"""Files of torch.save since 1.6: a zip with one pickle and one record for each storage.

    archive/data.pkl   archive/byteorder   archive/data/0   archive/data/1 ...   archive/version

Whole means: the archive is accounted for, every checksum fits, data.pkl can be followed to its end, and each storage
that it speaks of has a record of just that length. TorchScript files are the same with code/ and constants.pkl beside.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from crashcart.checkpoints import imports, storages, values
from crashcart.checkpoints.model import DamageError, Kind, Look, Problem, in_words
from crashcart.checkpoints.pickles import PICKLE_BYTES, walk
from crashcart.checkpoints.spans import AT_ONCE_BYTES, Budget, Span
from crashcart.checkpoints.zips import Archive, Member, crc_matches, read_archive

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.checkpoints.paper import Pickle

_PICKLE: Final = "data.pkl"
_AT_MOST: Final = 4
_SHORT: Final = 16


def look_at_zip(span: Span, budget: Budget) -> Look:
    """Check one torch zip, a file or one slice of a `.distcp`."""
    archive = read_archive(span)
    members = {member.name: member for member in archive.members}
    pickle_name = min((name for name in members if name.split("/")[-1] == _PICKLE), key=len, default=None)
    if pickle_name is None:
        raise DamageError(_without_pickle(members))
    root = pickle_name[: -len(_PICKLE)]
    oddities = [Problem("doubtful", says) for says in archive.oddities[:_AT_MOST]]
    bad, unread = _checksums(span, archive, members[pickle_name], budget)
    notes = () if archive.has_checksums else ("it was saved without checksums, so changed bytes cannot be seen",)
    if bad:
        return Look("torch-zip", (*_bad_checksums(bad), *oddities), notes, unread)
    if members[pickle_name].stored_bytes > PICKLE_BYTES or members[pickle_name].method:
        notes = (*notes, f"{pickle_name} ({in_words(members[pickle_name].size_bytes)}) was not followed")
        return Look("torch-zip", tuple(oddities), notes, unread)
    pickle = _pickle(span, members[pickle_name])
    problems = (*(_bad_storages(pickle, members, root) or _bad_values(span, pickle, members, root)), *oddities)
    return Look(
        _kind(pickle, members, root),
        problems,
        (*notes, *imports.notes(pickle.imports)),
        unread,
        storages.numbers_of(pickle.value),
        storages.empty_of(pickle.value),
        storages.keys_of(pickle.value),
    )


def _without_pickle(members: dict[str, Member]) -> Problem:
    if any(name.split("/")[-1] in {"archive_format", "model.json", "[Content_Types].xml"} for name in members):
        return Problem("unknown", "a zip archive that torch.save did not write")
    return Problem("broken", "the archive has no data.pkl, which says what the tensors are")


def _checksums(span: Span, archive: Archive, pickle: Member, budget: Budget) -> tuple[list[Member], int]:
    """Return the records whose checksum is wrong, and how many bytes were left unread."""
    if not archive.has_checksums:
        return [], 0
    total = sum(max(member.stored_bytes, member.size_bytes) for member in archive.members)
    if budget.take(total):
        return [member for member in archive.members if not crc_matches(span, member)], 0
    small = pickle.stored_bytes <= AT_ONCE_BYTES
    return ([pickle] if small and not crc_matches(span, pickle) else []), total - small * pickle.stored_bytes


def _bad_checksums(bad: list[Member]) -> Iterator[Problem]:
    for member in bad[:_AT_MOST]:
        size = in_words(member.size_bytes)
        yield Problem("broken", f"record {member.name} ({size}) does not match its checksum: its bytes changed")
    if len(bad) > _AT_MOST:
        yield Problem("broken", f"{len(bad) - _AT_MOST} more records do not match their checksums")


def _pickle(span: Span, member: Member) -> Pickle:
    pickle = walk(span.at(member.data, member.stored_bytes))
    if pickle.end != member.stored_bytes:
        raise DamageError(Problem("broken", f"{member.name} goes on after its end"))
    return pickle


def _bad_storages(pickle: Pickle, members: dict[str, Member], root: str) -> list[Problem]:
    says: dict[str, None] = {}
    for storage in storages.storages_of(pickle):
        name = f"{root}data/{storage.key}"
        found = members.get(name)
        if found is None:
            says[f"tensor data {name} is missing from the archive"] = None
        elif not storage.fits(found.size_bytes):
            expected = in_words(storage.size_bytes or 0)
            says[f"tensor data {name} has {in_words(found.size_bytes)} where data.pkl asks for {expected}"] = None
        if len(says) >= _AT_MOST:
            break
    return [Problem("broken", sentence) for sentence in list(says)[:_AT_MOST]]


def _bad_values(span: Span, pickle: Pickle, members: dict[str, Member], root: str) -> list[Problem]:
    order = members.get(f"{root}byteorder")
    if order is not None and span.at(order.data, order.stored_bytes if order.stored_bytes < _SHORT else 0) == b"big":
        return []
    names = storages.names_of(pickle)
    tensors = {
        storage.key: values.Floats(names.get(storage.key, member.name), member.data, member.size_bytes, storage.float_kind)
        for storage in storages.storages_of(pickle)
        if storage.float_kind and not (member := members[f"{root}data/{storage.key}"]).method
    }
    problem = values.nan_in(span, list(tensors.values()))
    return [problem] if problem else []


def _kind(pickle: Pickle, members: dict[str, Member], root: str) -> Kind:
    if f"{root}constants.pkl" in members:
        return "torch-script"
    keys = storages.keys_of(pickle.value) or frozenset()
    return "lightning" if "pytorch-lightning_version" in keys else "torch-zip"
