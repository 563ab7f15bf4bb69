"""Writes samples and events of a run, and thins what is old: full detail for the last minutes, less the longer ago it is.

A file holds a minute. When it is full it is compressed; later it is thinned, and of the samples that become one the one with
the most memory in use stays, so that peaks survive. Nothing here raises: a disk without room costs samples, counted.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
import zlib
from typing import TYPE_CHECKING, Any

from crashcart.numbers import to_int
from crashcart.recording.frames import Sample, frame, frames, header_of, pack_header, pack_sample, unpack_sample

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Writer", "thinned"]

MINUTE = 60
# Age of a file in minutes, and how many seconds then become one sample.
STAGES = ((10, 5), (120, 30))
_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC


class Writer:
    """The recording of one run in ``folder``; ``columns`` names the tables."""

    def __init__(self, folder: str, columns: dict[str, tuple[str, ...]], clock: Callable[[], float] = time.time) -> None:
        self.folder = folder
        self.columns = columns
        self.lost = 0
        self._order = list(columns)
        self._clock = clock
        self._minute = -1
        self._file: int | None = None
        self._events: int | None = None
        with contextlib.suppress(OSError):
            os.makedirs(folder, mode=0o700, exist_ok=True)
            self._events = os.open(os.path.join(folder, "events.jsonl"), _FLAGS, 0o600)

    def sample(self, sample: Sample) -> None:
        """Append a sample with one write; it is safe once this returns."""
        minute = to_int(sample.time // MINUTE, 0)
        if minute != self._minute:
            self._turn(minute)
        self._append(self._file, pack_sample(sample, self._order))

    def event(self, kind: str, **details: Any) -> None:  # noqa: ANN401 - what JSON holds
        """Append an event with one write, from any thread; `t` is now unless it is given."""
        line = json.dumps({"t": self._clock(), "kind": kind, **details}, default=str)
        self._append(self._events, line.encode() + b"\n")

    def _append(self, file: int | None, data: bytes) -> None:
        try:
            if file is None or os.write(file, data) < len(data):
                self.lost += 1
        except OSError:
            self.lost += 1

    def _turn(self, minute: int) -> None:
        """Begin a new file, pack the one before, thin the old ones."""
        before = self._minute
        self._minute = minute
        if self._file is not None:
            os.close(self._file)
            self._file = None
        with contextlib.suppress(OSError):
            path = os.path.join(self.folder, f"samples-{minute}")
            self._file = os.open(path, _FLAGS, 0o600)
            self._append(self._file, pack_header(self.columns))
        if before >= 0:
            with contextlib.suppress(OSError, ValueError):
                _pack(os.path.join(self.folder, f"samples-{before}"), 1)
            for age, seconds in STAGES:
                with contextlib.suppress(OSError, ValueError):
                    _pack(os.path.join(self.folder, f"samples-{minute - age}"), seconds)

    def close(self) -> None:
        """Let go of the files; nothing is held back in memory."""
        for file in (self._file, self._events):
            if file is not None:
                os.close(file)
        self._file = self._events = None


def _pack(path: str, seconds: int) -> None:
    """Replace a minute by its compressed, thinned self.

    There may be both, where the clock was set back and the minute came twice, or where a kill left the plain file behind after it
    was packed: then the two become one, and what is in both stays once.
    """
    data, plain, packed = b"", os.path.exists(path), os.path.exists(path + ".z")
    if not plain and not packed:
        return
    if packed:
        with open(path + ".z", "rb") as file:
            data = zlib.decompress(file.read())
    if plain:
        with open(path, "rb") as file:
            more = file.read()
        data = _joined(data, more) if packed else more
    with open(path + ".new", "wb") as file:
        file.write(zlib.compress(thinned(data, seconds), 6))
    os.replace(path + ".new", path + ".z")
    if plain:
        os.unlink(path)


def _joined(first: bytes, second: bytes) -> bytes:
    known: dict[tuple[bytes, bytes], None] = {}
    for data in (first, second):
        known |= dict.fromkeys(frames(data))
    return b"".join(frame(kind, payload) for kind, payload in known)


def thinned(data: bytes, seconds: int) -> bytes:
    """The same frames with one sample for so many seconds: the one in which most memory was in use."""
    if seconds <= 1:
        return data
    order: list[str] = []
    kept: dict[int, tuple[float, bytes]] = {}
    others: list[bytes] = []
    for kind, payload in frames(data):
        if kind == b"H":
            columns = header_of(payload)
            order = list(columns)
            others.append(frame(kind, payload))
        elif kind == b"S":
            sample = unpack_sample(payload, order)
            slot, weight = to_int(sample.time // seconds, 0), _memory(sample, columns)
            if slot not in kept or weight > kept[slot][0]:
                kept[slot] = weight, payload
    return b"".join([*others, *(frame(b"S", payload) for _, (_, payload) in sorted(kept.items()))])


def _memory(sample: Sample, columns: dict[str, Any]) -> float:
    """Memory in use: of the job's processes and of its cards."""
    total = 0.0
    for table, column in (("process", "rss"), ("gpu", "used")):
        if column in columns.get(table, ()):
            at = columns[table].index(column)
            total += sum(row[at] for row in sample.tables.get(table, ()) if row[at] == row[at])
    return total
