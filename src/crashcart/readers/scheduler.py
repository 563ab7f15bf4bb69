"""What Slurm wrote about a recorded job, after the job could no longer write: into the file that was its standard error.

::

    slurmstepd: error: *** JOB 77 ON gpu01 CANCELLED AT 2026-11-15T15:27:25 DUE TO TIME LIMIT ***
    slurmstepd: error: *** STEP 77.0 ON gpu01 CANCELLED AT 2026-11-15T15:27:25 DUE TO PREEMPTION ***

The times are the node's local ones. A file to which a requeued job appends holds the words about its earlier lives too.
"""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Any

from crashcart.flight import Event
from crashcart.numbers import to_float
from crashcart.pattern import Pattern
from crashcart.regular_files import read_end

if TYPE_CHECKING:
    from crashcart.flight import Flight

__all__ = ["scheduler_words"]

_WORDS = Pattern(
    r"^(?:\d+: )?slurmstepd(?:-[\w.-]+)?: .{0,100}\*\*\* (?:JOB|STEP|StepId=)[ =]?(?P<job>\d{1,20})\S{0,20} .{0,100}(?:CANCELLED|FAILED|TERMINATED)"
    r"(?: AT (?P<time>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d))?.*"
)
_TAIL = 1 << 16
_CLOCKS = 90.0  # seconds
_AFTER = 600.0


def scheduler_words(flight: Flight) -> list[Event]:
    """The scheduler's own words about the end of this run."""
    facts = flight.facts
    environment = facts.get("environment")
    job = str(environment.get("SLURM_JOB_ID", "")) if isinstance(environment, dict) else ""
    if not job.isdigit():
        return []
    found: dict[str, Event] = {}
    for path in _files(facts, job):
        for place, line in _last_lines(path):
            match = _WORDS.search(line)
            if match and match["job"] == job and _of_this_run(flight, match["time"]):
                details = {"words": line.strip()[:300], "where": f"{os.path.basename(path)}{place}"}
                found.setdefault(line.strip(), Event(_when(match["time"]) or _ended(flight), "scheduler", details))
    return [*found.values()]


def _files(facts: dict[str, Any], job: str) -> list[str]:
    """The user's own file for the output, and the one that Slurm uses where none was named."""
    folder, environment = str(facts.get("folder") or "."), facts["environment"]
    places = [str(facts.get("errors") or ""), os.path.join(folder, f"slurm-{job}.out")]
    submitted = environment.get("SLURM_SUBMIT_DIR")
    if isinstance(submitted, str):
        places.append(os.path.join(submitted, f"slurm-{job}.out"))
    known = [os.path.realpath(place) for place in places if os.path.isfile(place)]
    return [*dict.fromkeys(known)]


def _last_lines(path: str) -> list[tuple[str, str]]:
    """The last lines; with their number where the file is read whole."""
    try:
        end, skipped = read_end(path, _TAIL)
    except OSError:
        return []
    text = end.decode("utf-8", "replace")
    return [("" if skipped else f":{number}", line) for number, line in enumerate(text.split("\n"), 1)]


def _of_this_run(flight: Flight, told: str | None) -> bool:
    when, started = _when(told), flight.facts.get("started")
    if when is None or not isinstance(started, (int, float)):
        return True
    return started - _CLOCKS < when < _ended(flight) + _AFTER


def _ended(flight: Flight) -> float:
    known = [flight.facts.get("ended"), flight.ending.get("time"), *(time for time, _ in flight.samples[-1:])]
    return max((to_float(one, 0.0) for one in known), default=0.0)


def _when(told: str | None) -> float | None:
    try:
        return time.mktime(time.strptime(told or "", "%Y-%m-%dT%H:%M:%S"))
    except (ValueError, OverflowError):
        return None
