"""The folder of a run: where it is made, how it is named, and which runs there are.

It belongs to the user alone (0700) and keeps itself out of git. Where the working folder cannot be written it goes to the
user's own state folder, and last to the temporary one. Where several crashcarts record one job, each gets its part of a folder
that they share, with the same inner layout.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import tempfile
import time
from typing import TYPE_CHECKING

from crashcart.numbers import to_float
from crashcart.recording.files import has_entry, read_json, write_json
from crashcart.recording.group import part_of
from crashcart.recording.meeting import join, nodes_of
from crashcart.redact import clean_all
from crashcart.regular_files import belongs_to_us, names_in

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

__all__ = [
    "RUNS",
    "is_run",
    "job_name",
    "live_folder",
    "make_folder",
    "newest",
    "nodes_of",
    "read_json",
    "roots",
    "runs",
    "working_folder",
    "write_json",
]

RUNS = "crashcart_runs"
_VARIABLE = "CRASHCART_RUNS"
_CLOCKS_DIFFER = 86400.0  # seconds between the clocks of two machines
_ENOUGH_BYTES = 1 << 28
_MOST_RUNS = 10_000
_SKIPPED = re.compile(
    r"^(?:-|\d+$)|^(?:nohup|env|time|numactl|srun|bash|sh|zsh|uv|run|conda|poetry|accelerate|launch|deepspeed|torchrun|mpirun|crashcart|timeout|setsid|"
    r"python[\d.]*|ipython|\w+=.*)$"
)


def roots() -> list[str]:
    """Folders that may hold runs, the preferred one first."""
    given = os.environ.get(_VARIABLE)
    state = os.environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state")
    temporary = _temporary()
    here = working_folder()
    found = [given] if given else [os.path.join(here, RUNS)] if os.path.isdir(here) else []  # what was removed stays so
    last = [os.path.join(temporary, "runs")] if not os.path.lexists(temporary) or _is_our_own(temporary) else []
    return [*found, os.path.join(state, "crashcart", "runs"), *last]


def _temporary() -> str:
    return os.path.join(tempfile.gettempdir(), f"crashcart-{os.getuid()}")


def _is_our_own(folder: str) -> bool:
    """Whether a folder with a name that anybody can foresee is no link and was made by us."""
    return belongs_to_us(folder) and not os.path.islink(folder)


def working_folder() -> str:
    """Where we are; as the shell says where that was removed."""
    try:
        return os.getcwd()
    except OSError:
        return os.environ.get("PWD") or "/"


def make_folder(command: Sequence[str]) -> tuple[str | None, list[str]]:
    """A new folder for a run, and why better places could not be used."""
    refused = []
    part = part_of(command, os.environ)
    for root in roots():
        try:
            os.makedirs(root, mode=0o700, exist_ok=True)
            if root.startswith(_temporary()) and not _is_our_own(_temporary()):
                raise PermissionError(errno.EPERM, "somebody else has made it")
            path = (join(root, part, job_name(command)) if part is not None else None) or _alone(root, command)
            _keep_out_of_git(root)
            for inner in ("logs", "recording", "stacks"):
                os.mkdir(os.path.join(path, inner), 0o700)
        except OSError as problem:  # noqa: PERF203 - three places at most
            refused.append(f"{root}: {problem.strerror}")
        else:
            return path, refused
    return None, refused


def _alone(root: str, command: Sequence[str]) -> str:
    """A folder of this run's own, named by time and job."""
    name = time.strftime("%Y-%m-%dT%H-%M-%S") + "-" + job_name(command)
    for variable in ("SLURM_JOB_ID", "TORCHELASTIC_RUN_ID"):
        if os.environ.get(variable, "none") != "none":
            name += "-" + re.sub(r"[^\w.-]+", "_", os.environ[variable])[:32]
            break
    for attempt in range(100):
        with contextlib.suppress(FileExistsError):
            path = os.path.join(root, name + (f"-{attempt + 1}" if attempt else ""))
            os.mkdir(path, 0o700)
            return path
    raise FileExistsError(errno.EEXIST, f"{name} is there a hundred times")


def live_folder(run: str) -> str | None:
    """A folder in memory for what the processes of the job write about themselves; beside the run where there is no such.

    Not in shared memory of which there is little, as in a container by default: the job's loaders need it.
    """
    memory = ["/dev/shm"] if _free_bytes("/dev/shm") >= _ENOUGH_BYTES else []  # noqa: S108 - made private by mkdtemp
    for parent in (*memory, tempfile.gettempdir(), run):
        with contextlib.suppress(OSError):
            return tempfile.mkdtemp(prefix="crashcart-", dir=parent)
    return None


def _free_bytes(folder: str) -> int:
    try:
        found = os.statvfs(folder)
    except OSError:
        return 0
    return found.f_bavail * found.f_frsize


def job_name(command: Sequence[str]) -> str:
    """A short name of what is run: the script, not the launcher; the shell or interpreter where it was given code."""
    command = clean_all(list(command))
    code = {at + 1 for at, word in enumerate(command) if word in {"-c", "-lc", "-ic"}}
    words = [word for at, word in enumerate(command) if at not in code and not _SKIPPED.match(os.path.basename(word))]
    scripts = [word for word in words if word.endswith((".py", ".sh"))]
    named = [os.path.basename(word) for word in (scripts or words or [*command, "job"])]
    chosen = named[0] if words or not code else os.path.basename(command[min(code) - 2])
    return re.sub(r"[^\w.-]+", "_", chosen.removesuffix(".py").removesuffix(".sh"))[:40] or "job"


def runs() -> Iterator[str]:
    """Folders of runs, newest first."""
    found = []
    for root in roots():
        with contextlib.suppress(OSError):
            found += [path for name in names_in(root, _MOST_RUNS) if is_run(path := os.path.join(root, name))]
    yield from sorted(found, key=_begun, reverse=True)


def is_run(folder: str) -> bool:
    """Whether ``crashcart run`` made the folder, alone or with others."""
    return has_entry(folder, "run.json") or bool(nodes_of(folder))


def _begun(path: str) -> tuple[float, str]:
    """When a run was started, as it says itself: a copy of it is no newer. Where that is damaged, when its command was written.

    Nor is one that claims to be from the future: it would stand before all others for ever.
    """
    begun, latest = [], time.time() + _CLOCKS_DIFFER
    for part in nodes_of(path) or [path]:
        started = to_float(read_json(os.path.join(part, "run.json")).get("started"))
        if started is not None and started < latest:
            begun.append(started)
        else:
            with contextlib.suppress(OSError):
                begun.append(os.lstat(os.path.join(part, "command")).st_mtime)
    return min(begun, default=0.0), path


def newest() -> str | None:
    """The newest run that can be found from here."""
    return next(runs(), None)


def _keep_out_of_git(root: str) -> None:
    path = os.path.join(root, ".gitignore")
    with contextlib.suppress(OSError), open(path, "x", encoding="utf-8") as file:
        file.write("*\n")
