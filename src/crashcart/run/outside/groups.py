"""Which folders of /sys/fs/cgroup a process is in, from its own up to the top of what is mounted here.

::

    /proc/PID/cgroup     4:memory:/slurm/uid_1000/job_77/step_0          v1
                         0::/user.slice/user-1000.slice/session-3.scope  v2
    /proc/self/mountinfo 35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory
                         30 24 0:27 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate

In a container the mount's root (fourth word) may be the container's own group while the path still begins at the host's top.
"""

from __future__ import annotations

import os

from crashcart.run.outside.files import once

__all__ = ["levels"]


def levels(pid: int, controller: str, root: str = "/") -> tuple[int, list[str]]:
    """1 or 2 and the folders, the process's own first; 0 and none where the machine has no such groups."""
    root = root.rstrip("/")
    try:
        groups = once(f"{root}/proc/{pid}/cgroup", 1 << 14).decode("utf-8", "surrogateescape")
        mounts = _mounts(f"{root}/proc/self/mountinfo")
    except OSError:
        return 0, []
    second: tuple[int, list[str]] = 0, []
    for line in groups.splitlines():
        number, _, rest = line.partition(":")
        names, _, path = rest.partition(":")
        if controller in names.split(",") and controller in mounts:
            return 1, _upwards(path, *mounts[controller], root)
        if number == "0" and not names and "" in mounts:
            second = 2, _upwards(path, *mounts[""], root)
    return second


def _mounts(path: str) -> dict[str, tuple[str, str]]:
    """Root and place of the mount of each v1 controller, and under "" of v2."""
    found: dict[str, tuple[str, str]] = {}
    with open(path, encoding="utf-8", errors="surrogateescape") as lines:
        for line in lines:
            words, _, rest = line.partition(" - ")
            kind, *more = rest.split()
            if not kind.startswith("cgroup"):
                continue
            top, place = (word.replace("\\040", " ") for word in words.split()[3:5])
            for name in [""] if kind == "cgroup2" else more[-1].split(","):
                found.setdefault(name, (top, place))
    return found


def _upwards(path: str, top: str, place: str, root: str) -> list[str]:
    if top != "/" and (path + "/").startswith(top + "/"):
        path = path[len(top) :]
    inner = [] if "/.." in path else [part for part in path.split("/") if part]
    base = root + place
    folders = ["/".join([base, *inner[:count]]) for count in range(len(inner), -1, -1)]
    return [folder for folder in folders if os.path.isdir(folder)]
