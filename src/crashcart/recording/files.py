"""The files of a run folder: read as far as they are whole, written as a whole or not at all, and never through a link.

A run folder may be a copy, lie in a place where others can write, or belong to somebody else. The folder itself may be reached by
a link (``latest``, a ``crashcart_runs`` that is one); what lies inside is opened from the folder down, and a link in it is refused.
"""

from __future__ import annotations

import contextlib
import json
import os
from typing import TYPE_CHECKING, Any, BinaryIO

from crashcart.documents import load_json
from crashcart.regular_files import is_regular, is_there, names_in, open_regular, read_whole

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["NODES", "has_entry", "has_file", "linked_entries", "listed", "opened", "read_json", "top_of", "write_json"]

NODES = "nodes"
_LARGEST = 4 << 20
_HEAVIEST = 32 << 20  # in memory
_MOST_NAMES = 20_000
_MOST_TOLD = 100


def top_of(folder: str) -> str:
    """The folder below which links are not followed: the run's own, also where its part of one node is asked for."""
    above, name = os.path.split(folder.rstrip("/"))
    return os.path.dirname(above) or "." if name and os.path.basename(above) == NODES else folder


def opened(folder: str, *names: str) -> BinaryIO:
    """A file of a run; ``OSError`` where it is no regular file or lies behind a link."""
    return open_regular(os.path.join(folder, *names), no_links_below=top_of(folder))


def has_file(folder: str, *names: str) -> bool:
    """Whether a run has a file that can be opened."""
    return is_regular(os.path.join(folder, *names), no_links_below=top_of(folder))


def has_entry(folder: str, *names: str) -> bool:
    """Whether a run has anything of that name, also a link or a pipe that nobody opens."""
    return is_there(os.path.join(folder, *names), no_links_below=top_of(folder))


def listed(folder: str, *names: str) -> Sequence[str]:
    """The names in a folder of a run, sorted; none where there is no such folder or it lies behind a link."""
    return names_in(os.path.join(folder, *names), _MOST_NAMES, no_links_below=top_of(folder))


def linked_entries(folder: str) -> list[tuple[str, str]]:
    """The links at the top of a run folder and of its logs, which are not followed, each with a sentence about it."""
    names = [*listed(folder)[:_MOST_TOLD], *(os.path.join("logs", name) for name in listed(folder, "logs")[:_MOST_TOLD])]
    linked = [path for name in names if os.path.islink(path := os.path.join(folder, name))]
    return [(path, "it is a symbolic link, and links inside a run folder are not followed") for path in linked]


def read_json(path: str) -> dict[str, Any]:
    """A small file of ours; nothing where it is missing, damaged, or no plain file."""
    try:
        value = load_json(read_whole(path, _LARGEST, no_links_below=top_of(os.path.dirname(path))), most_bytes=_HEAVIEST)
    except (OSError, ValueError):
        return {}
    return value if isinstance(value, dict) else {}


def write_json(path: str, value: dict[str, Any]) -> None:
    """Replace a small file of ours as a whole, or leave it as it was: by way of a new file beside it that was nobody's."""
    folder, name = os.path.split(path)
    beside = f".{name}.{os.urandom(6).hex()}"
    with contextlib.suppress(OSError):
        at = os.open(folder or ".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            made = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600, dir_fd=at)
            try:
                with open(made, "w", encoding="utf-8") as file:
                    json.dump(value, file, indent=1, default=str)
                    file.write("\n")
                os.replace(beside, name, src_dir_fd=at, dst_dir_fd=at)
            except BaseException:
                os.unlink(beside, dir_fd=at)
                raise
        finally:
            os.close(at)
