"""Runs the Markdown plans: small jobs before their start, and what `check` must say of them.

A section (``## what the job does``) holds its files in fences (``file NAME``), the job in a fence ``check`` (``train.sh``, a
config, ``.`` or ``-- CMD``), and one ``expect`` fence: lines ``will ID``, ``can ID``, ``note ID`` (each must be there, with a
place where it says ``at NAME:LINE``), ``not ID`` for what must stay silent, or ``nothing``: no *will* and no *can* at all.
``after NAME`` is a file as ``--fix`` leaves it.
"""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import crashcart
from crashcart.model import HARMLESS
from crashcart.repair import repairs, write

if TYPE_CHECKING:
    from crashcart.model import Diagnosis

FOLDER = Path(__file__).parent / "plans"
FENCE = re.compile(r"^(?P<ticks>`{3,4})(?P<kind>\w+) ?(?P<name>\S*)\n(?P<body>.*?)^(?P=ticks)$", re.MULTILINE | re.DOTALL)
EXPECTED = re.compile(r"(?P<level>will|can|note|not) (?P<cause>[\w/*-]+)(?: at (?P<where>\S+))?")


@dataclass
class Section:
    """One job of a plan file."""

    file: str
    title: str
    fences: list[tuple[str, str, str]] = field(default_factory=list)

    def of(self, kind: str) -> list[tuple[str, str]]:
        """Name and body of each fence of a kind."""
        return [(name, body) for found, name, body in self.fences if found == kind]


def sections() -> list[Section]:
    """Every section of every plan file."""
    found = []
    for file in sorted(FOLDER.rglob("*.md")):
        for part in re.split(r"^## ", file.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]:
            fences = [(match["kind"], match["name"], match["body"]) for match in FENCE.finditer(part)]
            found.append(Section(str(file.relative_to(FOLDER)), part.splitlines()[0], fences))
    return found


@pytest.mark.parametrize("section", sections(), ids=lambda section: f"{section.file}: {section.title}")
def test_plan(section: Section, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the plan file says is what `check` says."""
    monkeypatch.chdir(tmp_path)
    for name, body in section.of("file"):
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_text(body, encoding="utf-8")
    job = shlex.split(section.of("check")[0][1])
    diagnosis = crashcart.check(command=job[1:]) if job[0] == "--" else crashcart.check(job)
    expected = [line for _, body in section.of("expect") for line in body.split("\n") if line]
    for line in expected:
        if line == "nothing":
            assert not [one.cause for one in diagnosis.findings if one.level != "note"], diagnosis.findings
            continue
        wanted = EXPECTED.fullmatch(line)
        assert wanted, line
        found = [one for one in diagnosis.findings if one.cause == wanted["cause"]]
        if wanted["level"] == "not":
            assert not [one for one in found if one.level != "note"], found
        else:
            _is_there(found, wanted, diagnosis)
    _repaired(section, diagnosis)


def _is_there(found: list[crashcart.model.Finding], wanted: re.Match[str], diagnosis: Diagnosis) -> None:
    levels = [one for one in found if one.level == wanted["level"]]
    assert levels, [(one.level, one.cause, one.signs) for one in diagnosis.findings]
    places = [item.where.removeprefix("./") for one in levels for sign in one.signs for item in sign.evidence]
    assert wanted["where"] is None or wanted["where"].removeprefix("./") in places, places


def _repaired(section: Section, diagnosis: Diagnosis) -> None:
    if section.of("after"):
        write(repairs(diagnosis.findings, HARMLESS))
    for name, body in section.of("after"):
        assert Path(name).read_text(encoding="utf-8") == body
