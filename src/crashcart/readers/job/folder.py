"""The folder in which a script starts its program: ``cd code``, ``cd "$(dirname "$0")/.."``."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from crashcart.readers.job.evaluation import Command

__all__ = ["HERE", "folder_of"]

# $(dirname "$0"), with or without a cd and pwd round it: the folder of the script itself.
HERE = re.compile(
    r"\$\(\s*(?:cd\s+[\"']?\$\(\s*)?dirname\s+(?:--\s+)?[\"']?\$(?:0|\{0\}|\{BASH_SOURCE(?:\[0\])?\})[\"']?\s*\)"
    r"(?:[\"']?\s*(?:&&|;)\s*pwd(?:\s+-P)?\s*\))?"
)
# The folder from which a batch job is handed in: where this is asked, mostly.
HANDED_IN = re.compile(r"^\$\{?(?:SLURM_SUBMIT_DIR|PBS_O_WORKDIR)\}?(?=/|$)")


def folder_of(file: str, before: Sequence[Command]) -> tuple[str, bool]:
    """The folder into which a script goes by the commands before one, empty where it stays; and whether that can be told."""
    at, told, own = "", True, os.path.dirname(file) or "."
    for command in before if file else ():
        if [word.text for word in command.words[:-1]] in (["cd"], ["pushd"]):
            word = command.words[-1]
            text = HANDED_IN.sub(".", HERE.sub(own, word.text))
            told = told and (word.known or (text != word.text and "$" not in text))
            at = os.path.join(at, text) if told else at
    return os.path.normpath(at) if at else "", told
