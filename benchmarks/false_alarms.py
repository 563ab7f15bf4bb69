"""What `check` says of code that is well kept: the table of false alarms, by package and by cause.

    python benchmarks/false_alarms.py FOLDER... [--launch "torchrun --nproc_per_node 8"] [--hits will,can] [--cause ID]

Each Python file of a folder that can be started is a job of its own. The launch is made up, and harsh: what needs several ranks is
then claimed; only a program that never speaks of ranks, in its entry file or beside it, is started as one process. Nothing is
downloaded: unpack what pip fetched (``pip download --no-deps``) and name its folders.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import sys
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from crashcart.verbs.check import check

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.model import Diagnosis

LEVELS = ("will", "can", "note")
PER = 5000
RANKS = re.compile(
    r"distributed|accelerat|deepspeed|lightning|fabric|horovod|WORLD_SIZE|LOCAL_RANK|world_size|\brank\b|TrainingArguments",
    re.IGNORECASE,
)


def jobs(folder: str) -> Iterator[str]:
    """The entry files of the jobs of a folder."""
    for path in sorted(Path(folder).rglob("*.py")):
        if "__name__ ==" in path.read_text(encoding="utf-8", errors="replace"):
            yield str(path)


def told(entry: str, launch: str) -> Diagnosis:
    """What is foreseen of one job."""
    beside = [path for path in Path(entry).parent.glob("*.py") if path.is_file()]
    knows_ranks = any(RANKS.search(path.read_text(encoding="utf-8", errors="replace")) for path in beside)
    command = [*shlex.split(launch if knows_ranks else "python"), entry]
    return check(command=command)


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
        for entry in jobs(folder):
            diagnosis = told(entry, options.launch)
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
