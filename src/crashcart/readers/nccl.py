"""Dumps of NCCL's flight recorder: which collectives each rank had entered. They are pickles, and are read without unpickling."""

from __future__ import annotations

import os
from typing import Any

from crashcart.checkpoints.model import DamageError
from crashcart.checkpoints.paper import Table
from crashcart.checkpoints.pickles import walk
from crashcart.flight import Collective
from crashcart.numbers import to_count, to_float, to_int

__all__ = ["read_dumps"]

_LARGEST = 64 << 20
_MOST_ENTRIES = 400  # of each rank, the newest: older ones all ranks have


def read_dumps(folder: str) -> list[Collective]:
    """The last collectives of every rank whose dump is in the folder (``rank_3`` is rank 3's)."""
    try:
        names = sorted(os.listdir(folder))
    except OSError:
        return []
    found: list[Collective] = []
    for name in names:
        rank = to_count(name.rpartition("_")[2])
        if rank is not None:
            found += _of_rank(os.path.join(folder, name), rank)
    return found


def _of_rank(path: str, rank: int) -> list[Collective]:
    try:
        if os.path.getsize(path) > _LARGEST:
            return []
        with open(path, "rb") as file:
            dump = _plain(walk(file.read()).value)
    except (OSError, DamageError, RecursionError):
        return []
    entries = dump.get("entries") if isinstance(dump, dict) else None
    if not isinstance(entries, list):
        return []
    return [
        one for entry in entries[-_MOST_ENTRIES:] if isinstance(entry, dict) and (one := _entry(entry, rank)) is not None
    ]


def _entry(entry: dict[Any, Any], rank: int) -> Collective | None:
    sequence, group = entry.get("collective_seq_id"), entry.get("process_group")
    if type(sequence) is not int or to_int(sequence) is None or entry.get("is_p2p"):
        return None
    frames = [frame for frame in entry.get("frames") or () if isinstance(frame, dict)]
    own = next(
        (frame for frame in frames if "site-packages" not in str(frame.get("filename"))), frames[0] if frames else None
    )
    return Collective(
        rank=rank,
        group=str(group[0]) if isinstance(group, (list, tuple)) and group else str(entry.get("pg_id")),
        sequence=sequence,
        operation=str(entry.get("profiling_name", "")).removeprefix("nccl:"),
        sizes=str(entry.get("input_sizes", "")),
        state=str(entry.get("state", "")),
        where=f"{own.get('filename')}:{own.get('line')} in {own.get('name')}" if own else "",
        time=to_float(entry.get("time_created_ns"), 0.0) / 1e9,
    )


def _plain(value: object) -> Any:  # noqa: ANN401 - what a pickle of plain data holds
    if isinstance(value, Table):
        return {_key(key): _plain(item) for key, item in value.pairs}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return value if isinstance(value, (str, int, float, bool, bytes)) else None


def _key(key: object) -> object:
    return key if isinstance(key, (str, int)) else repr(key)
