"""The documents say what is true: pages of the causes, the list of verbs, the tour in the README."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from crashcart.case import Case
from crashcart.cause import causes
from crashcart.report.pages import markdown

ROOT = Path(__file__).parents[2]
TAXONOMY = 73
HEADINGS = ("What happens: ", "Why: ", "How it shows: ", "What to do: ")


@pytest.mark.parametrize("cause", causes(), ids=lambda cause: cause.id)
def test_every_cause_has_a_page_with_its_four_parts(cause: object) -> None:
    assert [heading for heading in HEADINGS if heading not in cause.page] == []  # type: ignore[attr-defined]
    assert tuple(cause.fix(Case()))  # type: ignore[attr-defined]
    assert cause.experiment is not None  # type: ignore[attr-defined]


def test_the_pages_in_docs_are_those_of_the_code() -> None:
    stale = [
        cause.id for cause in causes() if (ROOT / "docs/causes" / f"{cause.id}.md").read_text("utf-8") != markdown(cause)
    ]
    assert not stale, "run `make docs`"


def test_all_causes_of_the_taxonomy_are_there() -> None:
    assert len(causes()) == TAXONOMY


@pytest.mark.parametrize("verb", ["why", "check"])
def test_the_tour_of_the_readme_is_real_output(verb: str) -> None:
    readme = (ROOT / "README.md").read_text("utf-8")
    match = re.search(rf"\$ crashcart ({verb} examples/\S+)\n(.*?)```", readme, re.DOTALL)
    assert match
    done = subprocess.run(
        [sys.executable, "-m", "crashcart", *match[1].split()], capture_output=True, text=True, check=False, cwd=ROOT
    )
    assert done.returncode == (verb == "check")
    assert done.stdout.strip() == match[2].strip()
