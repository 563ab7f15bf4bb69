"""What lies in one folder, read once, so that the rules about folders need not touch the disk."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from crashcart.checkpoints.model import DamageError, Look
from crashcart.checkpoints.spans import opened
from crashcart.checkpoints.steps import named_count, named_step

if TYPE_CHECKING:
    from pathlib import Path

Looks = Mapping[str, Look]
MAX_ENTRIES: Final = 50_000
_POINTER_BYTES: Final = 256


@dataclass(frozen=True)
class Listing:
    """The files of a folder with their sizes, and its subfolders."""

    folder: Path
    files: Mapping[str, int]
    folders: frozenset[str]

    @property
    def step(self) -> int | None:
        """The step in the folder's name."""
        return named_step(self.folder.name)

    @property
    def count(self) -> int | None:
        """The step in the folder's name, else its epoch."""
        return named_count(self.folder.name)

    def matching(self, suffix: str) -> list[str]:
        """List the files that end in this."""
        return sorted(name for name in self.files if name.endswith(suffix))


def list_folder(folder: Path) -> Listing:
    """List a folder; links are followed, a link to nothing counts as an empty file."""
    files: dict[str, int] = {}
    folders: set[str] = set()
    with os.scandir(folder) as entries:
        for entry, _ in zip(entries, range(MAX_ENTRIES), strict=False):
            if _is_folder(entry):
                folders.add(entry.name)
            else:
                files[entry.name] = _size(entry)
    return Listing(folder, files, frozenset(folders))


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:
        return False


def _size(entry: os.DirEntry[str]) -> int:
    try:
        return entry.stat().st_size
    except OSError:
        return 0


def pointer_in(folder: Path, name: str) -> str | None:
    """Read the one line of a file such as `latest`; None where it is not there."""
    try:
        with opened(folder / name) as span:
            text = span.at(0, min(span.size, _POINTER_BYTES))
    except (OSError, DamageError):
        return None
    return text.decode("utf-8", "replace").strip("\0 \t\r\n")
