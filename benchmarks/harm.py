"""Do healthy programs notice `crashcart run`? Each is run bare, bare again, and recorded; everything it leaves is compared.

    python benchmarks/harm.py                        # every program that can run here
    python benchmarks/harm.py --gpu --jobs 8         # only those that use a GPU, eight at a time
    python benchmarks/harm.py --slice 1/3 --minutes 8
    python benchmarks/harm.py --only nano-gpt loaders-pinned
    python benchmarks/harm.py --rows FOLDER/rows.json    # programs of your own (`read_rows` in `matrix.py` says how)

Compared are exit code, standard output and error, files, temporary files and processes left behind. Programs print their losses
as hexadecimal floats and hashes of their parameters, so that the last bit counts. The programs are declared in
`tests/harm/matrix.py`; a few differ in their standard output as documented there. Exits with 1 when a program differs, is unstable (bare differs from bare) or fails bare; a program that
cannot run here is listed with the reason.
"""

from __future__ import annotations

import argparse
import json
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "harm"))

import matrix
from comparison import Comparison, compare_apart

_PASSED = ("equal", "as documented")


def main() -> int:
    """Compare the chosen programs, print the table and what differs."""
    options = _parser().parse_args()
    signal.signal(
        signal.SIGINT, signal.default_int_handler
    )  # a shell ignores it for what it runs in the background, and so would the programs
    chosen = _chosen(options)
    deadline = time.monotonic() + options.minutes * 60 if options.minutes else None
    skipped = {program.name: reason for program in chosen if (reason := matrix.why_skipped(program))}
    print(f"crashcart {_revision()}, {len(chosen) - len(skipped)} programs, {options.jobs} at a time", flush=True)
    flags = ["--no-inject"] if options.no_inject else []
    comparisons: list[Comparison] = []
    unreached: list[str] = []

    def compare(program: matrix.Program) -> Comparison | None:
        if deadline is not None and time.monotonic() > deadline:
            unreached.append(program.name)
            return None
        return compare_apart(program.label, 3 * program.timeout_seconds + 30, flags)

    with ThreadPoolExecutor(options.jobs) as threads:
        under_way = [threads.submit(compare, program) for program in chosen if program.name not in skipped]
        for done in as_completed(under_way):
            comparison = done.result()
            if comparison is not None:
                comparisons.append(comparison)
                print(_line(comparison), flush=True)
                if comparison.verdict == "as documented":
                    continue
                for what, diff in comparison.differences.items():
                    print(f"    {what}:")
                    print("\n".join(f"        {line}" for line in diff.splitlines()), flush=True)
    _print_summary(comparisons, skipped, unreached)
    if options.json:
        result = {
            "revision": _revision(),
            "comparisons": [asdict(comparison) for comparison in comparisons],
            "skipped": skipped,
            "not reached": unreached,
        }
        Path(options.json).write_text(json.dumps(result, indent=1), encoding="utf-8")
    return int(any(comparison.verdict not in _PASSED for comparison in comparisons) or bool(unreached))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gpu", action="store_true", help="only programs that use a GPU")
    parser.add_argument("--ci", action="store_true", help="only programs that the test suite runs too")
    parser.add_argument("--rows", type=Path, metavar="FILE", help="the programs of this file instead of the matrix")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="only these programs")
    parser.add_argument("--slice", metavar="K/N", help="every Nth program, from the Kth on")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="programs at a time")
    parser.add_argument(
        "--minutes", type=float, metavar="M", help="begin no program after this time; exits with 1 if some are left"
    )
    parser.add_argument(
        "--no-inject", action="store_true", help="record from outside only: is it the inside part that differs?"
    )
    parser.add_argument("--json", metavar="FILE", help="write everything as JSON too")
    return parser


def _chosen(options: argparse.Namespace) -> list[matrix.Program]:
    declared = matrix.read_rows(options.rows) if options.rows else matrix.PROGRAMS
    programs = [program for program in declared.values() if not (options.gpu and not program.uses_gpu)]
    if options.ci:
        programs = [program for program in programs if program.ci]
    if options.only:
        unknown = set(options.only) - set(declared)
        if unknown:
            sys.exit(f"no such program: {', '.join(sorted(unknown))}")
        programs = [program for program in programs if program.name in options.only]
    if options.slice:
        number, count = (int(part) for part in options.slice.split("/"))
        programs = programs[number - 1 :: count]
    return programs


def _line(comparison: Comparison) -> str:
    verdict = comparison.verdict
    if verdict == "as documented":
        verdict += ": " + matrix.PROGRAMS[comparison.name].documented
    elif comparison.differences:
        verdict += ": " + ", ".join(comparison.differences)
    return f"{comparison.name:34} {comparison.seconds_bare:6.1f} s {comparison.seconds_recorded:6.1f} s  {verdict}"


def _print_summary(comparisons: list[Comparison], skipped: dict[str, str], unreached: list[str]) -> None:
    print(f"\n{'program':34} {'bare':>8} {'recorded':>8}  verdict")
    for comparison in sorted(comparisons, key=lambda comparison: comparison.name):
        print(_line(comparison))
    for name, reason in sorted(skipped.items()):
        print(f"{name:34} {'':8} {'':8}  skipped: {reason}")
    for name in sorted(unreached):
        print(f"{name:34} {'':8} {'':8}  not reached in time")
    counts = {
        verdict: sum(comparison.verdict == verdict for comparison in comparisons)
        for verdict in (*_PASSED, "differs", "unstable", "failed")
    }
    print(
        ", ".join(f"{count} {verdict}" for verdict, count in counts.items())
        + f", {len(skipped)} skipped, {len(unreached)} not reached"
    )


def _revision() -> str:
    root = Path(__file__).parents[1]
    done = subprocess.run(
        ["git", "-C", str(root), "describe", "--always", "--dirty"], capture_output=True, text=True, check=False
    )
    return done.stdout.strip() or "of unknown revision"


if __name__ == "__main__":
    sys.exit(main())
