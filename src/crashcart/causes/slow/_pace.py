"""What the causes of this family share: nothing else ended the run, and how to read times from lines."""

from __future__ import annotations

from typing import TYPE_CHECKING

from crashcart.cause import compiled
from crashcart.numbers import to_float, to_int

if TYPE_CHECKING:
    from crashcart.case import Case
    from crashcart.log import Line
    from crashcart.model import Strength

SPEED = (
    r"(?:speed|throughput)\W{1,3}([\d.]{1,24})|(?<![\d.])([\d.]{1,24}) ?(?:samples?|examples?|img|images|tokens?|seq|it|iters?)/s(?:ec)?\b|"
    r"(?<![\d.])([\d.]{1,24}) ?s(?:ec)?/(?:it|iter|step|batch)\b"
)
CLOCK = r"(?:^|[\s\[])(?:(\d{4})[-/](\d\d)[-/](\d\d)[T ])?(\d\d):(\d\d):(\d\d)(?:[.,]\d+)?(?=[\s\],:Z]|$)"


def ended_badly(case: Case) -> bool:
    """Whether something in the log ended the run: then slowness is not the question."""
    log = case.log
    return bool(log.deaths or log.collectives or any(one.kind and not one.survivable for one in log.raised)) or (
        case.exit is not None and case.exit.code != 0
    )


def grade(case: Case, strength: Strength) -> Strength:
    """The strength of a sign of slowness: weak in a run that something else ended."""
    return "weak" if ended_badly(case) else strength


def lines_with(case: Case, *words: str) -> list[Line]:
    """Kept lines that hold any of the words, which are in lower case."""
    return case.log.index.saying(words)


def speeds(case: Case) -> list[tuple[Line, float]]:
    """Steps or samples in a second, line by line, of the bar or column that was printed most."""
    columns: dict[str, list[tuple[Line, float]]] = {}
    for line in case.log.lines:
        if "/s" in line.lowered or "s/" in line.lowered or "speed" in line.lowered:
            match = compiled(SPEED).search(line.text)
            value = to_float(next(group for group in match.groups() if group).rstrip("."), 0.0) if match else 0
            if match and value > 0:
                name = compiled(r"[^a-z]|s/it|it/s").sub("", line.lowered)[:24]
                columns.setdefault(name, []).append((line, 1 / value if match[3] else value))
    return max(columns.values(), key=len, default=[])


def seconds_between(first: Line, second: Line) -> float | None:
    """From one line to another by the times that they begin with, else by those of what carried them; not from one to the other."""
    for start, end in ((first.text[:60], second.text[:60]), (first.prefix, second.prefix)):
        begun, ended = _time_of_day(start), _time_of_day(end)
        if begun is not None and ended is not None:
            return ended - begun
    return None


def _time_of_day(text: str) -> float | None:
    """The time of day in seconds; days are counted by their number."""
    match = compiled(CLOCK).search(text)
    if match is None:
        return None
    hours, minutes, rest = (to_int(group, 0) for group in match.groups()[3:])
    return to_int(match[3], 0) * 86400 + hours * 3600 + minutes * 60 + rest
