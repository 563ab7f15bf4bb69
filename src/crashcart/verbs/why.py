"""`crashcart why`: from whatever is left of a run to the cause."""

from __future__ import annotations

from typing import TYPE_CHECKING

from crashcart.case import Case
from crashcart.engine import examine
from crashcart.model import Diagnosis, NotLooked
from crashcart.readers.logs import read_logs

if TYPE_CHECKING:
    from collections.abc import Sequence


def why(
    paths: Sequence[str],
    *,
    command: str | None = None,
    configs: Sequence[str] = (),
    scripts: Sequence[str] = (),
    exit_code: int | None = None,
    kernel_log: str | None = None,
    look_around: bool = False,
) -> Diagnosis:
    """The diagnosis of the run that left these files."""
    notes: list[str] = []
    log = read_logs(paths, notes=notes)
    case = Case(log=log)
    case.not_looked += [NotLooked(note, "", "") for note in notes]
    return examine(case, subject=" ".join(paths))
