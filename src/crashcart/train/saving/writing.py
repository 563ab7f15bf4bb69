"""Checkpoints that are whole or not there: written beside, made to last, and given their name in one step.

``torch.save`` writes in place. A job that is killed, or a disk that fills up, in the middle of it leaves half a file under the
very name that the next start reads, and has destroyed the one before.
"""

from __future__ import annotations

import contextlib
import io
import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Any

from crashcart import checkpoints
from crashcart.train.saving import agreement, leftovers

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["atomic_folder", "save_atomic"]

_WAIT_SECONDS = 1800.0


def save_atomic(
    obj: object,
    path: str | os.PathLike[str],
    *,
    keep: int | None = None,
    every_rank: bool = False,
    save: Callable[[Any, Any], object] | None = None,
) -> Path:
    """``torch.save``, but the file under `path` is at every moment the old one or the new one, whole.

    Where there is a process group only its first rank writes, unless `every_rank` (each to a path of its own); nobody waits.
    `keep` removes older files whose names differ only in numbers, beyond that many that are whole. `save` is called as
    ``save(obj, file)`` instead of torch.save. Folders are made; a link is followed; the permissions of a file that was there stay.
    """
    target = os.path.realpath(path)
    _check_keep(keep)
    if agreement.rank() and not every_rank:
        return Path(target)
    folder = os.path.dirname(target)
    os.makedirs(folder, exist_ok=True)
    if os.path.isdir(target):
        raise IsADirectoryError(f"{path} is a folder; save_atomic writes a file: give it a name in that folder.")
    leftovers.clean(folder)
    descriptor, temporary = leftovers.reserve_file(target)
    try:
        with _Recorded(descriptor, "r+b") as file:
            _write(obj, file, save, target)
            with contextlib.suppress(FileNotFoundError):
                os.fchmod(descriptor, stat.S_IMODE(os.stat(target).st_mode))
            os.replace(temporary, target)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise
    leftovers.sync_folder(folder)
    _prune(target, keep)
    return Path(target)


class _Recorded(io.FileIO):
    """A file that remembers why it could not be written: torch replaces that by an error of its own."""

    problem: OSError | None = None

    def write(self, data: Any) -> int:  # noqa: ANN401 - any buffer
        view = memoryview(data).cast("B")
        done = 0
        try:
            while done < len(view):
                done += super().write(view[done:]) or 0
        except OSError as problem:
            self.problem = problem
            raise
        return done


def _write(obj: object, file: _Recorded, save: Callable[[Any, Any], object] | None, target: str) -> None:
    try:
        if save is None:
            import torch

            torch.save(obj, file)
        else:
            save(obj, file)
        os.fsync(file.fileno())
    except Exception as problem:
        reason = file.problem or (problem if isinstance(problem, OSError) else None)
        if reason is None:
            raise
        says = f"{reason.strerror}: the checkpoint could not be written, and what was there before is untouched"
        raise OSError(reason.errno, says, target) from problem


@contextlib.contextmanager
def atomic_folder(
    path: str | os.PathLike[str], *, keep: int | None = None, alone: bool = False, wait_seconds: float = _WAIT_SECONDS
) -> Iterator[Path]:
    """A folder to write into, which gets its name when the block is done, whole and on the disk.

        with atomic_folder("out/checkpoint-2000") as folder:
            accelerator.save_state(folder)          # or model.save_pretrained(folder), dcp.save(state, checkpoint_id=folder)

    Where there is a process group every rank enters, gets the same folder, and leaves when it has its name; with `alone` only the
    caller does. If any rank raises, there is no new folder on any, and what was there before stays.
    """
    target = os.path.realpath(path)
    _check_keep(keep)
    together = None if alone or agreement.world() == 1 else agreement.Word(f"atomic_folder {target}")
    if together is not None and agreement.rank():
        yield from _follow(together, target, wait_seconds)
        return
    folder = os.path.dirname(target)
    os.makedirs(folder, exist_ok=True)
    leftovers.clean(folder)
    descriptor, temporary = leftovers.reserve_folder(target)
    try:
        if together is not None:
            together.say("folder", temporary)
        yield Path(temporary)
        if together is not None:
            _wait_for_others(together, target, wait_seconds)
        leftovers.sync_tree(temporary)
        leftovers.publish_folder(temporary, target)
        leftovers.sync_folder(folder)
    except BaseException as problem:
        if together is not None:
            together.say("end", f"rank 0 raised {type(problem).__name__}: {problem}")
        if os.path.isdir(temporary):
            leftovers.remove(temporary)
        raise
    finally:
        os.close(descriptor)
    if together is not None:
        together.say("end", "")
    _prune(target, keep)


def _follow(together: agreement.Word, target: str, wait_seconds: float) -> Iterator[Path]:
    """What every rank but the first does."""
    me = agreement.rank()
    temporary = together.hear("folder", wait_seconds)
    if temporary is None:
        raise TimeoutError(
            f"Rank 0 did not come to save {target} within {wait_seconds:.0f} s; every rank must enter, or pass alone=True."
        )
    try:
        os.stat(temporary)  # fails where the machines do not share the folder
        yield Path(temporary)
    except BaseException as problem:
        together.say(f"done {me}", f"rank {me} raised {type(problem).__name__}: {problem}")
        end = together.hear("end", 0)
        if end and isinstance(problem, OSError):  # the first rank has given up, and its folder is gone
            raise RuntimeError(f"{target} was not saved: {end}.") from problem
        raise
    together.say(f"done {me}", "")
    end = together.hear("end", wait_seconds)
    if end is None or end:
        raise RuntimeError(f"{target} was not saved: {end or 'rank 0 did not finish it'}.")


def _wait_for_others(together: agreement.Word, target: str, wait_seconds: float) -> None:
    for other in range(1, agreement.world()):
        word = together.hear(f"done {other}", wait_seconds)
        if word is None:
            raise TimeoutError(
                f"Rank {other} did not come to save {target} within {wait_seconds:.0f} s; every rank must enter, or pass alone=True."
            )
        if word:
            raise RuntimeError(f"{target} was not saved: {word}.")


def _check_keep(keep: int | None) -> None:
    if keep is not None and keep < 1:
        raise ValueError(f"keep is 1 or more, not {keep}: the newest checkpoint is never removed.")


def _prune(target: str, keep: int | None) -> None:
    """Remove what is older than the `keep` newest that are whole; while there are fewer, nothing."""
    if keep is None:
        return
    folder, own = os.path.split(target)
    is_folder = os.path.isdir(target)
    like = [entry for entry in os.scandir(folder) if entry.name != own and leftovers.is_like(entry.name, own)]
    same = [entry for entry in like if not entry.is_symlink() and entry.is_dir() == is_folder]
    older = sorted(same, key=lambda entry: entry.stat().st_mtime_ns, reverse=True)
    whole = int(_is_whole(target))
    for entry in older:
        if whole >= keep:
            with contextlib.suppress(OSError):  # what cannot be removed must not stop a training
                leftovers.remove(entry.path)
        elif _is_whole(entry.path):
            whole += 1


def _is_whole(path: str) -> bool:
    return checkpoints.inspect(path, deep=False).verdict == "whole"
