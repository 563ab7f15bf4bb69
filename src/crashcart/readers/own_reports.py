"""Files of its own into which a program wrote why it ends, before it left with a bad exit code and no word of it on its output.

    except Exception:
        with open("runs/bc_a/crash.txt", "w") as file:
            traceback.print_exc(file=file)
        sys.exit(1)

Looked for in the job's folder: small text files that were written in the last moments of the run and hold a traceback.
"""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

from crashcart.regular_files import read_end, walk

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.flight import Flight

__all__ = ["own_reports"]

_BEFORE_SECONDS, _AFTER_SECONDS = 20.0, 5.0
_MOST_BYTES, _END_BYTES = 4 << 20, 1 << 16
_MOST_ENTRIES, _DEEPEST, _PROCESSOR_SECONDS = 5000, 6, 0.2
_MOST_REPORTS = 3
_LEFT_OUT = frozenset({"crashcart_runs", "node_modules", "__pycache__", "site-packages", "wandb"})
_TRACEBACK = b"Traceback (most recent call last)"


def own_reports(flight: Flight) -> list[str]:
    """The files with a traceback that the job wrote at its end; none where an exception was recorded, or it ended well."""
    folder, ended = str(flight.facts.get("folder") or ""), flight.ending.get("time")
    is_told = any(event.details.get("thread") == "MainThread" for event in flight.of_kind("exception"))
    if is_told or not flight.ending.get("code") or not isinstance(ended, (int, float)) or not os.path.isdir(folder):
        return []
    reports = []
    for path in _written_between(folder, ended - _BEFORE_SECONDS, ended + _AFTER_SECONDS):
        try:
            text = read_end(path, _END_BYTES)[0]
        except OSError:
            continue
        if _TRACEBACK in text:
            reports.append(path)
            if len(reports) == _MOST_REPORTS:
                break
    return reports


def _written_between(folder: str, first: float, last: float) -> Iterator[str]:
    for place, folders, files in walk(
        folder, most=_MOST_ENTRIES, deepest=_DEEPEST, seconds=2.0, processor_seconds=_PROCESSOR_SECONDS
    ):
        folders[:] = [name for name in folders if not name.startswith(".") and name not in _LEFT_OUT]
        for name in files:
            path = os.path.join(place, name)
            try:
                about = os.lstat(path)
            except OSError:
                continue
            if stat.S_ISREG(about.st_mode) and first <= about.st_mtime <= last and 0 < about.st_size <= _MOST_BYTES:
                yield path
