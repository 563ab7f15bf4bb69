"""Asks git about a repository that somebody else may have set up: nothing that its settings name is started.

A `.git/config` can name programs (a file-system monitor, a remote that is fetched from when an object is missing) and its files can
be pipes, at which git waits for ever.
"""

from __future__ import annotations

import os

__all__ = ["SECONDS", "command", "environment"]

SECONDS = 4.0


def command(*words: str) -> list[str]:
    """A git command that asks no file-system monitor and runs no hook."""
    return ["git", "-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null", *words]


def environment() -> dict[str, str]:
    """The variables for it: no fetching, no question, no lock."""
    quiet = {"GIT_NO_LAZY_FETCH": "1", "GIT_ALLOW_PROTOCOL": "", "GIT_TERMINAL_PROMPT": "0", "GIT_OPTIONAL_LOCKS": "0"}
    return {**os.environ, **quiet}
