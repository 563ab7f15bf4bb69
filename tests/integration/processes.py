"""The processes below a process."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path


def tree_of(pid: int) -> list[int]:
    """A process and everything below it, the first one first."""
    parents = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            with contextlib.suppress(OSError):
                parents[int(name)] = int(Path(f"/proc/{name}/stat").read_text().rpartition(")")[2].split()[1])
    found = [pid]
    for one in found:
        found.extend(child for child, parent in parents.items() if parent == one)
    return found
