"""Whether `check` says the same of a job whose program is written differently.

Each plan of `tests/plans/` is rewritten in each of the ways of `rewrites/`, and checked before and after: the *will* and *can*
findings must be the same, by level and cause. Differences that are known stand in `known.txt`, one on a line; that file may only
get shorter. ``python tests/equivalence`` runs everything and prints a table; ``--prune`` deletes the lines that are no longer true.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import os
import shlex
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING
from unittest import mock

from rewrites import REWRITES, Rewrite
from test_plans import sections

import crashcart
from crashcart.errors import DEBUG
from crashcart.readers import plan as plan_reader

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

KNOWN = Path(__file__).parent / "known.txt"
_ABOUT_TEXT = {
    "code/bug-syntax.md": "its finding is about text that is not Python",
}


@dataclass(frozen=True)
class Plan:
    """A job: its files and the command that starts it."""

    name: str
    files: dict[str, str] = field(hash=False)
    command: str

    def skipped_because(self) -> str | None:
        """Why a rewrite cannot say anything about it."""
        if any("crashcart: ignore" in text for text in self.files.values()):
            return "a comment silences findings, and a rewritten file has no comments"
        if not any(name.endswith(".py") for name in self.files):
            return "no Python file"
        return _ABOUT_TEXT.get(self.name.partition(":")[0])


@dataclass(frozen=True)
class Difference:
    """A finding that a rewrite takes away or adds."""

    rewrite: str
    kind: str  # "lost" or "new"
    finding: str  # level and cause
    plan: str

    def __str__(self) -> str:
        return f"{self.rewrite} | {self.kind} | {self.finding} | {self.plan}"


@dataclass
class Outcome:
    """What became of the plans under one rewrite."""

    rewrite: str
    applied: int = 0
    findings: int = 0
    differences: list[Difference] = field(default_factory=list)
    check_seconds: float = 0.0

    def count(self, kind: str) -> int:
        return sum(difference.kind == kind for difference in self.differences)


def every_plan() -> list[Plan]:
    return [Plan(f"{part.file}: {part.title}", dict(part.of("file")), part.of("check")[0][1].strip()) for part in sections()]


def plans() -> list[Plan]:
    """The plans whose programs can be rewritten."""
    return [plan for plan in every_plan() if plan.skipped_because() is None]


def findings(files: dict[str, str], command: str) -> Counter[str]:
    """The level and cause of each *will* and *can* finding of a job."""
    before = Path.cwd()
    with tempfile.TemporaryDirectory(prefix="job") as folder:
        os.chdir(folder)
        try:
            for name, text in files.items():
                Path(name).parent.mkdir(parents=True, exist_ok=True)
                Path(name).write_text(text, encoding="utf-8")
            words = shlex.split(command)
            diagnosis = crashcart.check(command=words[1:]) if words[0] == "--" else crashcart.check(words)
        finally:
            os.chdir(before)
    return Counter(f"{finding.level} {finding.cause}" for finding in diagnosis.findings if finding.level != "note")


_BEFORE: dict[str, Counter[str]] = {}  # by plan: every rewrite is compared with the same


def compare(rewrite: Rewrite, chosen: Iterable[Plan]) -> Outcome:
    """What a rewrite of each plan changes in what `check` says of it."""
    outcome = Outcome(rewrite.name)
    for plan in chosen:
        try:
            rewritten = rewrite(plan.files, plan.command)
            if rewritten is None:
                continue
            if plan.name not in _BEFORE:
                _BEFORE[plan.name] = findings(plan.files, plan.command)
            before = _BEFORE[plan.name]
            start = time.process_time()
            after = findings(rewritten, plan.command)
        except Exception as error:
            raise RuntimeError(f"{rewrite.name} of {plan.name} could not be checked") from error
        outcome.check_seconds += time.process_time() - start
        outcome.applied += 1
        outcome.findings += before.total()
        for kind, some in (("lost", before - after), ("new", after - before)):
            outcome.differences += [
                Difference(rewrite.name, kind, finding, plan.name) for finding in sorted(some.elements())
            ]
    return outcome


def sample(rewrite: Rewrite, chosen: list[Plan], share: int) -> list[Plan]:
    """One plan of so many, always the same ones for a rewrite, others for another."""
    return [
        plan for plan in chosen if int(hashlib.sha256(f"{rewrite.name} {plan.name}".encode()).hexdigest(), 16) % share == 0
    ]


def known() -> list[str]:
    """The lines of the file of known differences."""
    return [line for line in KNOWN.read_text(encoding="utf-8").splitlines() if line and not line.startswith("#")]


def unexpected_and_outdated(outcome: Outcome, chosen: Iterable[Plan]) -> tuple[list[str], list[str]]:
    """The differences that are not known, and the known ones of these plans that are no more."""
    names = {plan.name for plan in chosen}
    listed = Counter(line for line in known() if line.split(" | ")[0] == outcome.rewrite and line.split(" | ")[-1] in names)
    found = Counter(str(difference) for difference in outcome.differences)
    return sorted((found - listed).elements()), sorted((listed - found).elements())


@contextlib.contextmanager
def _as_in_tests() -> Iterator[None]:
    """Our own errors are raised, and the machine does not matter, as in `conftest.py`."""
    with mock.patch.object(plan_reader, "machine_facts", return_value=None), mock.patch.dict(os.environ, {DEBUG: "1"}):
        yield


def _compared(task: tuple[Rewrite, list[Plan]]) -> Outcome:
    with _as_in_tests():
        return compare(*task)


def campaign(table: dict[str, Rewrite], *, processes: int, only: str = "") -> list[Outcome]:
    """Every rewrite of every plan; progress goes to standard error."""
    chosen = [plan for plan in plans() if only in plan.name]
    outcomes = []
    with ProcessPoolExecutor(processes) as pool:
        for number, outcome in enumerate(pool.map(_compared, [(rewrite, chosen) for rewrite in table.values()]), 1):
            outcomes.append(outcome)
            if number % 10 == 0 or number == len(table):
                sys.stderr.write(f"{number} of {len(table)} rewrites of {len(chosen)} plans\n")
    return outcomes


def render_table(outcomes: list[Outcome], *, names: bool) -> str:
    """A row for each rewrite, the sums, and the differences with the names of their plans."""
    width = max(len(outcome.rewrite) for outcome in outcomes)
    lines = [f"{'rewrite':{width}}  applied  findings  lost   new"]
    for outcome in outcomes:
        numbers = f"{outcome.applied:7}  {outcome.findings:8}  {outcome.count('lost'):4}  {outcome.count('new'):4}"
        lines.append(f"{outcome.rewrite:{width}}  {numbers}")
    total, lost = sum(outcome.findings for outcome in outcomes), sum(outcome.count("lost") for outcome in outcomes)
    new, applied = sum(outcome.count("new") for outcome in outcomes), sum(outcome.applied for outcome in outcomes)
    milliseconds = 1000 * sum(outcome.check_seconds for outcome in outcomes) / max(applied, 1)
    lines.append(f"{'all':{width}}  {applied:7}  {total:8}  {lost:4}  {new:4}")
    lines.append(
        f"{100 * lost / max(total, 1):.1f} % of the findings lost, {new} new; {milliseconds:.1f} ms of processor time per check"
    )
    reasons = Counter(reason for plan in every_plan() if (reason := plan.skipped_because()))
    lines += [f"{count} plans skipped: {reason}" for reason, count in reasons.items()]
    if names:
        lines += ["", *(str(difference) for outcome in outcomes for difference in outcome.differences)]
    return "\n".join(lines)


def prune(outcomes: list[Outcome]) -> int:
    """Delete the known differences that are no more; the number of lines deleted."""
    found = Counter(str(difference) for outcome in outcomes for difference in outcome.differences)
    compared = {outcome.rewrite for outcome in outcomes}
    kept, deleted = [], 0
    for line in KNOWN.read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#") and line.split(" | ")[0] in compared:
            if found[line] <= 0:
                deleted += 1
                continue
            found[line] -= 1
        kept.append(line)
    KNOWN.write_text("\n".join(kept) + "\n", encoding="utf-8")
    return deleted


def main(words: list[str] | None = None, table: dict[str, Rewrite] = REWRITES) -> int:
    """Run the campaign; 1 where a difference is not known."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("rewrites", nargs="*", help="only these rewrites", metavar="REWRITE")
    parser.add_argument("--plan", default="", help="only plans whose name has this text in it")
    parser.add_argument("--names", action="store_true", help="also list each difference with its plan")
    parser.add_argument("--show", action="store_true", help="print the rewritten files instead of checking them")
    parser.add_argument("--prune", action="store_true", help="delete the known differences that are no more")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args(words)
    chosen = {name: table[name] for name in options.rewrites or table}
    if options.show:
        return _show(chosen, options.plan)
    outcomes = campaign(chosen, processes=options.processes, only=options.plan)
    listed = set(known()) if table is REWRITES else set()
    unknown = [str(part) for outcome in outcomes for part in outcome.differences if str(part) not in listed]
    sys.stdout.write(render_table(outcomes, names=options.names) + "\n")
    if options.prune and not options.plan:
        sys.stdout.write(f"{prune(outcomes)} lines deleted from {KNOWN.name}\n")
    if unknown and table is REWRITES:
        sys.stdout.write("\n".join([f"Not in {KNOWN.name}:", *unknown]) + "\n")
    return int(bool(unknown))


def _show(chosen: dict[str, Rewrite], only: str) -> int:
    for plan in plans():
        for rewrite in chosen.values():
            files = rewrite(plan.files, plan.command) if only in plan.name else None
            for name, text in (files or {}).items():
                if text != plan.files.get(name):
                    sys.stdout.write(f"#### {rewrite.name} | {plan.name} | {name}\n{text}\n")
    return 0
