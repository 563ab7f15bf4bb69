"""Files of torch.save before 1.6, or with `_use_new_zipfile_serialization=False`: pickles, then raw data.

    pickle 0x1950a86a20f9469cfc6c   pickle 1001   pickle {'protocol_version': ...}   pickle of the object
    pickle ['94481165085536', ...]  then for each of these keys: 8 bytes count, count x item size bytes

There is no checksum and no end record. Only lengths can be compared: each count with what the object's pickle says of
that storage, and the end of the last storage with the end of the file.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final

from crashcart.checkpoints import imports, storages, zeros
from crashcart.checkpoints.model import DamageError, Look, Problem, in_words
from crashcart.checkpoints.pickles import PICKLE_BYTES, walk

if TYPE_CHECKING:
    from collections.abc import Mapping

    from crashcart.checkpoints.paper import Pickle
    from crashcart.checkpoints.spans import Span

_MAGIC: Final = 0x1950A86A20F9469CFC6C
_PROTOCOL: Final = 1001
_COUNT: Final = struct.Struct("<q")


def look_at_pickle(span: Span, *, plain_is_fine: bool) -> Look:
    """Check a file that begins with a pickle: the old torch format, or a plain pickle."""
    head = span.at(0, min(span.size, PICKLE_BYTES))
    first = _walk(head, 0, span)
    if first.value == _MAGIC:
        return _look_at_stream(span, head, first.end)
    problems = [] if plain_is_fine else [Problem("unknown", "a plain pickle; torch.save did not write it")]
    if first.end != span.size:
        problems = [Problem("unknown", f"{in_words(span.size - first.end)} follow after a plain pickle")]
    return Look(
        "pickle",
        tuple(problems),
        imports.notes(first.imports),
        0,
        storages.numbers_of(first.value),
        storages.empty_of(first.value),
        storages.keys_of(first.value),
    )


def _walk(head: bytes, start: int, span: Span) -> Pickle:
    try:
        return walk(head, start)
    except DamageError as damage:
        if len(head) < span.size:
            raise DamageError(Problem("unknown", f"its pickle is longer than {in_words(len(head))} or damaged")) from damage
        size = in_words(span.size)
        raise DamageError(
            Problem("broken", f"the file ends or is damaged in the middle of a pickle ({size} on disk)")
        ) from damage


def _look_at_stream(span: Span, head: bytes, position: int) -> Look:
    protocol = _walk(head, position, span)
    system = _walk(head, protocol.end, span)
    content = _walk(head, system.end, span)
    keys = _walk(head, content.end, span)
    if protocol.value != _PROTOCOL or not isinstance(keys.value, list):
        raise DamageError(Problem("broken", "the old torch format, with a damaged beginning"))
    regions, problems = _regions(span, content, [str(key) for key in keys.value], keys.end)
    doubt = None if problems else zeros.doubt(span, regions)
    return Look(
        "torch-legacy",
        (*problems, doubt) if doubt else tuple(problems),
        imports.notes(content.imports),
        0,
        storages.numbers_of(content.value),
        storages.empty_of(content.value),
        storages.keys_of(content.value),
    )


def _regions(span: Span, content: Pickle, keys: list[str], position: int) -> tuple[list[zeros.Region], list[Problem]]:
    expected: dict[str, storages.Storage] = {}
    for storage in storages.storages_of(content):
        expected.setdefault(storage.key, storage)
    if set(expected) != set(keys) or len(set(keys)) != len(keys):
        return [], [Problem("broken", f"it lists {len(keys)} storages, its tensors use {len(expected)}")]
    rows = storages.row_counts(content)
    regions: list[zeros.Region] = []
    for number, key in enumerate(keys):
        where = f"in storage {number + 1} of {len(keys)} ({in_words(span.size)} on disk)"
        try:
            region = _region(span, position, expected[key], rows)
        except DamageError as damage:
            return regions, [Problem(damage.problem.verdict, f"{damage.problem.says} {where}")]
        regions.append(region)
        position = region.end
    if position != span.size:
        return regions, [Problem("doubtful", f"{in_words(span.size - position)} follow after the last storage")]
    return regions, []


def _region(span: Span, position: int, storage: storages.Storage, rows: Mapping[str, int]) -> zeros.Region:
    if position + _COUNT.size > span.size:
        raise DamageError(Problem("broken", "the file ends in the middle:"))
    (count,) = _COUNT.unpack(span.at(position, _COUNT.size))
    if count != storage.count:
        raise DamageError(Problem("broken", f"{count} items where {storage.count} are expected"))
    if storage.item_bytes is None:
        raise DamageError(Problem("unknown", f"a {storage.type_name}, whose size is not known,"))
    start = position + _COUNT.size
    end = start + count * storage.item_bytes
    if end > span.size:
        raise DamageError(Problem("broken", "the file ends in the middle:"))
    row_bytes = rows.get(storage.key, count) * storage.item_bytes
    return zeros.Region(storage.key, start, end, storage.item_bytes, row_bytes, storage.is_float)
