"""Real launches of public repositories: what `check` understands of each, what it claims, and whether it sees what kills one.

    python benchmarks/launches.py REPOSITORIES [--truth FOLDER] [--only TEXT ...] [--list KIND ...] [--json FILE] [--workers N]

REPOSITORIES holds a checkout of each, named `owner+name`, at the commit of its truth file. `benchmarks/launches/owner+name.toml` says
what a person read there: for each launch its program and its numbers, each with the place that shows it, and mutations that kill it.
A launch is a `script`, a `command`, or `text`: lines of a file that someone would paste into a script (`README.md:12-20`), in a `folder`
of the repository; `fill` replaces what its author left open. `dies` says why a launch dies as it stands.

A value is right, wrong or unknown. `"unknown"` as the truth (the cards of the machine decide) wants silence; `"none"` means that it
never happens. A mutation is caught when a *will* appears that the launch does not have without it.
`--list` prints places: wrong, unknown, program, will, can, note, missed, caught, dies, failed.
"""

from __future__ import annotations

import argparse
import importlib
import json
import math
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
PATIENCE = 180
LAUNCH_FILE = "launch_from_text.sh"
# The row of `--show-job` that answers for a key of the truth.
ROWS = {
    "ranks": "ranks", "batch": "batch of a rank", "accumulation": "accumulation", "global_batch": "global batch", "epochs": "epochs",
    "steps": "steps", "save": "saving", "eval": "evaluation", "log": "logging", "sample": "sampling", "workers": "workers of a loader",
    "learning_rate": "learning rate", "tracker": "tracker",
}  # fmt: skip
LEVELS = ("will", "can", "note")
KINDS = ("wrong", "unknown", "program", *LEVELS, "missed", "caught", "dies", "failed")


@dataclass
class Look:
    """What `check` says of one launch: the rows of its job, the units of its periods, its entry file, its findings."""

    rows: dict[str, Any] = field(default_factory=dict)
    units: dict[str, str] = field(default_factory=dict)
    program: str = ""
    findings: list[dict[str, str]] = field(default_factory=list)
    problem: str = ""

    def sure(self) -> set[tuple[str, str]]:
        """The claims that the job will die, without their places: a mutation moves lines."""
        return {(finding["cause"], finding["words"]) for finding in self.findings if finding["level"] == "will"}


@dataclass
class Score:
    """The counts of all launches, and the lines that `--list` prints."""

    values: Counter[tuple[str, str]] = field(default_factory=Counter)
    counts: Counter[str] = field(default_factory=Counter)
    lines: list[tuple[str, str]] = field(default_factory=list)

    def add(self, kind: str, line: str) -> None:
        """Count something and keep its line."""
        self.counts[kind] += 1
        self.lines.append((kind, line))

    def merge(self, other: Score) -> None:
        """Take in the counts and lines of another repository."""
        self.values += other.values
        self.counts += other.counts
        self.lines += other.lines


def main() -> int:
    """Score every launch and every mutation, and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("repositories", type=Path)
    parser.add_argument("--truth", type=Path, default=HERE / "launches")
    parser.add_argument("--only", nargs="*", default=[], help="repositories whose name contains one of these")
    parser.add_argument("--list", nargs="*", default=[], choices=KINDS, help="print these places")
    parser.add_argument("--json", type=Path, help="write all counts and places here")
    parser.add_argument("--workers", type=int, default=1)
    options = parser.parse_args()
    wanted = [path for path in sorted(options.truth.glob("*.toml")) if _is_wanted(path.stem, options.only)]
    here = [path for path in wanted if (options.repositories / path.stem).is_dir()]
    for path in wanted:
        if path not in here:
            print(f"{path.stem}: no checkout in {options.repositories}", file=sys.stderr)
    total = Score()
    with ThreadPoolExecutor(options.workers) as pool:
        for score in pool.map(lambda path: score_repository(path, options.repositories), here):
            total.merge(score)
    report(total, len(here), options.list)
    if options.json:
        plain = {
            "values": {f"{key} {verdict}": count for (key, verdict), count in sorted(total.values.items())},
            "counts": dict(total.counts),
            "lines": total.lines,
        }
        options.json.write_text(json.dumps(plain, indent=1), encoding="utf-8")
    return 0


def _is_wanted(name: str, only: list[str]) -> bool:
    return not only or any(part in name for part in only)


def report(total: Score, repositories: int, kinds: list[str]) -> None:
    """Print the places that were asked for, then the tables."""
    for kind, line in total.lines:
        if kind in kinds:
            print(f"{kind}: {line}")
    print(f"{'value':<16}{'right':>7}{'wrong':>7}{'unknown':>9}")
    for key in [*ROWS, "all"]:
        row = [sum(n for (name, verdict), n in total.values.items() if key in {name, "all"} and verdict == wanted)
               for wanted in ("right", "wrong", "unknown")]  # fmt: skip
        share = f"   {100 * row[0] / sum(row):.0f} % right, {100 * row[1] / sum(row):.0f} % wrong" if sum(row) else ""
        print(f"{key:<16}{row[0]:>7}{row[1]:>7}{row[2]:>9}{share}")
    counts = total.counts
    print(f"{counts['launches']} launches of {repositories} repositories; program right in {counts['program right']}")
    print("findings: " + ", ".join(f"{counts[level]} {level}" for level in LEVELS))
    print(f"launches that die as they stand: {counts['dies seen']} of {counts['dies']} have a will")
    print(f"launches that do not: {counts['will elsewhere']} of {counts['launches'] - counts['dies']} have a will")
    print(
        f"mutations: {counts['caught']} of {counts['caught'] + counts['missed']} caught; checks that failed: {counts['failed']}"
    )


def score_repository(truth_file: Path, repositories: Path) -> Score:
    """All launches of one repository, and its mutations, in a copy of it."""
    tomllib = importlib.import_module("tomllib")  # comes with Python 3.11, and the package is for 3.10 too
    truth = tomllib.loads(truth_file.read_text(encoding="utf-8"))
    score = Score()
    with tempfile.TemporaryDirectory() as scratch:
        root = Path(scratch) / truth_file.stem
        shutil.copytree(repositories / truth_file.stem, root, symlinks=True, ignore=shutil.ignore_patterns(".git"))
        subprocess.run(["git", "init", "-q", str(root)], check=True)  # as a checkout is: the root of the project
        for launch in truth["launch"]:
            name = f"{truth_file.stem} {launch['id']}"
            look = look_at(root, launch)
            score.counts["launches"] += 1
            if look.problem:
                score.add("failed", f"{name}: {look.problem}")
            score_launch(score, name, launch, look)
            for mutation in truth.get("mutation", []):
                if mutation["launch"] == launch["id"]:
                    score_mutation(score, name, mutation, look, look_at(root, launch, mutation))
    return score


def score_launch(score: Score, name: str, launch: dict[str, Any], look: Look) -> None:
    """Each value of a launch against the truth, its program, and its findings for a person to judge."""
    accepted = launch["program"] if isinstance(launch["program"], list) else [launch["program"]]
    if look.program in accepted or (accepted == ["unknown"] and not look.program):
        score.counts["program right"] += 1
    else:
        score.add("program", f"{name}: {look.program or 'none'} for {' or '.join(accepted)}")
    for key in ROWS:
        if key in launch:
            told = told_value(look, key)
            verdict = judge(key, launch[key], told)
            score.values[key, verdict] += 1
            if verdict != "right":
                wanted = " ".join(str(launch[key][part]) for part in ("value", "unit") if part in launch[key])
                shown = "unknown" if told is None else " ".join(map(str, told)).strip()
                score.lines.append((verdict, f"{name}: {key} {shown} for {wanted} ({launch[key]['where']})"))
    for finding in look.findings:
        score.add(finding["level"], f"{name}: {finding['cause']}: {finding['words']} ({finding['where']})")
    if "dies" in launch:
        score.add("dies", f"{name}: {'seen' if look.sure() else 'not seen'}: {launch['dies']}")
        score.counts["dies seen"] += bool(look.sure())
    else:
        score.counts["will elsewhere"] += bool(look.sure())


def score_mutation(score: Score, name: str, mutation: dict[str, str], before: Look, after: Look) -> None:
    """Whether the check of the broken launch says something sure that the check of the whole one does not say."""
    new = sorted(after.sure() - before.sure())
    told = f"{name} {mutation['kind']}: {mutation['old']!r} -> {mutation['new']!r} ({mutation['why']})"
    if after.problem:
        score.add("failed", f"{told}: {after.problem}")
    if new:
        score.add("caught", f"{told}: {'; '.join(f'{cause}: {words}' for cause, words in new)}")
    else:
        score.add("missed", told)


def told_value(look: Look, key: str) -> tuple[Any, str] | None:
    """What the job's table says for a key, with its unit where it is a period; None where it is unknown."""
    row = look.rows.get(ROWS[key])
    if row is None:
        return None
    value, unit = row["value"], look.units.get(key, "")
    if unit == "strategy":  # of the Hugging Face trainer: no, epoch, or steps without their number
        return {"no": ("none", ""), "epoch": (1, "epochs")}.get(str(value))
    if key == "tracker" and isinstance(value, bool | list):
        return (" ".join(value), "") if isinstance(value, list) else None if value else ("none", "")
    return value, unit


def judge(key: str, truth: dict[str, Any], told: tuple[Any, str] | None) -> str:
    """Right, wrong or unknown."""
    wanted = truth["value"]
    if wanted == "unknown":
        return "right" if told is None else "wrong"
    if told is None or isinstance(told[0], list):  # a list: loaders with different numbers, and not said which one trains
        return "unknown"
    if wanted == "none":
        return "right" if told[0] in {"none", "no", "", 0} else "wrong"
    accepted = wanted if isinstance(wanted, list) else [wanted]
    if not any(_is_same(each, told[0]) for each in accepted):
        return "wrong"
    return "right" if truth.get("unit", told[1]) == told[1] or key not in {"save", "eval", "log", "sample"} else "wrong"


def _is_same(wanted: object, told: object) -> bool:
    try:
        return math.isclose(float(str(wanted)), float(str(told)), rel_tol=1e-4)
    except ValueError:
        return str(wanted).lower() in str(told).lower()


def look_at(root: Path, launch: dict[str, Any], mutation: dict[str, str] | None = None) -> Look:
    """Check a launch in its own process, with the files that it needs for the while written into the copy."""
    folder = root / launch.get("folder", ".")
    in_launch = mutation if mutation and "file" not in mutation else None
    changed: dict[Path, str | None] = {}

    def change(path: Path, text: str) -> None:
        changed[path] = path.read_text(encoding="utf-8") if path.exists() else None
        path.write_text(text, encoding="utf-8")

    if "command" in launch:
        words = ["--", *shlex.split(_edited(launch["command"], launch, in_launch))]
    elif "script" in launch:
        script = folder / launch["script"]
        if "fill" in launch or in_launch:
            change(script, _edited(script.read_text(encoding="utf-8"), launch, in_launch))
        words = [launch["script"]]
    else:
        change(folder / LAUNCH_FILE, _edited(_lines(root, launch["text"]), launch, in_launch) + "\n")
        words = [LAUNCH_FILE]
    if mutation and "file" in mutation:
        path = root / mutation["file"]
        change(path, _replaced(path.read_text(encoding="utf-8"), mutation["old"], mutation["new"]))
    try:
        return _looked(root, folder, words)
    finally:
        for path, text in changed.items():
            if text is None:
                path.unlink()
            else:
                path.write_text(text, encoding="utf-8")


def _lines(root: Path, place: str) -> str:
    """The lines of a file that `README.md:12-20` names, without the prompt that documents write before a command."""
    path, _, numbers = place.rpartition(":")
    first, _, last = numbers.partition("-")
    lines = (root / path).read_text(encoding="utf-8").split("\n")[int(first) - 1 : int(last or first)]
    return "\n".join(re.sub(r"^\s*\$ ", "", line) for line in lines)


def _edited(text: str, launch: dict[str, Any], mutation: dict[str, str] | None) -> str:
    for old, new in launch.get("fill", []):
        text = _replaced(text, old, new)
    return _replaced(text, mutation["old"], mutation["new"]) if mutation else text


def _replaced(text: str, old: str, new: str) -> str:
    if old not in text:
        raise ValueError(f"{old!r} is not in the launch: is the checkout at the commit of the truth?")
    return text.replace(old, new)


def _looked(root: Path, folder: Path, words: list[str]) -> Look:
    command = [sys.executable, str(Path(__file__).resolve()), "--look", *words]
    environment = {**os.environ, "PYTHONHASHSEED": "0"}
    try:
        done = subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, timeout=PATIENCE, check=False
        )
        plain = json.loads(done.stdout)
    except subprocess.TimeoutExpired:
        return Look(problem=f"took more than {PATIENCE} s")
    except ValueError:
        return Look(problem=(done.stderr.strip().splitlines() or ["no output"])[-1])
    look = Look(**plain)
    if look.program:
        look.program = os.path.relpath(os.path.realpath(folder / look.program), os.path.realpath(root))
    return look


def print_look(words: list[str]) -> int:
    """Inside the process of one check: its job and its findings as JSON. The units stand in the names of the facts."""
    from crashcart.readers.plan import Asked, plans
    from crashcart.report.job import TABLE, counting, plain_job
    from crashcart.verbs.check import _foreseen

    asked = Asked(words[1:], []) if words[:1] == ["--"] else Asked([], words)
    found = plans(asked)
    case, program = found[0].case, found[0].program
    names = {label: known for _, part in TABLE for label, known in part}
    units = {}
    for key in ("save", "eval", "log", "sample"):
        fact = counting(case, names[ROWS[key]])
        name = fact.name if fact is not None else ""
        units[key] = "epochs" if name.endswith("_epochs") else "strategy" if name.endswith("strategy") else "steps"
    started = case.facts.get("launch.script")
    findings = [
        {"level": finding.level, "cause": finding.cause, "words": "; ".join(sign.says for sign in finding.signs),
         "where": ", ".join(dict.fromkeys(seen.where for sign in finding.signs for seen in sign.evidence))}
        for finding in _foreseen(found, asked).findings
    ]  # fmt: skip
    rows = plain_job(found[0].name, case, found[0].counted)["settings"]
    plain = {
        "rows": rows,
        "units": units,
        "program": program.entry or (started.value if started else ""),
        "findings": findings,
    }
    print(json.dumps(plain, default=str))
    return 0


if __name__ == "__main__":
    sys.exit(print_look(sys.argv[2:]) if sys.argv[1:2] == ["--look"] else main())
