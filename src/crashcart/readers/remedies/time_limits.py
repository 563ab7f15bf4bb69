"""A limit of time in the launch script that ended the job: `timeout 120 python train.py`, `srun --time 01:00:00`, `#SBATCH -t 30`.

It is the one that is as long as the run was: nothing is changed where none is, or two are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from crashcart.model import Edit, Evidence, Span
from crashcart.numbers import to_float, to_int
from crashcart.pattern import Pattern
from crashcart.readers.remedies._scene import lines_of_script, remedy, span_in

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.model import Fact
    from crashcart.readers.remedies._scene import Scene

_LIMIT = Pattern(
    r"(?:\btimeout(?:[ \t]+-\S+){0,4}[ \t]+|(?:^|\s)--?(?:time|time[-_]limit|walltime|max[-_]time|wall[-_]time|timeout|t)[ =]"
    r"|\b(?:TIME_LIMIT|WALLTIME|TIMEOUT|MAX_TIME)=)[\"']?((?:\d{1,3}-)?\d{1,3}:\d{2}(?::\d{2})?|\d{1,7}(?:\.\d{1,3})?[smhd]?)\b"
)
_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_MORE = 10
_NEAR, _LEAST_SECONDS = (
    0.25,
    5.0,
)  # of the limit, by which the run may have been shorter or longer: start-up, the time to end


def look(scene: Scene) -> Iterator[Fact]:
    """Ten times the limit that was as long as the run."""
    flight = scene.case.flight
    began, ended = (flight.facts.get(name) if flight is not None else None for name in ("started", "ended"))
    if not isinstance(began, (int, float)) or not isinstance(ended, (int, float)):
        return
    lasted = ended - began
    found = [
        each
        for path in scene.scripts
        for each in _limits(path)
        if abs(each[2] - lasted) <= max(_LEAST_SECONDS, _NEAR * lasted)
    ]
    if len(found) == 1:
        span, text, seconds, quote = found[0]
        new = _written(text, seconds * _MORE)
        why = f"the run was stopped after {lasted:.0f} s, which is this limit; nothing else in the job changes"
        yield from remedy(
            ("outside/preempted", "config/hidden-timeout", "outside/stopped", "outside/user"),
            f"Raise the time limit from {text} to {new}", "exact", why, [Edit(span, new)], quote,
        )  # fmt: skip


def _limits(path: str) -> Iterator[tuple[Span, str, float, Evidence]]:
    for start, line, seen in lines_of_script(path):
        is_comment = line.lstrip().startswith("#") and not line.startswith("#SBATCH")
        for match in _LIMIT.finditer(line) if not is_comment else ():
            in_minutes = line.startswith("#SBATCH") or "srun" in line.split()[:1]
            seconds = _seconds(match[1], in_minutes=in_minutes)
            if seconds:
                yield span_in(seen, start + match.start(1), start + match.end(1)), match[1], seconds, seen


def _seconds(text: str, *, in_minutes: bool) -> float:
    """``00:00:14``, ``1-00:00:00``, ``90``, ``2h``; Slurm counts a plain number, and the first of two, in minutes."""
    days, _, rest = text.rpartition("-")
    parts = [to_float(part, 0.0) for part in rest.split(":")]
    if len(parts) == 1:
        unit = _UNITS.get(text[-1:])
        return to_float(text[:-1], 0.0) * unit if unit is not None else parts[0] * (60 if in_minutes else 1)
    while len(parts) < 3:  # noqa: PLR2004 - hours, minutes, seconds
        parts = [0.0, *parts] if in_minutes or not days else [*parts, 0.0]
    return to_float(days or "0", 0.0) * 86400 + parts[0] * 3600 + parts[1] * 60 + parts[2]


def _written(old: str, seconds: float) -> str:
    """A time in the manner of the old one."""
    if ":" not in old:
        unit = old[-1] if old[-1:] in _UNITS else ""
        return f"{to_float(old.removesuffix(unit), 0.0) * _MORE:g}{unit}"
    whole = to_int(seconds, 0)
    hours, minutes, rest = whole // 3600, whole // 60 % 60, whole % 60
    if "-" in old:
        return f"{hours // 24}-{hours % 24:02}:{minutes:02}:{rest:02}"
    return f"{hours:02}:{minutes:02}:{rest:02}" if old.count(":") == 2 else f"{whole // 60}:{rest:02}"  # noqa: PLR2004 - H:M:S
