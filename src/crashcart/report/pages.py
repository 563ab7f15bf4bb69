"""The pages of the causes, made from their docstrings: for ``crashcart explain`` and for ``docs/causes``.

python -m crashcart.report.pages docs/causes
"""

from __future__ import annotations

import os
import re
import sys
import textwrap
from typing import TYPE_CHECKING

from crashcart.cause import Cause, causes

if TYPE_CHECKING:
    from crashcart.model import Fix

__all__ = ["markdown", "overview", "page"]

_HEADINGS = re.compile(r"^(What happens|Why|How it shows|What to do): ", re.MULTILINE)


def overview() -> str:
    """All causes, a line each, by family."""
    lines: list[str] = []
    family = ""
    for cause in causes():
        if cause.id.split("/")[0] != family:
            family = cause.id.split("/")[0]
            lines += ["", family] if lines else [family]
        lines.append(f"  {cause.id.split('/')[1]:22} {cause.title}")
    return "\n".join(lines) + "\n"


def page(cause: Cause) -> str:
    """The page of a cause for a terminal."""
    fixes = [textwrap.fill(f"  * {fix.title} ({fix.safety})", 80, subsequent_indent="    ") for fix in _fixes(cause)]
    parts = [f"{cause.id}: {cause.title}", "", *_paragraphs(cause.page)]
    if fixes:
        parts += ["", "Remedies:", *fixes]
    if cause.experiment:
        test = cause.experiment
        told = [f"How to confirm: {test.title}.", f"  confirmed if {test.confirms}", f"  refuted if {test.refutes}"]
        parts += ["", *(textwrap.fill(line, 80, subsequent_indent=" " * 13) for line in told)]
    return "\n".join(parts) + "\n"


def _paragraphs(text: str) -> list[str]:
    """Prose for 80 columns, code in single quotes; samples keep their lines."""
    shown = []
    for block in text.replace("``", "'").split("\n\n"):
        shown += ["", block if block.startswith(" ") else textwrap.fill(" ".join(block.split()), 80)]
    return shown[1:]


def markdown(cause: Cause) -> str:
    """The page of a cause for the documentation."""
    body = _HEADINGS.sub(lambda match: f"## {match[1]}\n\n", cause.page)
    body = re.sub(r"``([^`]+)``", r"`\1`", body)
    parts = [f"# {cause.title}", "", f"`{cause.id}`", "", body]
    if _fixes(cause):
        parts += ["", "## Fixes", ""]
        for fix in _fixes(cause):
            parts.append(f"- **{fix.title}** ({fix.safety})" + (f": {fix.why}" if fix.why else ""))
    if cause.experiment:
        test = cause.experiment
        parts += [
            "",
            "## How to confirm",
            "",
            f"{test.title}. Start from {test.start_from}; run until {test.stop_after}.",
            "",
        ]
        parts += [f"- confirmed if {test.confirms}", f"- refuted if {test.refutes}"]
    return "\n".join(parts) + "\n"


def _fixes(cause: Cause) -> tuple[Fix, ...]:
    from crashcart.case import Case

    return tuple(cause.fix(Case()))


def write_pages(folder: str) -> None:
    """Write a page for every cause, and an index."""
    index = ["# Causes", "", "Made from the docstrings of `src/crashcart/causes`.", ""]
    family = ""
    for cause in causes():
        own, name = cause.id.split("/")
        if own != family:
            family = own
            index += ["", f"## {family}", ""] if len(index) > 4 else [f"## {family}", ""]  # noqa: PLR2004 - past the title
        os.makedirs(os.path.join(folder, own), exist_ok=True)
        with open(os.path.join(folder, own, f"{name}.md"), "w", encoding="utf-8") as file:
            file.write(markdown(cause))
        index.append(f"- [{cause.title}]({cause.id}.md) `{cause.id}`")
    with open(os.path.join(folder, "README.md"), "w", encoding="utf-8") as file:
        file.write("\n".join(index) + "\n")


if __name__ == "__main__":
    write_pages(sys.argv[1])
