"""A rewrite keeps what a program does: each example prints the same, written in each way."""

from __future__ import annotations

import contextlib
import importlib
import io
import re
import runpy
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from rewrites import REWRITES

if TYPE_CHECKING:
    from collections.abc import Iterator

EXAMPLES = Path(__file__).parent / "examples.md"
FENCE = re.compile(r"^```(?P<kind>\w+) ?(?P<name>\S*)\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Example:
    """A small program, the rewrite that it is an example of, and whether that applies to it."""

    section: str
    number: int
    files: dict[str, str]
    applies: bool
    after: str | None

    def __str__(self) -> str:
        return f"{self.section} {self.number}"


def examples() -> Iterator[Example]:
    """Every program of the examples."""
    for part in re.split(r"^## ", EXAMPLES.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]:
        section = part.splitlines()[0]
        fences = list(FENCE.finditer(part))
        together = {match["name"]: match["body"] for match in fences if match["kind"] == "file"}
        if together:
            yield Example(section, 0, together, applies=True, after=None)
        for number, match in enumerate(fences, 1):
            if match["kind"] in ("program", "unchanged"):
                following = fences[number] if number < len(fences) else None
                after = following["body"] if following and following["kind"] == "after" else None
                yield Example(section, number, {"main.py": match["body"]}, applies=match["kind"] == "program", after=after)


EVERY = list(examples())


def printed(files: dict[str, str], folder: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """What a program prints, and the error that it ends with, if any."""
    folder.mkdir()
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "path", [str(folder), *sys.path])
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    before = set(sys.modules)
    importlib.invalidate_caches()
    output = io.StringIO()
    try:
        with contextlib.redirect_stdout(output):
            runpy.run_path("main.py", run_name="__main__")
    finally:
        for name in set(sys.modules) - before:
            if str(getattr(sys.modules[name], "__file__", "")).startswith(str(folder)):
                del sys.modules[name]
    return re.sub(r" at 0x[0-9a-f]+", "", output.getvalue())


@pytest.mark.parametrize("example", EVERY, ids=str)
def test_a_program_prints_the_same_in_every_way(example: Example, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = printed(example.files, tmp_path / "original", monkeypatch)
    assert expected
    for name, rewrite in REWRITES.items():
        rewritten = rewrite(example.files, "-- python main.py")
        if rewritten is not None:
            assert printed(rewritten, tmp_path / name, monkeypatch) == expected, (name, rewritten)


@pytest.mark.parametrize("example", [example for example in EVERY if example.section in REWRITES], ids=str)
def test_a_rewrite_applies_to_its_examples_alone(example: Example) -> None:
    rewritten = REWRITES[example.section](example.files, "-- python main.py")
    assert (rewritten is not None) == example.applies, rewritten
    if example.after is not None:
        assert rewritten is not None
        assert rewritten["main.py"] == example.after


def test_every_rewrite_has_an_example() -> None:
    assert set(REWRITES) <= {example.section for example in EVERY if example.applies}
    assert len(REWRITES) >= 24
