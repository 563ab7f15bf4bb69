"""Room for what a job writes, where it runs here: the output folder's file system, its quota, a test file, the last checkpoint.

A file server that does not answer holds a question for minutes, so that all of them are asked aside and waited for only so long.
The test writes a few bytes as a checkpoint is written (write, sync, rename), in a folder that exists, and takes them away again.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
import tempfile
from typing import TYPE_CHECKING, Any

from crashcart.model import Evidence, Fact
from crashcart.numbers import to_count
from crashcart.readers.machine import runs_here
from crashcart.readers.machine.disks import existing, mounted
from crashcart.readers.machine.reading import text_of, within

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from crashcart.case import Case
    from crashcart.readers.code.program import Program

__all__ = ["room_facts"]

_SECONDS = 4.0
_QUOTA_SECONDS = 2.0
_KIB = 1024
_HUBS = ("transformers", "datasets", "huggingface_hub", "diffusers", "timm")
_BYTES = b"crashcart writes this to see whether a checkpoint could be written\n"


def room_facts(case: Case, program: Program, base: str) -> Iterator[Fact]:
    """``disk.room`` of the output folder, ``disk.refused`` where it cannot be written, ``disk.cache`` of the home folder."""
    output = case.facts.get("output.path")
    if not runs_here(case):
        return
    if (
        output is not None
        and isinstance(output.value, str)
        and output.value
        and not re.search(r"://|[$*{}<>\0]", output.value)
    ):
        folder = os.path.join(base, os.path.expanduser(output.value))
        seen = _aside(lambda: _room(folder))
        if seen is not None:
            where = seen.pop("at")
            quote = f"{seen['free'] / 2**30:.1f} GiB free, {seen['kind'] or 'unknown'} file system"
            value = {**seen, "path": output.value, "named": output.evidence}
            yield Fact("disk.room", value, Evidence("machine", quote, where), "machine")
            if seen["refused"]:
                yield Fact("disk.refused", value, Evidence("machine", seen["refused"], where), "machine")
    named = {
        name
        for name in ("HF_HOME", "HF_HUB_CACHE", "XDG_CACHE_HOME")
        if name in os.environ or f"environment.{name}" in case.facts
    }
    if program.imports(*_HUBS) and not named:
        home = os.path.expanduser("~")
        free = _aside(lambda: {"free": _free(home)[0]})
        if free is not None:
            yield Fact(
                "disk.cache",
                {"path": "~/.cache/huggingface", **free},
                Evidence("machine", f"{free['free'] / 2**30:.1f} GiB free", home),
                "machine",
            )


def _aside(ask: Callable[[], dict[str, Any]]) -> dict[str, Any] | None:
    """An answer, where one comes and comes in time."""

    def asked() -> dict[str, Any] | None:
        try:
            return ask()
        except (OSError, ValueError):
            return None

    return within(_SECONDS, asked, None)


def _room(folder: str) -> dict[str, Any]:
    at = existing(folder)
    free, inodes = _free(at)
    kind, _, source = mounted(at, text_of("/proc/self/mountinfo", 1 << 22) or "")
    is_there = os.path.isdir(folder)
    size, count = _checkpoints(folder) if is_there else (None, 0)
    return {
        "at": at, "free": free, "inodes": inodes, "kind": kind, "quota": _quota(at, source), "checkpoint": size, "checkpoints": count,
        "refused": _refused(folder) if is_there else "",
    }  # fmt: skip


def _free(folder: str) -> tuple[int, int | None]:
    found = os.statvfs(folder)
    return found.f_bavail * found.f_frsize, found.f_favail if found.f_files else None


def _quota(folder: str, source: str) -> int | None:
    """Bytes that the user's quota leaves, where a tool knows it."""
    if tool := shutil.which("lfs"):
        told = _said([tool, "quota", "-q", "-u", str(os.getuid()), folder])
        return _left(told.split())
    if tool := shutil.which("quota"):
        for line in _said([tool, "-w"]).split("\n"):
            if source and line.strip().startswith(source):
                return _left(line.split()[1:])
    return None


def _left(words: list[str]) -> int | None:
    """Used, soft and hard limit in KiB; no limit is 0."""
    numbers = [number for word in words if (number := to_count(word.rstrip("*"))) is not None]
    if len(numbers) < 3 or not (numbers[2] or numbers[1]):  # noqa: PLR2004 - the three numbers above
        return None
    return max(0, (numbers[2] or numbers[1]) - numbers[0]) * _KIB


def _said(command: list[str]) -> str:
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        ended = subprocess.run(command, capture_output=True, text=True, timeout=_QUOTA_SECONDS, check=False)  # noqa: S603 - a tool of the system
        return ended.stdout
    return ""


def _checkpoints(folder: str) -> tuple[int | None, int]:
    """The size of the newest checkpoint there, and how many there are."""
    from crashcart.checkpoints import find

    found = [one for one in find(folder, limit=50, deep=False) if one.verdict != "broken"]
    return (found[0].size_bytes, len(found)) if found else (None, 0)


def _refused(folder: str) -> str:
    """Why a file cannot be written, synced and renamed there; nothing where it can."""
    path = ""
    try:
        handle, path = tempfile.mkstemp(dir=folder, prefix=".crashcart-")
        with os.fdopen(handle, "wb") as file:
            file.write(_BYTES)
            file.flush()
            os.fsync(file.fileno())
        os.replace(path, f"{path}-renamed")
        path = f"{path}-renamed"
    except OSError as problem:
        return problem.strerror or str(problem)
    finally:
        with contextlib.suppress(OSError):
            os.unlink(path)
    return ""
