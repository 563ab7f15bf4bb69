"""Files that are parts of one log: in which order they were written, and which go on where another ends.

``logrotate`` and ``RotatingFileHandler`` leave ``train.log.2``, ``train.log.1`` and ``train.log``, the oldest with the highest
number; a shell lists them the other way round. ``train_1.log`` and ``train_2.log`` may be parts of one log as well, or the logs of
two ranks: they are taken for one where the first ends within a traceback and the second goes on with it.
"""

from __future__ import annotations

import os
import re
from itertools import pairwise
from typing import TYPE_CHECKING, TypeVar

from crashcart.numbers import to_int
from crashcart.pattern import Pattern
from crashcart.readers.logs.clock import times_in
from crashcart.record import record

if TYPE_CHECKING:
    from collections.abc import Sequence

    from crashcart.readers.logs.windows import Kept
    from crashcart.recording.print_times import Printed

__all__ = ["Part", "Series", "in_order", "without_copies"]

_PACKED = (".gz", ".bz2", ".xz", ".zst")
_ROTATED = Pattern(r"(?P<stem>.+)[.-](?:(?P<number>\d{1,4})|(?P<date>\d{4}-?\d\d-?\d\d(?:[-_T][\d:-]{1,9})?))$")
_COUNTED = Pattern(r"(?P<before>(?:.*\D)?)(?P<number>\d{1,12})(?P<after>\.[a-z]{1,5})?$")
_OF_A_RANK = Pattern(r"(?:rank|worker|proc|process|local|node|task|gpu|stdout|stderr)s?[_.-]?#", re.IGNORECASE, needs=("#",))
Item = TypeVar("Item")
_LOOK = 8 << 10  # bytes at the beginning and at the end of a log in which a time is looked for


@record
class Part:
    """One file: its path, the name that is shown, the rank that its name tells, what was kept of it, when it was printed."""

    path: str
    name: str
    rank: int | None
    kept: Kept
    printed: Printed | None = None

    def times(self) -> tuple[float | None, float | None]:
        """The first and the last time that its lines begin with."""
        if not self.kept.windows:
            return None, None
        first = times_in(self.kept.windows[0].data[:_LOOK])
        last = times_in(self.kept.windows[-1].data[-_LOOK:])
        return (first[0], last[-1]) if first and last else (None, None)


@record
class Series:
    """Files whose names differ in a number alone, the oldest first; ``is_one_log`` where they are surely parts of one."""

    parts: list[Part]
    is_one_log: bool = False
    may_be_one_log: bool = False


def without_copies(parts: Sequence[Part]) -> list[Part]:
    """Each log once, whatever its names; the logs of two ranks may be alike."""
    found: dict[object, Part] = {}
    for part in parts:
        content = tuple((window.start, window.data) for window in part.kept.windows)
        found.setdefault((part.kept.size, part.rank, content), part)
    return list(found.values())


def in_order(parts: Sequence[Part]) -> list[Series]:
    """The logs as they were given, but parts of one as they were written, and logs that came one after the other by time."""
    names = {_plain(part.path) for part in parts}
    stems = {match["stem"] for name in names if (match := _ROTATED.match(name)) is not None} & names
    members: dict[str, list[tuple[tuple[int, int, str], Part]]] = {}
    for part in parts:
        series, key = _place(_plain(part.path), stems)
        members.setdefault(series, []).append((key, part))
    found = [
        Series(
            [part for _, part in sorted(listed, key=lambda item: item[0])],
            is_one_log=name in stems,
            may_be_one_log=_OF_A_RANK.search(os.path.basename(name)) is None,
        )
        for name, listed in members.items()
    ]
    for one in found:
        if not one.is_one_log:
            one.parts = _by_time(one.parts, [part.times() for part in one.parts] if len(one.parts) > 1 else [])
    spans = [(one.parts[0].times()[0], one.parts[-1].times()[1]) for one in found] if len(found) > 1 else []
    return _by_time(found, spans)


def _plain(path: str) -> str:
    """The path without the ending of a compressed file."""
    stem, ending = os.path.splitext(path)
    return stem if ending in _PACKED else path


def _place(path: str, stems: set[str]) -> tuple[str, tuple[int, int, str]]:
    """The series to which a file belongs, and its place in it."""
    if path in stems:
        return path, (1, 0, "")
    rotated = _ROTATED.match(path)
    if rotated is not None and rotated["stem"] in stems:
        return rotated["stem"], (0, -to_int(rotated["number"], 0), rotated["date"] or "")
    counted = _COUNTED.match(os.path.basename(path))
    if counted is None:
        return path, (0, 0, "")
    name = f"{counted['before']}#{counted['after'] or ''}"
    return os.path.join(os.path.dirname(path), name), (0, to_int(counted["number"], 0), "")


def _by_time(items: list[Item], spans: Sequence[tuple[float | None, float | None]]) -> list[Item]:
    """In the order of their times, where each has its own."""
    known = [(first, last) for first, last in spans if first is not None and last is not None]
    order = sorted(range(len(known)), key=lambda place: known[place])
    follows = all(known[a][1] <= known[b][0] and known[a] != known[b] for a, b in pairwise(order))
    return [items[place] for place in order] if len(known) == len(items) and follows else items
