"""``crashcart checkpoints``: which checkpoints are there, which are whole, and which one a resume would take."""

from __future__ import annotations

import os
import sys
from itertools import groupby
from textwrap import wrap
from typing import TYPE_CHECKING, Any

from crashcart.checkpoints import find, inspect
from crashcart.checkpoints.model import in_words
from crashcart.errors import CommandError
from crashcart.escapes import one_line
from crashcart.numbers import format_time
from crashcart.redact import clean, clean_all
from crashcart.report.data import SCHEMA, json_text

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from crashcart.checkpoints import Checkpoint

__all__ = ["run"]

_WIDE = 80
_NO_LIMIT = 1 << 62
_SEARCH_SECONDS = 3.0
_MOST_REASONS = 3
_UNREAD = "structure only"  # the last line says so of all
_NUMBERS = 3  # columns of the table that are numbers
_KINDS = {
    "torch-zip": "torch.save", "torch-legacy": "torch.save, old format", "torch-script": "TorchScript", "dcp": "torch.distributed",
    "trainer": "HF Trainer", "lightning": "Lightning", "deepspeed": "DeepSpeed", "megatron": "Megatron", "model": "model folder",
    "files": "own format", "placeholder": "not the data", "sharded": "sharded weights",
}  # fmt: skip


def run(options: argparse.Namespace) -> int:
    """List the checkpoints of some folders; 1 where there is none to go on from."""
    left_out: list[str] = []
    folders = options.paths or ["."]
    every = [checkpoint for folder in folders for checkpoint in _checkpoints(folder, left_out, is_full=options.full)]
    groups = {str(folder): list(group) for folder, group in groupby(sorted(every, key=_folder), _folder)}
    chosen = {
        folder: next((checkpoint for checkpoint in group if checkpoint.verdict == "whole"), None)
        for folder, group in groups.items()
    }
    if options.json:
        resume = {folder: str(checkpoint.path) for folder, checkpoint in chosen.items() if checkpoint is not None}
        rows = [_row(checkpoint) for group in groups.values() for checkpoint in group]
        data = {"schema": SCHEMA, "checkpoints": rows, "resume": resume, "not_searched": left_out}
        sys.stdout.write(json_text(clean_all(data)))
    else:
        for line in _lines(groups, chosen, left_out, folders, is_full=options.full):
            print(one_line(clean(line)))  # noqa: T201 - the answer
    return 0 if any(chosen.values()) else 1


def _checkpoints(folder: str, left_out: list[str], *, is_full: bool) -> list[Checkpoint]:
    if "\0" in folder or not os.path.exists(folder):
        raise CommandError(f"{folder}: there is no such file or folder.")
    if not os.path.isdir(folder):
        return [inspect(folder, deep=is_full, budget_bytes=_NO_LIMIT)]
    checkpoints = find(folder, deep=False, seconds=_SEARCH_SECONDS, left_out=left_out)
    if not checkpoints:
        alone = inspect(folder, deep=False)
        checkpoints = [alone] if alone.files else []
    return (
        [_fully(checkpoint, place, len(checkpoints)) for place, checkpoint in enumerate(checkpoints, 1)]
        if is_full
        else checkpoints
    )


def _fully(checkpoint: Checkpoint, place: int, count: int) -> Checkpoint:
    """The same one with its checksums compared; a terminal sees how far we are."""
    if checkpoint.verdict == "broken":
        return checkpoint
    shows = sys.stderr.isatty()
    if shows:
        print(f"\rreading {place} of {count} ({in_words(checkpoint.size_bytes)})\033[K", end="", file=sys.stderr, flush=True)  # noqa: T201
    read = inspect(checkpoint.path, budget_bytes=_NO_LIMIT)
    if shows:
        print("\r\033[K", end="", file=sys.stderr, flush=True)  # noqa: T201
    return read


def _folder(checkpoint: Checkpoint) -> Path:
    """Where the checkpoints of one run lie side by side."""
    return checkpoint.path.parent


def _row(checkpoint: Checkpoint) -> dict[str, Any]:
    return {
        "path": str(checkpoint.path),
        "kind": checkpoint.kind,
        "step": checkpoint.step,
        "epoch": checkpoint.epoch,
        "bytes": checkpoint.size_bytes,
        "saved": checkpoint.modified,
        "verdict": checkpoint.verdict,
        "reasons": list(checkpoint.reasons),
        "files": [
            {
                "path": str(part.path),
                "kind": part.kind,
                "bytes": part.size_bytes,
                "verdict": part.verdict,
                "reasons": list(part.reasons),
            }
            for part in checkpoint.files
        ],
    }


def _lines(
    groups: dict[str, list[Checkpoint]],
    chosen: dict[str, Checkpoint | None],
    left_out: Sequence[str],
    folders: Sequence[str],
    *,
    is_full: bool,
) -> Iterator[str]:
    """The answer first: what a resume would take; then each checkpoint, the newest first."""
    if not groups:
        yield f"No checkpoints in {' or '.join(folders)}."
    for folder, group in groups.items():
        checkpoint = chosen[folder]
        if checkpoint is None:
            yield (
                f"{folder}: none of {len(group)} can be resumed from."
                if len(group) > 1
                else f"{folder}: it cannot be resumed from."
            )
        else:
            yield f"{folder}: a resume would take {checkpoint.path.name}{_progress(checkpoint)}."
        yield from _table(group)
    if groups and not is_full:
        yield "Checked: the structure, and a sample of the values. --full also compares all checksums."
    for bound in left_out:
        yield f"Not everything was searched: {bound}."


def _progress(checkpoint: Checkpoint) -> str:
    told = [
        f"{what} {number}" for what, number in (("step", checkpoint.step), ("epoch", checkpoint.epoch)) if number is not None
    ]
    return f" ({', '.join(told)})" if told else ""


def _table(group: Sequence[Checkpoint]) -> Iterator[str]:
    cells = [_cells(checkpoint) for checkpoint in group]
    widths = [max(len(row[column]) for row in cells) for column in range(len(cells[0]))]
    for checkpoint, row in zip(group, cells, strict=True):
        numbers = [f"{cell:>{width}}" for cell, width in zip(row[:_NUMBERS], widths, strict=False)]
        words = [f"{cell:{width}}" for cell, width in zip(row[_NUMBERS:], widths[_NUMBERS:], strict=True)]
        yield "  ".join(["", *numbers, *words, checkpoint.path.name])
        if checkpoint.verdict != "whole":
            for reason in [reason for reason in checkpoint.reasons if not reason.startswith(_UNREAD)][:_MOST_REASONS]:
                yield from wrap(
                    reason[:1].upper() + reason[1:] + ".", _WIDE, initial_indent="      ", subsequent_indent="      "
                )


def _cells(checkpoint: Checkpoint) -> tuple[str, str, str, str, str]:
    kind = _KINDS.get(checkpoint.kind, checkpoint.kind)
    return _short_progress(checkpoint), _saved(checkpoint), in_words(checkpoint.size_bytes), kind, checkpoint.verdict


def _short_progress(checkpoint: Checkpoint) -> str:
    if checkpoint.step is not None:
        return str(checkpoint.step)
    return f"epoch {checkpoint.epoch}" if checkpoint.epoch is not None else "-"


def _saved(checkpoint: Checkpoint) -> str:
    return format_time(checkpoint.modified, "%Y-%m-%d %H:%M", utc=False)
