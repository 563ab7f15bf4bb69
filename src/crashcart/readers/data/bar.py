"""A bar on a terminal, for a look at data that takes longer than a moment."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

__all__ = ["Bar"]

_AFTER = 1.0


class Bar:
    """Draws nothing where standard error is no terminal, and nothing within the first second."""

    def __init__(self) -> None:
        self._begun: float | None = None
        self._drawn: Progress | None = None
        self._task: TaskID | None = None

    def __call__(self, path: str, done: int, total: int) -> None:
        """So many files of a path are looked at."""
        if not sys.stderr.isatty():
            return
        self._begun = self._begun or time.monotonic()
        if self._drawn is None and time.monotonic() - self._begun > _AFTER and done < total:
            from rich.console import Console
            from rich.progress import Progress

            self._drawn = Progress(console=Console(stderr=True), transient=True)
            self._drawn.start()
            self._task = self._drawn.add_task("looking at data", total=total)
        if self._drawn is not None and self._task is not None:
            self._drawn.update(self._task, completed=done, total=total, description=f"looking at {path[-40:]}")

    def close(self) -> None:
        """Take it off the screen."""
        if self._drawn is not None:
            self._drawn.stop()
        self._begun = self._drawn = self._task = None
