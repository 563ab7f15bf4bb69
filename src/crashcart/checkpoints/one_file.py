"""One file: told by what stands in it, not by its name, and checked by the reader for its format.

The suffix decides only where the content leaves it open: `.bin`, `.pt` and `.ckpt` may all be either torch format.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from crashcart.checkpoints.model import DamageError, Kind, Look, Problem
from crashcart.checkpoints.placeholders import placeholder
from crashcart.checkpoints.safetensors import look_at_safetensors
from crashcart.checkpoints.spans import Budget, Span, opened
from crashcart.checkpoints.torch_legacy import look_at_pickle
from crashcart.checkpoints.torch_zip import look_at_zip
from crashcart.checkpoints.zip_ends import has_end_record
from crashcart.errors import our_errors

if TYPE_CHECKING:
    from pathlib import Path

SUFFIXES: Final = frozenset({".pt", ".pth", ".bin", ".ckpt", ".safetensors", ".pkl", ".pickle", ".tar"})
_PICKLE_PROTOCOLS: Final = frozenset(bytes((0x80, number)) for number in range(2, 6))
_TAR: Final = slice(257, 262)


def look_at_file(path: Path, budget: Budget) -> Look:
    """Check one file; whatever is wrong with it becomes a problem, never an exception."""
    problems: list[str] = []
    with our_errors(path.name, lambda _, why, how: problems.append(f"{why} ({how})")):
        return _look_at_readable(path, budget)
    return Look("unknown", tuple(Problem("unknown", says) for says in problems))


def _look_at_readable(path: Path, budget: Budget) -> Look:
    try:
        with opened(path) as span:
            return _look(span, path.suffix.lower(), budget)
    except FileNotFoundError:
        says = "a link to a file that is not there" if path.is_symlink() else "the file is not there"
        return Look("unknown", (Problem("broken", says),))
    except OSError as error:
        return Look("unknown", (Problem("unknown", f"could not be read: {error.strerror or error}"),))


def _look(span: Span, suffix: str, budget: Budget) -> Look:
    instead = placeholder(span)
    if instead:
        return Look("placeholder", (instead,))
    head = span.at(0, min(512, span.size))
    kind = _kind(span, head, suffix)
    try:
        if kind == "torch-zip":
            return look_at_zip(span, budget)
        if kind == "safetensors":
            return look_at_safetensors(span)
        if kind == "pickle":
            return look_at_pickle(span, plain_is_fine=suffix in {".pkl", ".pickle"})
    except DamageError as damage:
        return Look(kind, (damage.problem,))
    return Look("unknown", (Problem("unknown", _unknown(head)),))


def _kind(span: Span, head: bytes, suffix: str) -> Kind:
    if suffix == ".safetensors":
        return "safetensors"
    if head.startswith(b"PK\3\4") or has_end_record(span):
        return "torch-zip"
    if head[:2] in _PICKLE_PROTOCOLS:
        return "pickle"
    return "safetensors" if head[7:9] == b"\0{" else "unknown"


def _unknown(head: bytes) -> str:
    if head[_TAR] == b"ustar":
        return "unknown format: a tar archive, perhaps of torch 0.1"
    return f"unknown format: it begins with {head[:8].hex(' ')}"
