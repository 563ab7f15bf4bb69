"""Which logs of a run are read, and in which order.

Where ranks have files of their own those are read, with what the launcher said: there no two ranks speak in one line, and each
line has its rank. The joint log holds the same lines again and is left to people. Files stand in the order of their last words,
so that who fell silent first comes first, and what a launcher says about it comes last.
"""

from __future__ import annotations

import contextlib
import os
import stat
from typing import TYPE_CHECKING

from crashcart.recording.files import listed

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["by_last_word", "logs_of_run"]

_LAUNCHER = "launcher.log"


def logs_of_run(folder: str, told: Sequence[object] = ()) -> list[str]:
    """The logs in ``folder`` that are not empty; ``told`` is their order as the end of the run has it."""
    names = by_last_word(folder)
    known = {name: place for place, name in enumerate(told) if isinstance(name, str)}
    names.sort(key=lambda name: known.get(name, len(known)))
    return [os.path.join(folder, name) for name in names]


def by_last_word(folder: str) -> list[str]:
    """Names of the logs that are to be read, who fell silent first before the others."""
    found: list[tuple[float, str]] = []
    for name in listed(os.path.dirname(folder) or ".", os.path.basename(folder)):
        with contextlib.suppress(OSError):
            about = os.lstat(os.path.join(folder, name))
            if stat.S_ISREG(about.st_mode) and about.st_size:
                found.append((about.st_mtime, name))
    ranks = [one for one in found if one[1].startswith("rank") and one[1].endswith(".log")]
    launched = os.path.lexists(os.path.join(folder, _LAUNCHER))  # made before the first of them
    if ranks and launched:
        return [name for _, name in sorted([*ranks, *(one for one in found if one[1] == _LAUNCHER)])]
    return sorted(name for _, name in found if name != _LAUNCHER)
