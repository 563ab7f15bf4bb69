"""``crashcart runs``: what was recorded, newest first, with how it ended and why."""

from __future__ import annotations

import os
import platform
import sys
import time
from textwrap import wrap
from typing import TYPE_CHECKING, Any

from crashcart.escapes import one_line
from crashcart.readers.outcomes import outcomes_of
from crashcart.recording.folder import roots, runs
from crashcart.redact import clean, clean_all
from crashcart.regular_files import walk
from crashcart.report.data import SCHEMA, json_text

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

__all__ = ["run"]

_WIDE = 80
_LONG_NAME = 32
_MEASURED = 2.0  # seconds that sizes may take: a day's recording is a thousand files, perhaps on a file server


def run(options: argparse.Namespace) -> int:
    """List the runs."""
    deadline = time.monotonic() + _MEASURED
    rows = clean_all([{**row, "bytes": _size(row["path"], deadline)} for row in outcomes_of(runs())])
    if options.json:
        sys.stdout.write(json_text({"schema": SCHEMA, "runs": rows}))
    elif not rows:
        looked = f"No runs in {' or '.join(one_line(clean(root)) for root in roots())}. `crashcart run -- CMD` records one."
        print(looked)  # noqa: T201 - the answer
    else:
        for line in _lines(rows):
            print(one_line(line))  # noqa: T201 - the answer
    return 0


def _lines(rows: list[dict[str, Any]]) -> Iterator[str]:
    """One line for a run; what makes it too wide stands on a line of its own: a long name, or the cause and where it ran."""
    cells = [(row["outcome"], row["took"], _bytes(row["bytes"])) for row in rows]
    outcome, took, size = (max(len(row[column]) for row in cells) for column in range(3))
    width = max((len(row["run"]) for row in rows if len(row["run"]) <= _LONG_NAME), default=_LONG_NAME // 4)
    for row, (how, long, large) in zip(rows, cells, strict=True):
        name = str(row["run"])
        if len(name) > width:
            yield name
            name = ""
        line = f"{name:{width}}  {how:{outcome}}  {long:>{took}}  {large:>{size}}"
        rest = "  ".join(part for part in (row["cause"], _stage(row), _where(row)) if part)
        if len(line) + 2 + len(rest) <= _WIDE:
            yield f"{line}  {rest}".rstrip()
        else:
            yield line
            yield f"{'':{width}}  {rest}"
        if row["damaged"]:
            yield from wrap(
                f"Damaged and not used: {', '.join(row['damaged'])}.",
                _WIDE,
                initial_indent="  ",
                subsequent_indent="  ",
            )


def _stage(row: dict[str, Any]) -> str:
    """Which program of several decided how the run ended."""
    decided = next((stage for stage in row["stages"] if stage["decided"]), None)
    if decided is None or row["state"] in {"finished", "running"}:
        return ""
    place = row["stages"].index(decided) + 1
    return f"in {decided['program']} (stage {place} of {len(row['stages'])})"


def _where(row: dict[str, Any]) -> str:
    """Where it ran, if not here alone."""
    if row.get("nodes"):
        return f"on {row['nodes']} nodes" if row["nodes"] > 1 else f"on node {row['host']}"
    return f"on {row['host']}"[:_LONG_NAME] if row["host"] not in {None, platform.node()} else ""


def _size(path: str, deadline: float) -> int | None:
    """What the run takes on the disk; None where counting would take too long."""
    total = 0
    problems: list[tuple[str, str]] = []
    for folder, _, names in walk(path, problems, seconds=deadline - time.monotonic()):
        for name in names:
            try:
                total += os.lstat(os.path.join(folder, name)).st_blocks * 512
            except OSError:  # noqa: PERF203 - it was removed while we looked
                continue
    return total if not problems else None


def _bytes(size: int | None) -> str:
    if size is None:
        return ""
    number, units = size / 1e3, ["GB", "MB", "kB"]
    while number >= 1000 and len(units) > 1:  # noqa: PLR2004
        number, _ = number / 1000, units.pop()
    return f"{number:.1f} {units[-1]}" if number < 10 and units[-1] != "kB" else f"{number:.0f} {units[-1]}"  # noqa: PLR2004
