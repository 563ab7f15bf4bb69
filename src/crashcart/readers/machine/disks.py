"""Room and kind of the file systems that a training writes to: where we stand, TMPDIR, the home folder, the Hugging Face cache.

A folder that does not exist yet stands on the file system of the nearest one above it. A file server that does not answer is
told as that.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from crashcart.readers.machine.reading import Reading, amount, text_of, unknown, within

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

__all__ = ["existing", "file_system", "look", "mounted"]

GROUP = "disk"
_PATIENCE = 3.0
_NETWORK = ("nfs", "cifs", "smb", "lustre", "beegfs", "gpfs", "ceph", "glusterfs", "fuse", "9p", "afs", "wekafs")


def look(environment: Mapping[str, str], root: str = "") -> Iterator[Reading]:
    """One line for each file system, under the first name that leads to it."""
    mounts = text_of(f"{root}/proc/self/mountinfo", 1 << 22) or ""
    shared: dict[tuple[str, str], list[tuple[str, str]]] = {}
    for label, folder in _places(environment):
        place = existing(folder)
        shared.setdefault(file_system(place, mounts), []).append((label, place))
    for (kind, _), places in shared.items():
        yield _room(*places[0], kind, [label for label, _ in places[1:]])


def file_system(path: str, mounts: str) -> tuple[str, str]:
    """Kind and mount point of the file system that holds a path; empty where it is not told."""
    return mounted(path, mounts)[:2]


def mounted(path: str, mounts: str) -> tuple[str, str, str]:
    """Kind, mount point, and what is mounted there."""
    real = os.path.realpath(path)
    best = ("", "", "")
    for line in mounts.splitlines():
        words, _, rest = line.partition(" - ")
        if not rest or len(words.split()) < 5:  # noqa: PLR2004 - the fifth word is the place
            continue
        point = words.split()[4].replace("\\040", " ")
        inside = real == point or real.startswith(point.rstrip("/") + "/")
        if inside and len(point) >= len(best[1]):
            kind, source, *_ = [*rest.split(), "", ""]
            best = kind, point, source
    return best


def _places(environment: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    try:
        yield "this folder", os.getcwd()
    except OSError:
        yield "this folder", "."
    yield "temporary files", environment.get("TMPDIR") or "/tmp"  # noqa: S108 - where others put theirs
    home = environment.get("HOME") or os.path.expanduser("~")
    yield "home", home
    cache = environment.get("XDG_CACHE_HOME") or os.path.join(home, ".cache")
    yield "Hugging Face cache", environment.get("HF_HOME") or os.path.join(cache, "huggingface")


def existing(folder: str) -> str:
    """The folder, or the nearest above it that is there."""
    at = os.path.abspath(folder)
    while not os.path.isdir(at) and os.path.dirname(at) != at:
        at = os.path.dirname(at)
    return at


def _room(label: str, place: str, kind: str, others: list[str]) -> Reading:
    def ask() -> os.statvfs_result | str:
        try:
            return os.statvfs(place)
        except OSError as error:
            return error.strerror or "not readable"

    late: os.statvfs_result | str = f"its file server did not respond within {_PATIENCE:.0f} s"
    found = within(_PATIENCE, ask, late)
    if isinstance(found, str):
        return unknown((GROUP, "disk", label), found, place)
    free, total = found.f_bavail * found.f_frsize, found.f_blocks * found.f_frsize
    inodes = found.f_favail if found.f_files else None  # some file systems do not count them
    network = kind.startswith(_NETWORK)
    says = f"{amount(free)} free of {amount(total)}"
    says += f", {inodes} inodes free" if inodes is not None else ""
    says += f", {kind}{', over the network' if network and not kind.startswith('fuse') else ''}" if kind else ""
    says += f"; also {', '.join(others)}" if others else ""
    value = {
        "folder": place,
        "free": free,
        "total": total,
        "inodes": inodes,
        "kind": kind,
        "network": network,
        "writable": os.access(place, os.W_OK),
    }
    return Reading(GROUP, "disk", label, says, place, value)
