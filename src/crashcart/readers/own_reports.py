"""Files of its own into which a program wrote why it ends, and no word of it on its output.

    except Exception:
        with open("runs/bc_a/crash.txt", "w") as file:
            traceback.print_exc(file=file)
        sys.exit(1)

Another thread may have logged what went wrong there (``log.exception``), and the program then misses what that thread was to make, or
waits for it. Looked for in the job's folder: small text files that were written in the last moments of the run, or right before it
stood still, and end with a traceback.
"""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

from crashcart.regular_files import read_end, walk

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.flight import Event, Flight

__all__ = ["own_reports", "written_between"]

_BEFORE_SECONDS, _AFTER_SECONDS = 20.0, 5.0
_MOST_BYTES, _END_BYTES = 4 << 20, 1 << 16
_MOST_ENTRIES, _DEEPEST, _PROCESSOR_SECONDS = 5000, 6, 0.2
_MOST_REPORTS = 3
_LEFT_OUT = frozenset({"crashcart_runs", "node_modules", "__pycache__", "site-packages", "wandb"})
_TRACEBACK = b"Traceback (most recent call last)"


def own_reports(flight: Flight) -> list[str]:
    """The files with a traceback that the job wrote at its end; none where it ended well, or was ended from outside.

    Where an exception was recorded, only those that end with another one: a program that went on afterwards had got over it.
    """
    folder, ended = str(flight.facts.get("folder") or ""), flight.ending.get("time")
    stood = [event.details.get("since") for event in flight.of_kind("hang")][-1:]
    if not (flight.ending.get("code") or stood) or not isinstance(ended, (int, float)) or not os.path.isdir(folder):
        return []
    raised = [event for event in flight.of_kind("exception") if event.details.get("thread") == "MainThread"]
    began = min([ended, *(since for since in stood if isinstance(since, (int, float)))])
    reports = []
    for path in written_between(folder, began - _BEFORE_SECONDS, ended + _AFTER_SECONDS):
        try:
            text = read_end(path, _END_BYTES)[0]
        except OSError:
            continue
        is_another = not (raised or stood) or _is_last_word(text, raised)
        if _TRACEBACK in text and is_another:
            reports.append(path)
            if len(reports) == _MOST_REPORTS:
                break
    return reports


def _is_last_word(text: bytes, raised: list[Event]) -> bool:
    """Whether a file ends with a traceback of an exception that was not recorded."""
    _, found, last = text.decode("utf-8", "replace").rpartition(_TRACEBACK.decode())
    said = [line for line in last.splitlines()[1:] if line.strip() and not line.startswith((" ", "\t"))]
    if not found or len(said) != 1:
        return False
    return not any(str(event.details.get("type", "")).rpartition(".")[2] in said[0] for event in raised)


def written_between(folder: str, first: float, last: float) -> Iterator[str]:
    """The files below a folder that are not empty, not large, and were last written between two moments."""
    for place, folders, files in walk(
        folder, most=_MOST_ENTRIES, deepest=_DEEPEST, seconds=2.0, processor_seconds=_PROCESSOR_SECONDS
    ):
        folders[:] = [name for name in folders if not name.startswith(".") and name not in _LEFT_OUT]
        if "run.json" in files and "recording" in folders:  # a run of ours: what it says of a death is no witness of it
            folders.clear()
            continue
        for name in files:
            path = os.path.join(place, name)
            try:
                about = os.lstat(path)
            except OSError:
                continue
            if stat.S_ISREG(about.st_mode) and first <= about.st_mtime <= last and 0 < about.st_size <= _MOST_BYTES:
                yield path
