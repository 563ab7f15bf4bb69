"""Checkpoints: where, how large, how long; and loading.

A save inside a save (a distributed checkpoint calls torch.save, Lightning saves to memory first) is part of the outer one.
"""

from __future__ import annotations

import io
import os
import time
from _thread import _local
from typing import Any

from . import events, page, patching, phases
from .mistakes import Hook

_here = _local()
_saves, _loads = Hook("checkpoint"), Hook("load")
_WORTH_TELLING = 0.1
_FILES = (io.BytesIO, io.BufferedWriter, io.BufferedRandom, io.FileIO)  # others are the program's own code
# (function, position and name of the argument that says where, how we call it)
_WHERE = {
    "torch.serialization": (("save", 1, "f", "torch.save"),),
    "torch.distributed.checkpoint.state_dict_saver": (("save", 1, "checkpoint_id", "dcp"),),
    "safetensors.torch": (("save_file", 1, "filename", "safetensors"), ("save_model", 1, "filename", "safetensors")),
    "lightning.fabric.utilities.cloud_io": (("_atomic_save", 1, "filepath", "torch.save"),),
    "lightning_fabric.utilities.cloud_io": (("_atomic_save", 1, "filepath", "torch.save"),),
}


def install(module: Any) -> None:
    """Wrap what the module saves and loads with."""
    for name, position, argument, how in _WHERE[module.__name__]:
        patching.replace(module, name, _saving(position, argument, how))
    if module.__name__ == "torch.serialization":
        patching.replace(module, "load", _loading)


def _saving(position: int, argument: str, how: str) -> Any:
    phase = phases.CHECKPOINT

    def make(original: Any) -> Any:
        def save(*args: Any, **kwargs: Any) -> Any:
            if not _saves.on or getattr(_here, "saving", False):
                return original(*args, **kwargs)
            mark = phases.NOT_ENTERED
            where = kwargs.get(argument, args[position] if len(args) > position else None)
            try:
                _here.saving = True
                mark = _begun(phase)
                result = original(*args, **kwargs)
            except Exception:
                _failed(_writer_path(args, kwargs) if where is None else where)
                raise
            finally:
                _here.saving = False
                seconds = phases.leave(mark)
            try:
                _saved(_writer_path(args, kwargs) if where is None else where, how, seconds)
            except Exception:
                _saves.failed()
            return result

        return save

    return make


def _begun(phase: int) -> tuple[int, float]:
    mark = phases.NOT_ENTERED
    try:
        mark = phases.enter(phase)
        if mark[0] >= 0:
            phases.told(phase, "begin")
    except Exception:
        _saves.failed()
    return mark


def _saved(where: Any, how: str, seconds: float) -> None:
    page.add("checkpoints")
    path = _path(where)
    size = _size(path, where)
    events.write(
        "checkpoint", path=path, bytes=size, seconds=round(seconds, 3), how=how, step=int(page.here.numbers[page.STEPS])
    )
    page.here.numbers[page.PROGRESS] = time.monotonic()


def _failed(where: Any) -> None:
    """A save that raised: what lies there now, and how much room its file system has; never raises."""
    try:
        path = _path(where)
        if path is None or "://" in path:
            return
        size = os.path.getsize(path) if os.path.isfile(path) else None
        folder = path
        while not os.path.isdir(folder) and os.path.dirname(folder) != folder:
            folder = os.path.dirname(folder)
        room = os.statvfs(folder)
        free, inodes = room.f_bavail * room.f_frsize, room.f_favail if room.f_files else None
        while not os.path.ismount(folder):
            folder = os.path.dirname(folder)
        total = room.f_blocks * room.f_frsize
        events.write("save-failed", path=path, bytes=size, free=free, total=total, inodes=inodes, mount=folder)
    except OSError:  # the folder is gone, or cannot be looked at
        pass
    except Exception:
        _saves.failed()


def _path(where: Any) -> str | None:
    if isinstance(where, (str, bytes, os.PathLike)):
        path = os.fsdecode(where)
        return path if "://" in path else os.path.abspath(path)
    name = where.name if type(where) in _FILES[1:] else None
    return os.path.abspath(name) if isinstance(name, str) else None


def _size(path: str | None, where: Any) -> int | None:
    if type(where) in _FILES:
        return None if where.closed else int(where.tell())
    try:
        if path is None or not os.path.isdir(path):
            return None if path is None else os.path.getsize(path)
        rank = page.here.numbers[page.at("rank")]
        mine = "__%d_" % (rank if rank == rank else 0)
        with os.scandir(path) as entries:
            return sum([entry.stat().st_size for entry in entries if entry.name.startswith(mine)])
    except OSError:
        return None


def _writer_path(args: Any, kwargs: Any) -> Any:
    writer = kwargs.get("storage_writer", args[2] if len(args) > 2 else None)
    return getattr(writer, "path", None)


def _loading(original: Any) -> Any:
    phase = phases.LOAD

    def load(*args: Any, **kwargs: Any) -> Any:
        if not _loads.on:
            return original(*args, **kwargs)
        mark = phases.enter(phase)
        try:
            result = original(*args, **kwargs)
        finally:
            seconds = phases.leave(mark)
        try:
            _loaded(args[0] if args else kwargs.get("f"), result, seconds)
        except Exception:
            _loads.failed()
        return result

    return load


def _loaded(where: Any, result: Any, seconds: float) -> None:
    """Tell of what took long, and of an optimizer's state: whether it was taken over shows at the next step."""
    rate = _rate(result)
    if rate is not None or seconds > _WORTH_TELLING:
        phases.told(phases.LOAD, "end", seconds=round(seconds, 3), path=_path(where), lr=rate)


def _rate(loaded: Any) -> float | None:
    """The learning rate of the optimizer whose state was loaded, alone or as part of a checkpoint."""
    if not isinstance(loaded, dict):
        return None
    parts = [loaded] + [value for value in list(dict.values(loaded))[:50] if isinstance(value, (dict, list, tuple))]
    for part in parts:
        state = part[0] if isinstance(part, (list, tuple)) and part else part
        groups = dict.get(state, "param_groups") if isinstance(state, dict) else None
        if isinstance(groups, list) and groups and isinstance(groups[0], dict):
            rate = dict.get(groups[0], "lr")
            return float(rate) if isinstance(rate, (int, float)) else None
    return None
