"""Pieces of checkpoints, made by hand: for the tests of files and of folders."""

from __future__ import annotations

import io
import json
import os
import random
import struct
import zipfile
from pathlib import Path

from crashcart.checkpoints.listing import Listing


class Hostile:
    """Unpickling it would create a file."""

    def __init__(self, marker: Path) -> None:
        """Keep the file that must never appear."""
        self.marker = marker

    def __reduce__(self) -> tuple[object, tuple[str]]:
        """Say what unpickling should run."""
        return os.system, (f"touch {self.marker}",)


def safetensors_bytes(tensors: dict[str, tuple[list[int], bytes]], dtype: str = "F32") -> bytes:
    header, data = {}, b""
    for name, (shape, raw) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def noise(count: int, seed: int = 0) -> bytes:
    """Bytes of which none is zero, and which are no NaN as numbers of any kind."""
    chooser = random.Random(seed)
    return bytes(chooser.randrange(1, 256) & 0xBF | 1 for _ in range(count))


def file_with(folder: Path, name: str, content: bytes) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def listing(name: str, files: list[str], folders: list[str] | None = None) -> Listing:
    return Listing(Path("nowhere") / name, dict.fromkeys(files, 1), frozenset(folders or []))


def model(values: int = 300, seed: int = 0) -> bytes:
    return safetensors_bytes({"weight": ([values], noise(values * 4, seed))})


def zipped(members: dict[str, bytes]) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return stream.getvalue()
