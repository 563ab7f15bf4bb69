"""One folder for a job that several crashcarts record: they meet by its name, each writes only below ``nodes/`` + its own name.

Making a folder is atomic on every file system, so that nobody has to be first and nobody waits. A name can come again: the same
rendezvous the next day, a loop around the launcher. Then the folder gets a number. A folder is joined where this node is not in it
yet and somebody in it was seen lately, by the clock of the file system, which all nodes share.
"""

from __future__ import annotations

import contextlib
import errno
import os
import platform
import tempfile
import time
from typing import TYPE_CHECKING, Any

from crashcart.numbers import to_count
from crashcart.recording.files import NODES, has_entry, listed, read_json

if TYPE_CHECKING:
    from collections.abc import Iterable

    from crashcart.recording.group import Part

__all__ = ["NODES", "boot_id", "join", "last_sign", "lives", "nodes_of"]

_LATELY = 120.0  # seconds; who records writes every second, and a network file system may tell it a minute late
_ALIVE = 90.0
_MOST = 1000


def join(root: str, part: Part, job: str) -> str | None:
    """A new folder for this part of the job; None inside a run that is this part already. Raises ``OSError``."""
    name = f"{job}-{part.group}"
    number = max((_number(entry, name) for entry in os.listdir(root)), default=0) or 1
    while number < _MOST:
        run = _path(root, name, number)
        os.makedirs(os.path.join(run, NODES), mode=0o700, exist_ok=True)
        if os.path.islink(run) or os.path.islink(os.path.join(run, NODES)):
            number += 1  # somebody's, who wants to have it elsewhere
            continue
        if part.unique or _now(root) - last_sign(run) < _LATELY:
            for own in (part.name, *(f"{part.name}-{more}" for more in range(2, 100))):
                mine = os.path.join(run, NODES, own)
                with contextlib.suppress(FileExistsError):
                    os.mkdir(mine, 0o700)
                    return mine
                facts = read_json(os.path.join(mine, "run.json"))
                if os.environ.get("CRASHCART_JOB", "") == facts.get("live"):
                    return None
                if not lives(mine, facts):
                    break  # this node was here before: another run of the same name
        number += 1
    raise FileExistsError(errno.EEXIST, f"{name} was used {_MOST} times")


def nodes_of(run: str) -> list[str]:
    """The folders of the nodes of a run; none where it was recorded by one crashcart alone."""
    paths = [os.path.join(run, NODES, name) for name in listed(run, NODES)[:_MOST]]
    return [path for path in paths if has_entry(path, "run.json")]


def lives(folder: str, facts: dict[str, Any] | None = None) -> bool:
    """Whether the job of a folder that one crashcart writes still runs: by its process on this machine, by its recording else."""
    facts = read_json(os.path.join(folder, "run.json")) if facts is None else facts
    if facts.get("state", "running") != "running" or has_entry(folder, "exit.json"):
        return False
    machine, job = facts.get("machine"), to_count(facts.get("job"))
    boot = machine.get("boot") if isinstance(machine, dict) else None
    if facts.get("host") == platform.node() and (not boot or boot == boot_id()) and job is not None:
        return os.path.exists(f"/proc/{job}")
    return time.time() - last_sign(folder) < _ALIVE


def boot_id() -> str:
    """What tells one start of this machine from another."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        return ""


def last_sign(folder: str) -> float:
    """When something was last written there, as the file system says: by a node, or by whoever made the folder."""
    newest = 0.0
    for path in _looked_at(folder):
        with contextlib.suppress(OSError):
            newest = max(newest, os.lstat(path).st_mtime)
    return newest


def _looked_at(folder: str) -> Iterable[str]:
    yield folder
    yield os.path.join(folder, NODES)
    for node in nodes_of(folder) or [folder]:
        yield from (os.path.join(node, name) for name in ("run.json", "exit.json"))
        yield from (os.path.join(node, "recording", name) for name in listed(node, "recording"))


def _path(root: str, name: str, number: int) -> str:
    return os.path.join(root, name + (f"-{number}" if number > 1 else ""))


def _number(entry: str, name: str) -> int:
    if entry == name:
        return 1
    number = entry[len(name) + 1 :] if entry.startswith(name + "-") else ""
    return found if (found := to_count(number, 0)) < _MOST else 0


def _now(root: str) -> float:
    """The time as the file system has it."""
    try:
        with tempfile.NamedTemporaryFile(prefix=".clock-", dir=root) as file:
            return os.fstat(file.fileno()).st_mtime
    except OSError:
        return time.time()
