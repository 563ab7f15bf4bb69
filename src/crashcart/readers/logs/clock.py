"""When the run was: the first and the last time that its log's lines carry.

Logs write local time, mostly without saying which (``2026-11-15 07:12:03,118``), glog leaves out the year (``W1115
07:12:03.118``), containers write UTC with a Z. A time without a zone is read as UTC here and by the kernel reader alike, so
that two logs of one machine still agree with each other.
"""

from __future__ import annotations

import re
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from crashcart.log import Line

__all__ = ["pids_of", "times_of"]

_ISO = re.compile(
    r"(?P<year>20\d\d)[-/](?P<month>\d\d)[-/](?P<day>\d\d)[T _]+(?P<hour>\d\d):(?P<minute>\d\d):(?P<second>\d\d)"
    r"(?:[.,]\d+)?(?P<zone>Z|[+-]\d\d:?\d\d)?"
)
_PID = re.compile(r"\bpid(?:\(s\))?[ =:]{1,3}(\d{2,7})\b|[Pp]rocess (\d{3,7})\b|:(\d{3,7}):\d{3,7} \[\d+\] NCCL")
_ENOUGH = 400


def times_of(lines: Iterable[Line]) -> tuple[float | None, float | None]:
    """The earliest and the latest time in the lines, in Unix seconds."""
    found = [time for line in lines if (time := _time(line.text)) is not None]
    return (min(found), max(found)) if found else (None, None)


def pids_of(lines: Iterable[Line]) -> frozenset[int]:
    """Process ids that the log names."""
    found: set[int] = set()
    for line in lines:
        if "pid" in line.lowered or "rocess " in line.text or "NCCL" in line.text:
            found.update(int(group) for match in _PID.finditer(line.text) for group in match.groups() if group)
        if len(found) > _ENOUGH:
            break
    return frozenset(found)


def _time(text: str) -> float | None:
    match = _ISO.search(text[:200])
    if match is None:
        return None
    parts = (int(match[name]) for name in ("year", "month", "day", "hour", "minute", "second"))
    try:
        return datetime(*parts, tzinfo=_zone(match["zone"])).timestamp()  # type: ignore[misc,arg-type]
    except (ValueError, OverflowError):
        return None


def _zone(text: str | None) -> timezone:
    if not text or text == "Z":
        return timezone.utc
    sign = -1 if text[0] == "-" else 1
    return timezone(sign * timedelta(hours=int(text[1:3]), minutes=int(text[-2:])))
