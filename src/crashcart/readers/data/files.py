"""The data files below a path, by what they are; bounded, since a data set can hold millions."""

from __future__ import annotations

import os
import stat
import time
from itertools import islice

from crashcart.record import field, record

__all__ = ["KINDS", "Listed", "listed"]

KINDS = {
    ".h5": "hdf5", ".hdf5": "hdf5", ".he5": "hdf5", ".npy": "array", ".npz": "arrays", ".parquet": "parquet", ".jpg": "image",
    ".jpeg": "image", ".png": "image", ".bmp": "image", ".webp": "image", ".tif": "image", ".tiff": "image", ".jsonl": "lines",
    ".csv": "lines", ".tsv": "lines", ".pt": "other", ".pth": "other", ".pkl": "other", ".tar": "other", ".tfrecord": "other",
    ".arrow": "other", ".bin": "other", ".mp4": "other", ".wav": "other", ".flac": "other", ".zip": "other", ".json": "other",
}  # fmt: skip
_MOST = 200_000
_SKIPPED = {"__pycache__", "node_modules", "wandb", "site-packages"}


@record
class Listed:
    """Files by kind with their sizes; ``folders`` are the folders right below, ``complete`` says that nothing was left out."""

    kinds: dict[str, list[tuple[str, int]]] = field(default_factory=dict)
    folders: list[str] = field(default_factory=list)
    others: int = 0
    complete: bool = True

    @property
    def files(self) -> list[tuple[str, str, int]]:
        """Kind, path and size of every data file."""
        return [(kind, path, size) for kind, found in self.kinds.items() for path, size in found]


def listed(path: str, seconds: float) -> Listed:
    """What lies below a path; a file is its own list."""
    found = Listed()
    if not os.path.isdir(path):
        if stat.S_ISREG(os.stat(path).st_mode):
            _take(found, path, os.path.getsize(path), named=True)
        return found
    until, count = time.monotonic() + seconds, 0
    waiting = [path]
    while waiting:
        folder = waiting.pop()
        try:
            with os.scandir(folder) as inner:
                entries = sorted(islice(inner, _MOST), key=lambda entry: entry.name)
        except OSError:
            found.complete = False
            continue
        if any(entry.name == "data.mdb" for entry in entries):
            found.kinds.setdefault("lmdb", []).append(
                (folder, sum(entry.stat().st_size for entry in entries if entry.is_file()))
            )
            continue
        for entry in entries:
            count += 1
            if entry.is_dir(follow_symlinks=False):
                waiting += [] if entry.name.startswith(".") or entry.name in _SKIPPED else [entry.path]
                found.folders += [entry.name] if folder == path and not entry.name.startswith(".") else []
            elif entry.is_file():
                _take(found, entry.path, entry.stat().st_size)
        if count > _MOST or time.monotonic() > until:
            found.complete = found.complete and not waiting
            break
    return found


def _take(found: Listed, path: str, size: int, *, named: bool = False) -> None:
    kind = KINDS.get(os.path.splitext(path)[1].lower()) or ("lmdb" if path.endswith((".lmdb", ".mdb")) else None)
    if kind is None or os.path.basename(path).startswith("."):
        found.others += 1
        kind = "other" if named else None
    if kind is not None:
        found.kinds.setdefault(kind, []).append((path, size))
