"""How often `crashcart why` names the right cause, on a folder of incidents (each with log.txt and truth.json).

    python benchmarks/accuracy.py PATH [--buried 100000] [--seed 1]

Prints a table by family and the misses. `--buried` puts each log into that many lines of healthy output first.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import sys
import tempfile
from collections import defaultdict
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

import crashcart


def main() -> int:
    """Score every incident and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--buried", type=int, default=0, metavar="LINES")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="")
    parser.add_argument("-q", "--quiet", action="store_true")
    options = parser.parse_args()
    folders = [path.parent for path in sorted(options.folder.glob(f"{options.only}*/truth.json"))]
    with multiprocessing.Pool() as pool:
        answers = pool.map(partial(answer, buried=options.buried, seed=options.seed), folders, chunksize=1)
    truths = [json.loads((folder / "truth.json").read_text()) for folder in folders]
    report([(folder.name, *row) for folder, *row in zip(folders, truths, answers, strict=True)], quiet=options.quiet)
    return 0


def answer(folder: Path, buried: int, seed: int) -> list[str]:
    """The causes that `why` names for an incident's log, best first."""
    log = folder / "log.txt"
    if not buried:
        return causes_of(str(log))
    from healthy_lines import bury

    with tempfile.NamedTemporaryFile(suffix=".txt") as file:
        file.write(bury(log.read_bytes(), buried, seed))
        file.flush()
        return causes_of(file.name)


def causes_of(log: str) -> list[str]:
    """The causes, best first; `none` where nothing is blamed."""
    findings = crashcart.why([log]).findings
    blamed = any(finding.role == "cause" or finding.cause.startswith(("slow/", "silent/")) for finding in findings)
    return [*([] if blamed else ["none"]), *(finding.cause for finding in findings)]


def report(rows: list[tuple[str, dict[str, object], list[str]]], *, quiet: bool) -> None:
    """The table by family, then the misses."""
    table: dict[str, list[int]] = defaultdict(lambda: [0, 0, 0])
    misses = []
    for name, truth, found in rows:
        right = {truth["cause"], *truth.get("also_accept", [])}  # type: ignore[misc]
        first, three = int(bool(found) and found[0] in right), int(bool(right & set(found[:3])))
        for key in (str(truth["cause"]).split("/")[0], "all"):
            table[key][0] += 1
            table[key][1] += first
            table[key][2] += three
        if not first:
            misses.append(f"{'  ' if three else '! '}{name:40} {truth['cause']:32} got {', '.join(found[:3]) or 'nothing'}")
    if not quiet:
        print("\n".join(misses))
    print(f"{'family':14} {'n':>4} {'first':>7} {'in three':>9}")
    for family, (count, first, three) in sorted(table.items(), key=lambda item: item[0] == "all"):
        print(f"{family:14} {count:4} {first / count:7.1%} {three / count:9.1%}")


if __name__ == "__main__":
    sys.exit(main())
