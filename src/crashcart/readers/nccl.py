"""Dumps of NCCL's flight recorder: which collectives each rank had entered. They are pickles, and are read without unpickling."""

from __future__ import annotations

import os
import time
from typing import Any

from crashcart.checkpoints.model import DamageError, Problem
from crashcart.checkpoints.paper import Table
from crashcart.checkpoints.pickles import PICKLE_BYTES, walk
from crashcart.flight import Collective
from crashcart.numbers import to_count, to_int
from crashcart.recording.files import listed, top_of
from crashcart.regular_files import read_whole

__all__ = ["read_dumps"]

_LONGEST = 400
_LATEST_NS = 1 << 63
_MOST_DUMPS = 5000
_SECONDS = 10.0  # for all of them; a dump of 2,000 collectives takes half a second
_MOST_VALUES = 400_000
_MOST_ENTRIES = 400  # of each rank, the newest: older ones all ranks have


def read_dumps(folder: str) -> list[Collective]:
    """The last collectives of every rank whose dump is in that folder of a run (``rank_3`` is rank 3's)."""
    found: list[Collective] = []
    run, inner = os.path.split(folder)
    until = time.monotonic() + _SECONDS
    for name in listed(run, inner)[:_MOST_DUMPS]:
        rank = to_count(name.rpartition("_")[2])
        if rank is not None and time.monotonic() < until:
            found += _of_rank(os.path.join(folder, name), rank, top_of(run))
    return found


def _of_rank(path: str, rank: int, top: str) -> list[Collective]:
    try:
        pickle = walk(read_whole(path, PICKLE_BYTES, no_links_below=top))
        dump = _Plain().of(pickle.value)
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
    frames, created = entry.get("frames"), entry.get("time_created_ns")
    frames = [frame for frame in frames if isinstance(frame, dict)] if isinstance(frames, list) else []
    own = next(
        (frame for frame in frames if "site-packages" not in str(frame.get("filename"))), frames[0] if frames else None
    )
    return Collective(
        rank=rank,
        group=str(group[0]) if isinstance(group, (list, tuple)) and group else str(entry.get("pg_id")),
        sequence=sequence,
        operation=str(entry.get("profiling_name", "")).removeprefix("nccl:"),
        sizes=str(entry.get("input_sizes", ""))[:_LONGEST],
        state=str(entry.get("state", ""))[:_LONGEST],
        where=f"{own.get('filename')}:{own.get('line')} in {own.get('name')}"[:_LONGEST] if own else "",
        time=created / 1e9 if isinstance(created, (int, float)) and 0 <= created < _LATEST_NS else 0.0,
    )


class _Plain:
    """Makes plain data of what a pickle holds; a pickle may refer to one thing again and again, so that they are counted."""

    def __init__(self) -> None:
        self._left = _MOST_VALUES

    def of(self, value: object) -> Any:  # noqa: ANN401 - what a pickle of plain data holds
        self._left -= 1
        if self._left < 0:
            raise DamageError(Problem("unknown", f"it holds more than {_MOST_VALUES} values"))
        if isinstance(value, Table):
            return {key: self.of(item) for key, item in value.pairs if isinstance(key, (str, int))}
        if isinstance(value, (list, tuple)):
            return [self.of(item) for item in value]
        return value if isinstance(value, (str, int, float, bool, bytes)) else None
