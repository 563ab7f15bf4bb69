"""When the run was: the first and the last time that its log's lines carry.

Logs write local time, mostly without saying which (``2026-11-15 07:12:03,118``), glog leaves out the year (``W1115
07:12:03.118``), containers write UTC with a Z. A time without a zone is read as UTC here and by the kernel reader alike, so
that two logs of one machine still agree with each other.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from crashcart.numbers import to_float, to_int, to_unix_seconds

if TYPE_CHECKING:
    from collections.abc import Iterable

    from crashcart.log import Line

__all__ = ["pids_of", "times_in", "times_of"]

_ISO = re.compile(
    r"(?P<year>20\d\d)[-/](?P<month>\d\d)[-/](?P<day>\d\d)[T _]+(?P<hour>\d\d):(?P<minute>\d\d):(?P<second>\d\d)"
    r"(?:[.,]\d+)?(?P<zone>Z|[+-]\d\d:?\d\d)?"
)
_PID = re.compile(r"\bpid(?:\(s\))?[ =:]{1,3}(\d{2,7})\b|[Pp]rocess (\d{3,7})\b|:(\d{3,7}):\d{3,7} \[\d+\] NCCL")
_ENOUGH = 400
_HEADER = 48  # characters: a time further behind belongs to what the line says


def times_of(lines: Iterable[Line]) -> tuple[float | None, float | None]:
    """The earliest and the latest time in the lines, in Unix seconds."""
    found = [time for line in lines if (time := _time(line.prefix + line.text)) is not None]
    return (min(found), max(found)) if found else (None, None)


def times_in(data: bytes) -> list[float]:
    """The times with which lines of a piece of a log begin, in their order."""
    lines = data.decode("utf-8", "replace").splitlines()
    return [time for line in lines if (time := _time(line[:_HEADER])) is not None]


def pids_of(lines: Iterable[Line]) -> frozenset[int]:
    """Process ids that the log names."""
    found: set[int] = set()
    for line in lines:
        if "pid" in line.lowered or "rocess " in line.text or "NCCL" in line.text:
            found.update(to_int(group, 0) for match in _PID.finditer(line.text) for group in match.groups() if group)
        if len(found) > _ENOUGH:
            break
    return frozenset(found)


def _time(text: str) -> float | None:
    match = _ISO.search(text[:200])
    if match is None:
        return None
    seconds = to_unix_seconds(*(match[name] for name in ("year", "month", "day", "hour", "minute", "second")))
    return None if seconds is None else seconds - _offset_seconds(match["zone"])


def _offset_seconds(zone: str | None) -> float:
    if not zone or zone == "Z":
        return 0.0
    sign = -1 if zone[0] == "-" else 1
    return sign * (to_float(zone[1:3], 0.0) * 3600 + to_float(zone[-2:], 0.0) * 60)
