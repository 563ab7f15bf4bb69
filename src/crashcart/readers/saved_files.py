"""Files that a recorded run saved whole and that are shorter now: something cut them between the save and their use."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from crashcart.model import Evidence, Fact

if TYPE_CHECKING:
    from crashcart.flight import Flight

__all__ = ["CUT", "files_cut_short"]

CUT = "data.cut_short"
_CLOCK_SLACK = 2.0  # seconds: file systems round the time of a change
_MOST = 200


def files_cut_short(flight: Flight) -> list[Fact]:
    """``data.cut_short``: the file, its sizes then and now, and the save."""
    ended = flight.ending.get("time")
    saves = {str(event.details.get("path")): event for event in flight.of_kind("checkpoint")}
    found = []
    for path, event in [*saves.items()][-_MOST:]:
        saved = event.details.get("bytes")
        try:
            about = os.stat(path)
        except (OSError, ValueError):  # also a name that no file can have
            continue
        in_run = (
            event.time <= about.st_mtime + _CLOCK_SLACK
            and isinstance(ended, (int, float))
            and about.st_mtime <= ended + _CLOCK_SLACK
        )
        if isinstance(saved, (int, float)) and 0 < about.st_size < saved and in_run:
            value = {"path": path, "saved": saved, "now": about.st_size, "by": event}
            quote = f"{about.st_size} bytes; {saved:.0f} were saved"
            found.append(Fact(CUT, value, Evidence("checkpoint", quote, path), "data"))
    return found
