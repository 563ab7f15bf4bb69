"""Patches carried out, where the user asked for it: the diff is shown first, and a file that changed meanwhile is left alone."""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
from typing import TYPE_CHECKING

from crashcart.escapes import one_line
from crashcart.model import HARMLESS
from crashcart.patch import apply, difference
from crashcart.readers.encoding import encoding_of_file
from crashcart.readers.job.shell import text_of
from crashcart.record import field, record
from crashcart.redact import hide

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from crashcart.model import Edit, Finding

__all__ = ["Repair", "repairs", "show_and_write", "write"]


@record
class Repair:
    """All edits that fit together, the diff they make, and the files as they were when it was made."""

    edits: list[Edit] = field(default_factory=list)
    titles: list[str] = field(default_factory=list)
    diff: str = ""
    before: dict[str, str] = field(default_factory=dict)


def repairs(findings: Iterable[Finding], safeties: frozenset[str]) -> Repair:
    """The first patch of each finding that is as safe as asked; of two that touch the same place the first counts."""
    repair = Repair()
    for finding in findings:
        fix = next((fix for fix in finding.fixes if fix.edits and fix.safety in safeties), None)
        if fix is None or finding.level == "note":
            continue
        fresh = [edit for edit in fix.edits if edit not in repair.edits]
        if fresh and not any(_overlap(edit, other) for edit in fresh for other in repair.edits):
            repair.edits += fresh
            repair.titles.append(f"{fix.title} ({finding.cause})")
    repair.diff = difference(repair.edits) if repair.edits else ""
    repair.before = {path: text_of(path) for path in {edit.span.file for edit in repair.edits}}
    return repair


def show_and_write(findings: Sequence[Finding], *, everything: bool, says_nothing: bool = False) -> bool:
    """Show the diff, then carry it out; what we say goes to standard error, so that JSON stays alone.

    ``everything`` also takes the patches that change the training; ``says_nothing`` is for a second round.
    """
    repair = repairs(findings, HARMLESS | {"changes-training"} if everything else HARMLESS)
    if not repair.edits:
        if not says_nothing:
            more = not everything and repairs(findings, frozenset({"changes-training"})).edits
            reason = (
                "the only patches change the training; --fix-all applies them"
                if more
                else "no patch can be applied automatically"
            )
            sys.stderr.write(f"crashcart: {reason}.\n")
        return False
    sys.stderr.write(hide(repair.diff))
    done, left = write(repair)
    for title in repair.titles:
        sys.stderr.write(f"crashcart: {title}\n")
    for path in left:
        sys.stderr.write(f"crashcart: {one_line(os.path.normpath(path))} has changed since it was read; left unchanged.\n")
    sys.stderr.write(f"crashcart: wrote {', '.join(one_line(os.path.normpath(path)) for path in done) or 'nothing'}.\n\n")
    return bool(done)


def write(repair: Repair) -> tuple[list[str], list[str]]:
    """Carry it out; the files that were changed, and those that had changed since the diff was shown."""
    done: list[str] = []
    left: list[str] = []
    for path, new in apply(repair.edits).items():
        if text_of(path) != repair.before[path]:
            left.append(path)
            continue
        _replace(path, new)
        done.append(path)
    return done, left


def _replace(path: str, text: str) -> None:
    """Write beside it, then put it in its place: no moment without the file."""
    real = os.path.realpath(path)
    handle, beside = tempfile.mkstemp(dir=os.path.dirname(real), prefix=".crashcart-")
    try:
        with os.fdopen(handle, "w", encoding=encoding_of_file(real), errors="surrogateescape", newline="") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(beside, os.stat(real).st_mode & 0o7777)
        os.replace(beside, real)
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(beside)
        raise


def _overlap(one: Edit, other: Edit) -> bool:
    a, b = one.span, other.span
    return a.file == b.file and ((a.start < b.end and b.start < a.end) or a.start == b.start)
