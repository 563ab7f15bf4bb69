"""What `check` says of code that is well kept: the table of false alarms, by package and by cause.

    python benchmarks/false_alarms.py FOLDER... [--launch "torchrun --nproc_per_node 8"] [--hits will,can] [--cause ID]

A folder that is a package (it holds ``__init__.py``) is read as one program; of any other folder each Python file that can be
started is a job of its own. The launch is made up, and harsh: what needs several ranks is then claimed; only a program that never
speaks of ranks, in its entry file or beside it, is started as one process. Nothing is downloaded: unpack what pip fetched
(``pip download --no-deps``) and name its folders.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
import time
from collections import Counter
from typing import TYPE_CHECKING

from crashcart.case import Case
from crashcart.foresight import foresee
from crashcart.readers.code import facts_of
from crashcart.readers.code.program import read_program
from crashcart.readers.job.command import read_command

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.model import Diagnosis
    from crashcart.readers.code.program import Program

LEVELS = ("will", "can", "note")
PER = 5000
RANKS = re.compile(
    r"distributed|accelerat|deepspeed|lightning|fabric|horovod|WORLD_SIZE|LOCAL_RANK|world_size|\brank\b|TrainingArguments",
    re.IGNORECASE,
)


def jobs(folder: str) -> Iterator[list[str]]:
    """The entry files of each job of a folder."""
    files = [
        os.path.join(at, name)
        for at, folders, names in os.walk(folder)
        for name in sorted(names)
        if name.endswith(".py") and not folders.sort()
    ]
    if os.path.exists(os.path.join(folder, "__init__.py")):
        yield files
        return
    for file in files:
        with open(file, encoding="utf-8", errors="replace") as handle:
            if "__name__ ==" in handle.read():
                yield [file]


def told(entries: list[str], root: str, launch: str) -> tuple[Diagnosis, int, set[str]]:
    """What is foreseen of one job, how many lines it has, and its files."""
    program = read_program(entries, [root])
    case = Case(before=True)
    case.seen = facts_of(program)
    defaults = [fact for group in case.seen.values() for fact in group if fact.origin == "default"]
    started = read_command(f"{launch if _knows_ranks(program) else 'python'} {entries[0]}")
    case.facts = {fact.name: fact for fact in [*defaults, *started]}
    return foresee(case), program.lines, {source.path for source in program.sources}


def _knows_ranks(program: Program) -> bool:
    """Whether anything beside the entry file is meant for several processes."""
    beside = os.path.dirname(program.entry or "")
    return any(RANKS.search(source.text) for source in program.sources if os.path.dirname(source.path) == beside)


def main() -> None:
    """Print the table, and the hits where they are asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+")
    parser.add_argument("--launch", default="torchrun --nproc_per_node 8")
    parser.add_argument("--hits", default="", help="levels whose places are printed, as in will,can")
    parser.add_argument("--cause", default="", help="print the places of this cause only")
    options = parser.parse_args()
    causes: Counter[tuple[str, str]] = Counter()
    total: Counter[str] = Counter()
    print(f"{'package':32} {'lines':>8} {'will':>5} {'can':>5} {'note':>5} {f'can/{PER}':>9} {'seconds':>8}")
    for folder in options.folders:
        found: set[tuple[str, str, str, str]] = set()
        count: Counter[str] = Counter()
        began = time.process_time()
        lines = _lines(folder)
        for entries in jobs(folder):
            diagnosis, _, _ = told(entries, folder, options.launch)
            for finding in diagnosis.findings:
                for sign in finding.signs:
                    where = sign.evidence[0].where if sign.evidence else ""
                    found.add((finding.level, finding.cause, where, f"{sign.says}\n      | {sign.evidence[0].quote}"))
        spent = time.process_time() - began
        for level, cause, where, says in sorted(found):
            count[level] += 1
            causes[cause, level] += 1
            if level in options.hits.split(",") and options.cause in {"", cause}:
                print(f"  {level} {cause} {where}\n      {says}")
        total.update(count)
        total["lines"] += lines
        total["seconds"] += round(spent * 1000)
        _row(os.path.basename(folder.rstrip("/")), lines, count, spent)
    _row("all", total["lines"], total, total["seconds"] / 1000)
    for (cause, level), number in sorted(causes.items()):
        print(f"{number:6} {level:5} {cause}")
    sys.exit(1 if total["will"] or total["can"] * PER > total["lines"] else 0)


def _lines(folder: str) -> int:
    number = 0
    for at, _, names in os.walk(folder):
        for name in names:
            if name.endswith(".py"):
                with open(os.path.join(at, name), "rb") as file:
                    number += file.read().count(b"\n")
    return number


def _row(name: str, lines: int, count: Counter[str], seconds: float) -> None:
    rate = count["can"] * PER / lines if lines else 0.0
    print(f"{name:32} {lines:8} " + " ".join(f"{count[level]:5}" for level in LEVELS) + f" {rate:9.2f} {seconds:8.1f}")


if __name__ == "__main__":
    main()
