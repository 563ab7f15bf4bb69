"""The control groups of a process, from its own up to the top of what is mounted here.

::

    /proc/PID/cgroup      4:memory:/slurm/uid_1000/job_77/step_0          v1
                          0::/user.slice/user-1000.slice/session-3.scope  v2
    /proc/self/mountinfo  35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory

A limit may sit on any folder above our own, and a container may see its own group as the top.
"""

from __future__ import annotations

import os

from crashcart.readers.machine.reading import number_in, text_of

__all__ = ["folders_of", "levels", "tightest"]

_LONGEST = 1 << 22  # bytes of the mounts: a node with many containers has thousands
_UNLIMITED = 1 << 60  # what v1 writes for no limit is just below 2**63


def levels(pid: int | str, controller: str, root: str = "") -> tuple[int, list[str]]:
    """1 or 2 and the folders, the process's own first; 0 and none where the machine has no such groups."""
    root = root.rstrip("/")
    mounts = _mounts(text_of(f"{root}/proc/self/mountinfo", _LONGEST) or "")
    second: tuple[int, list[str]] = 0, []
    for line in (text_of(f"{root}/proc/{pid}/cgroup") or "").splitlines():
        number, _, rest = line.partition(":")
        names, _, path = rest.partition(":")
        if controller in names.split(",") and controller in mounts:
            return 1, _upwards(path, *mounts[controller], root)
        if number == "0" and not names and "" in mounts:
            second = 2, _upwards(path, *mounts[""], root)
    return second


def folders_of(controller: str, root: str = "") -> list[str]:
    """The folders of a controller for this process, our own first."""
    return levels("self", controller, root)[1]


def tightest(folders: list[str], *names: str) -> tuple[int | None, str]:
    """The smallest limit of any folder, under any of the names that versions have for it, and its file."""
    found = [
        (limit, f"{folder}/{name}")
        for folder in folders
        for name in names
        if (limit := number_in(text_of(f"{folder}/{name}"))) is not None and limit < _UNLIMITED
    ]
    return min(found, default=(None, ""))


def _mounts(text: str) -> dict[str, tuple[str, str]]:
    """Root and place of the mount of each v1 controller, and under "" of v2."""
    found: dict[str, tuple[str, str]] = {}
    for line in text.splitlines():
        words, _, rest = line.partition(" - ")
        kind, *more = rest.split() or [""]
        if kind.startswith("cgroup") and len(words.split()) > 4:  # noqa: PLR2004 - the fifth word is the place
            top, place = (word.replace("\\040", " ") for word in words.split()[3:5])
            for name in [""] if kind == "cgroup2" else more[-1].split(","):
                found.setdefault(name, (top, place))
    return found


def _upwards(path: str, top: str, place: str, root: str) -> list[str]:
    if top != "/" and (path + "/").startswith(top + "/"):
        path = path[len(top) :]
    inner = [] if "/.." in path else [part for part in path.split("/") if part]
    folders = ["/".join([root + place, *inner[:count]]) for count in range(len(inner), -1, -1)]
    return [folder for folder in folders if os.path.isdir(folder)]
