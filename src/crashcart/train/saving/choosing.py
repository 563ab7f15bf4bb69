"""The checkpoint to go on from: the newest that is whole, and a word on each newer one that is not."""

from __future__ import annotations

import logging
import os
from typing import TYPE_CHECKING

from crashcart import checkpoints

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["choose", "newest_valid"]

_LOG = logging.getLogger("crashcart.train")


def newest_valid(folder: str | os.PathLike[str]) -> Path | None:
    """The newest checkpoint below a folder that is whole, by structure and checksums, of any framework; None if there is none.

    Newer ones that are damaged or unfinished are named in a warning of the logger ``crashcart.train``, each with the reason.
    """
    found, left_out = choose(folder)
    for one in left_out:
        _LOG.warning("%s is left out: %s", one.path, one.reasons[0] if one.reasons else one.verdict)
    return found.path if found else None


def choose(folder: str | os.PathLike[str]) -> tuple[checkpoints.Checkpoint | None, list[checkpoints.Checkpoint]]:
    """The checkpoint, and the newer ones that were left out; all of them where none is whole."""
    left_out: list[checkpoints.Checkpoint] = []
    if not os.path.isdir(folder):
        return None, left_out
    for candidate in checkpoints.find(folder, deep=False):
        checked = checkpoints.inspect(candidate.path) if candidate.verdict == "whole" else candidate
        if checked.verdict == "whole":
            return checked, left_out
        left_out.append(checked)
    return None, left_out
