"""Real training programs that die, each with a decoy: the first answer, the line to change, and whether the first fix works.

    python benchmarks/programs.py FOLDER [--only NAME ...] [--keep FOLDER] [--no-repair]

FOLDER holds one folder for each program: its files, `launch` (the command line, as one types it; `bash train.sh` where there is none), `truth.json`
(`cause`, `also_accept`, `lines` of which one has to be changed, `hang`) and `repaired/` with the files after the repair. Each program
runs under `crashcart run`; a program that hangs is stopped. Four figures come out:

- first: the first finding is the true cause, or one that is as fair;
- line: the story or the first finding names one of the true lines, in its evidence or its patch;
- fix: the first fix, applied as it stands (its patch, its arguments), makes the program pass; `hand` where it is words only;
- silent: the repaired program ends well and no finding has the role of a cause.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

RUN = [sys.executable, "-m", "crashcart", "run", "--quiet", "--on-hang", "stop", "--hang-seconds", "20"]
PATIENCE = 240
NOT_THE_PROGRAM = {"truth.json", "repaired", "crashcart_runs", "__pycache__"}


def main() -> int:
    """Run them all and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--keep", type=Path, help="leave the recorded programs here")
    parser.add_argument("--no-repair", action="store_true", help="neither apply the fix nor run the repaired program")
    options = parser.parse_args()
    rows = []
    for program in sorted(path.parent for path in options.folder.glob("*/truth.json")):
        if options.only and not any(name in program.name for name in options.only):
            continue
        rows.append(examined(program, options.keep, repair=not options.no_repair))
        print(told(rows[-1]), flush=True)
    names = ("first", "third", "line", "fix", "silent")
    counts = {name: sum(row[name] in {True, "yes"} for row in rows) for name in names}
    print(f"{len(rows)} programs: " + ", ".join(f"{name} {count}" for name, count in counts.items()))
    return 0


def examined(program: Path, keep: Path | None, *, repair: bool) -> dict[str, Any]:
    """One program: what was said of its death, and whether the repair works."""
    truth = json.loads((program / "truth.json").read_text(encoding="utf-8"))
    with tempfile.TemporaryDirectory() as scratch:
        root = (keep or Path(scratch)) / program.name
        shutil.rmtree(root, ignore_errors=True)
        answer = recorded(program, root / "died")
        findings = answer["findings"]
        causes = [one["cause"] for one in findings]
        accepted = {truth["cause"], *truth.get("also_accept", [])}
        row = {
            "name": program.name,
            "wanted": truth["cause"],
            "said": causes[:3],
            "state": answer["ending"]["state"],
            "first": bool(causes) and causes[0] in accepted,
            "third": bool(accepted & set(causes[:3])),
            "line": bool(findings) and names_line(findings[0], answer["story"], truth.get("lines", [])),
            "fix": "-",
            "silent": "-",
        }
        if repair:
            row["fix"] = fixed(program, root, findings[0]["fixes"]) if findings else "none"
            again = recorded(program, root / "repaired", overlay=program / "repaired")
            blamed = [one["cause"] for one in again["findings"] if one["role"] == "cause"]
            row["silent"] = again["ending"]["state"] == "finished" and not blamed
            row["repaired"] = f"{again['ending']['state']} {' '.join(blamed)}"
        return row


def told(row: dict[str, Any]) -> str:
    """One line of the table."""
    marks = " ".join(f"{name}:{'yes' if row[name] is True else 'NO' if row[name] is False else row[name]}" for name in ("first", "line", "fix", "silent"))  # fmt: skip
    said = "" if row["first"] else f"  said {', '.join(row['said']) or 'nothing'} ({row['state']})"
    repaired = f"  repaired: {row['repaired']}" if row["silent"] is False else ""
    return f"{row['name']:28} {row['wanted']:30} {marks}{said}{repaired}"


def recorded(program: Path, folder: Path, *, overlay: Path | None = None) -> dict[str, Any]:
    """Run a copy of the program and ask why."""
    folder.mkdir(parents=True)
    copy(program, folder)
    if overlay is not None:
        shutil.copytree(overlay, folder, dirs_exist_ok=True)
    return answer_of(folder, launch_of(program))


def copy(program: Path, folder: Path) -> None:
    """The program's own files."""
    shutil.copytree(program, folder, dirs_exist_ok=True, ignore=lambda _, names: NOT_THE_PROGRAM & set(names))


def launch_of(program: Path) -> list[str]:
    """The command line of a program."""
    path = program / "launch"
    line = path.read_text(encoding="utf-8").strip() if path.exists() else "bash train.sh"
    return ["bash", "-c", line] if {"&&", "||", ";", "|"} & set(line.split()) else shlex.split(line)


def answer_of(folder: Path, command: list[str]) -> dict[str, Any]:
    """Run a command under `crashcart run` in a folder; what `why` then says."""
    plain = {name: value for name, value in os.environ.items() if not name.startswith("CRASHCART")}
    environment = {**plain, "VENV": sys.prefix, "PATH": f"{sys.prefix}/bin:{plain.get('PATH', '')}", "OMP_NUM_THREADS": "1"}
    with (folder / "crashcart.out").open("wb") as output:
        job = subprocess.Popen([*RUN, "--", *command], cwd=folder, env=environment, stdout=output, stderr=output, stdin=subprocess.DEVNULL)  # fmt: skip
        try:
            job.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            job.terminate()
            try:
                job.wait(60)
            except subprocess.TimeoutExpired:
                job.kill()
    end_what_is_left(folder)
    done = subprocess.run([sys.executable, "-m", "crashcart", "why", "--json"], cwd=folder, env=environment, capture_output=True, text=True, check=False)  # fmt: skip
    return json.loads(done.stdout)  # type: ignore[no-any-return]


def end_what_is_left(folder: Path) -> None:
    """Kill the processes that still work in the folder of a program."""
    for process in Path("/proc").glob("[0-9]*"):
        try:
            where = Path(os.readlink(process / "cwd"))
            if where == folder.resolve() or folder.resolve() in where.parents:
                os.kill(int(process.name), signal.SIGKILL)
        except OSError:  # noqa: PERF203 - processes end while we look
            continue


def names_line(finding: dict[str, Any], story: list[dict[str, Any]], lines: list[str]) -> bool:
    """Whether the story or the finding names one of the lines: by place, in a quoted traceback, or in its first patch."""
    text = json.dumps([story, finding["evidence"], finding["fixes"][:1]])
    for line in lines:
        file, _, number = line.rpartition(":")
        base = re.escape(os.path.basename(file))
        if re.search(rf"{base}(?:\\*\", line |:){number}\b", text) or f"{file}" in changed_lines(finding, number):
            return True
    return False


def changed_lines(finding: dict[str, Any], number: str) -> set[str]:
    """The files in which the first patch changes that line."""
    found: set[str] = set()
    for fix in finding["fixes"][:1]:
        file, at = "", 0
        for line in (fix.get("diff") or "").splitlines():
            if line.startswith("+++ "):
                file = line[6:].split("\t")[0]
            elif match := re.match(r"@@ -(\d+)", line):
                at = int(match[1]) - 1
            elif line.startswith("-") and not line.startswith("---"):
                at += 1
                found |= {file, os.path.basename(file)} if str(at) == number else set()
            elif not line.startswith("+"):
                at += 1
    return found


def fixed(program: Path, root: Path, fixes: list[dict[str, Any]]) -> str:
    """Apply the first fix as it stands and run again: yes, no, or hand where it is words."""
    if not fixes:
        return "none"
    fix = fixes[0]
    if not (fix.get("diff") or fix.get("arguments") or fix.get("environment")):
        return "hand"
    folder = root / "fixed"
    folder.mkdir(parents=True)
    copy(program, folder)
    command = launch_of(program)
    if fix.get("diff"):
        diff = re.sub(
            rf"^(---|\+\+\+) ([ab])/{re.escape(str(root / 'died').lstrip('/'))}/", r"\1 \2/", fix["diff"], flags=re.MULTILINE
        )
        patched = subprocess.run(["patch", "-p1", "--force"], cwd=folder, input=diff, text=True, capture_output=True, check=False)  # fmt: skip
        if patched.returncode:
            return "no patch"
    if fix.get("arguments") and not with_arguments(folder, command, fix["arguments"]):
        return "no flag"
    environment = [f"{name}={value}" for name, value in (fix.get("environment") or {}).items()]
    answer = answer_of(folder, [*(["env", *environment] if environment else []), *command])
    blamed = [one["cause"] for one in answer["findings"] if one["role"] == "cause"]
    return "yes" if answer["ending"]["state"] == "finished" and not blamed else "no"


def with_arguments(folder: Path, command: list[str], arguments: dict[str, str]) -> bool:
    """Give the program other arguments: in the command, or in the script that has them."""
    words = [flag if value == "" else f"{flag}={value}" for flag, value in arguments.items()]
    if not command[0].endswith(("bash", "sh")):
        command += words
        return True
    script = folder / command[1]
    text = script.read_text(encoding="utf-8")
    for flag, value in arguments.items():
        new, count = re.subn(rf"{re.escape(flag)}(?:=|\s+)(?:\"[^\"]*\"|\S+)", f"{flag}={value}", text)
        if not count:
            new, count = re.subn(r"(\w[\w/]*\.py)\b(?![^\n]*\.py)", rf"\1 {flag}={value}", text)
        if not count:
            return False
        text = new
    script.write_text(text, encoding="utf-8")
    return True


if __name__ == "__main__":
    sys.exit(main())
