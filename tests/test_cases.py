"""Runs the Markdown cases: every incident is data, and so is what must be said of it.

A case file holds sections (``## what happens``). A section has inputs in fences (``log NAME``, ``script NAME``,
``config NAME``, ``kernel NAME``, ``command``, ``exit``) and one ``expect`` fence: cause ids, best first, then ``not ID`` for
what must stay silent, or ``nothing`` for a healthy run. ``after NAME`` is a file as the first fix leaves it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

import crashcart

FOLDER = Path(__file__).parent / "cases"
FENCE = re.compile(r"^(?P<ticks>`{3,4})(?P<kind>\w+) ?(?P<name>\S*)\n(?P<body>.*?)^(?P=ticks)$", re.MULTILINE | re.DOTALL)
INPUTS = {"log": "train.log", "script": "train.sh", "config": "train.yaml", "kernel": "dmesg.txt"}


@dataclass
class Section:
    """One incident of a case file."""

    file: str
    title: str
    fences: list[tuple[str, str, str]] = field(default_factory=list)

    def of(self, kind: str) -> list[tuple[str, str]]:
        """Name and body of each fence of a kind."""
        return [(name or INPUTS.get(kind, ""), body) for found, name, body in self.fences if found == kind]


def sections() -> list[Section]:
    """Every section of every case file."""
    found = []
    for file in sorted(FOLDER.rglob("*.md")):
        for part in re.split(r"^## ", file.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]:
            title = part.splitlines()[0]
            fences = [(match["kind"], match["name"], match["body"]) for match in FENCE.finditer(part)]
            found.append(Section(str(file.relative_to(FOLDER)), title, fences))
    return found


@pytest.mark.parametrize("section", sections(), ids=lambda section: f"{section.file}: {section.title}")
def test_case(section: Section, tmp_path: Path) -> None:
    """What the case file says is what `why` says."""
    diagnosis = crashcart.why(**written(section, tmp_path))
    expected = "".join(body for _, body in section.of("expect")).split("\n")
    named = [finding.cause for finding in diagnosis.findings]
    blamed = [finding.cause for finding in diagnosis.findings if finding.role == "cause"]
    best = [line for line in expected if line and not line.startswith("not ") and line != "nothing"]
    assert named[: len(best)] == best, diagnosis.findings
    assert not set(blamed) & {line.removeprefix("not ") for line in expected if line.startswith("not ")}
    if "nothing" in expected:
        assert not blamed
    for name, body in section.of("after"):
        assert _patched(diagnosis, tmp_path, name) == body


def written(section: Section, folder: Path) -> dict[str, Any]:
    """Write the inputs of a section into a folder; what to ask `why`."""
    folder.mkdir(exist_ok=True)
    for kind in INPUTS:
        for name, body in section.of(kind):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(body, encoding="utf-8")
    return {
        "paths": [str(folder / name) for name, _ in section.of("log")] or [str(folder)],
        "command": next((body.strip() for _, body in section.of("command")), None),
        "configs": [str(folder / name) for name, _ in section.of("config")],
        "scripts": [str(folder / name) for name, _ in section.of("script")],
        "exit_code": next((int(body) for _, body in section.of("exit")), None),
        "kernel_log": next((str(folder / name) for name, _ in section.of("kernel")), None),
        "look_around": not section.of("log"),
    }


def _patched(diagnosis: crashcart.model.Diagnosis, folder: Path, name: str) -> str:
    from crashcart.patch import apply

    edits = next(fix.edits for finding in diagnosis.findings for fix in finding.fixes if fix.edits)
    return apply(edits)[str(folder / name)]


def test_every_cause_has_a_hit_and_a_near_miss() -> None:
    """A cause without a case that shows it, or without one that must stay silent, is not done."""
    from crashcart.cause import causes

    lacking = []
    for cause in causes():
        bodies = [body for section in sections() if section.file == f"{cause.id}.md" for _, body in section.of("expect")]
        hit = any(body.split("\n")[0] == cause.id for body in bodies)
        miss = any(f"not {cause.id}" in body or "nothing" in body for body in bodies)
        if not (hit and miss):
            lacking.append(cause.id)
    assert not lacking
