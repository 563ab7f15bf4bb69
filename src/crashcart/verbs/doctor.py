"""`crashcart doctor`: whether this machine is fit for training, from what a user without rights can read."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from crashcart.case import Case
from crashcart.errors import CommandError
from crashcart.escapes import one_line, unfiltered
from crashcart.fitness import graded
from crashcart.foresight import foresee
from crashcart.model import NotLooked
from crashcart.readers.machine import readings, runs_here
from crashcart.readers.machine.reading import fact_of
from crashcart.record import replace
from crashcart.redact import clean_all

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from crashcart.model import Diagnosis
    from crashcart.readers.machine import Reading
    from crashcart.report.machine import Row

__all__ = ["examined", "run"]

FIT, UNFIT = 0, 1
_ELSEWHERE = "This job's launch command runs it on another machine; the lines below are about this one."


def run(options: argparse.Namespace) -> int:
    """Print what this machine says; 1 where something is bad."""
    case, note = _job(options.paths, options.command)
    found = list(readings(case.facts))
    if options.active:
        from crashcart.readers.machine.active import tests

        found += list(tests(found, _progress))
        _progress("")
    diagnosis, rows = examined(case, found)
    rows = clean_all(rows)
    if options.json:
        from crashcart.report.data import json_text, plain
        from crashcart.report.machine import plain_machine

        sys.stdout.write(json_text({**plain(clean_all(diagnosis)), "machine": plain_machine(rows)}))
    else:
        from crashcart.report.machine import write_machine

        write_machine(rows, note)
    return UNFIT if any(row.state == "bad" for row in rows) else FIT


def _job(paths: Sequence[str], command: Sequence[str]) -> tuple[Case, str]:
    """The job that is meant for this machine, where one was named."""
    if not paths and not command:
        return Case(before=True), ""
    from crashcart.deadline import ANSWER_SECONDS, note_memory, together
    from crashcart.readers.plan import Asked, plans

    note_memory()
    with together(ANSWER_SECONDS):
        found = plans(Asked(command, paths))
    if len(found) > 1:
        raise CommandError("doctor takes one job: give its launch script or its command.")
    case = found[0].case
    if not runs_here(case):
        return Case(before=True), _ELSEWHERE
    case.seen = {name: facts for name, facts in case.seen.items() if not name.startswith("machine.")}
    return case, ""


def examined(case: Case, found: Sequence[Reading]) -> tuple[Diagnosis, list[Row]]:
    """What the causes say of the machine, and each reading with its state."""
    from crashcart.report.machine import Row

    for reading in found:
        if reading.known:
            case.seen.setdefault(f"machine.{reading.name}", []).append(fact_of(reading))
    diagnosis = foresee(case, subject="this machine")
    told = tuple(
        finding
        for finding in diagnosis.findings
        if any(item.source == "machine" for sign in finding.signs for item in sign.evidence)
    )
    gaps = tuple(NotLooked(f"{one.group}: {one.label}", one.says, one.how) for one in found if not one.known)
    rows = []
    for one in found:
        state, why, advice = graded(fact_of(one), told) if one.known else ("unknown", "", one.how)
        rows.append(Row(one.group, one.name, one.label, state, one.says, one.where, why, advice, one.value or None))
    return replace(diagnosis, verb="doctor", findings=told, not_looked=gaps, ruled_out=(), notes=()), rows


def _progress(words: str) -> None:
    """One line on a terminal that the next one takes the place of."""
    if sys.stderr.isatty():
        unfiltered(sys.stderr).write(f"\r\x1b[2K{f'crashcart: {one_line(words)} ...' if words else ''}")
        sys.stderr.flush()
