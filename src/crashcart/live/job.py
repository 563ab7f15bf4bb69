"""From one pid to the job it belongs to: its launcher, everything below, and the run folder where ``crashcart run`` started it.

Sessions do not tell: torchrun gives each rank its own. A parent belongs to the job where it is a launcher by name, where its
child is a mere copy of it (a loader's worker, ``mp.spawn``), or where it started several ranks. A Python program that started a
launcher or a single rank (a scheduler, a test, a notebook) does not.
"""

from __future__ import annotations

import contextlib
import os
import pwd
from typing import TYPE_CHECKING

from crashcart.errors import CommandError
from crashcart.inside.layout import JOB
from crashcart.numbers import to_count, to_int
from crashcart.record import record
from crashcart.recording.folder import read_json
from crashcart.run.outside.files import once
from crashcart.run.outside.process import Process
from crashcart.run.outside.processes import Tree
from crashcart.run.outside.roles import LAUNCHER, SHELL, role_of

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Job", "entry", "find_job", "is_python"]

_HIGHEST = 16  # generations
_KERNEL_THREAD = 0x00200000
_PARENT, _FLAGS = 1, 6  # fields of /proc/PID/stat behind the name
_NOBODYS = f"{JOB}=\1"
_STARTERS = frozenset(
    ("srun", "slurmstepd", "mpirun", "mpiexec", "orterun", "prterun", "prted", "orted", "hydra_pmi_proxy", "pbs_mom")
)


@record(frozen=True)
class Job:
    """The first process of the job, the entry in the environment that all of it carries, and its run folder if it has one."""

    root: int
    mark: str
    folder: str | None = None

    def tree(self) -> Tree:
        """Its processes, looked at once."""
        tree = Tree(self.root, self.mark)
        tree.look(fresh=True)
        return tree


def find_job(pid: int) -> Job:
    """The job of a process; a sentence where there is nothing to look at."""
    _refuse(pid)
    folder = _run_folder(pid)
    if folder is not None:
        recorded = to_count(read_json(os.path.join(folder, "run.json")).get("job"))
        if recorded is not None and os.path.exists(f"/proc/{recorded}"):
            return Job(recorded, entry(recorded, JOB) or _NOBODYS, folder)
    root = _top(pid)
    job = Job(root, _mark(pid), folder)
    tree = job.tree()
    python = any(is_python(process) for process in tree.processes)
    tree.close()
    if not python:
        raise CommandError(f"process {pid} ({_named(pid)}) does not run Python, and neither do its child processes.")
    return job


def is_python(pid: int) -> bool:
    """Whether a process runs a Python interpreter, whatever it calls itself."""
    with contextlib.suppress(OSError):
        return os.path.basename(os.readlink(f"/proc/{pid}/exe")).startswith(("python", "pypy"))
    return False


def _refuse(pid: int) -> None:
    fields = _fields(pid)
    if not fields:
        raise CommandError(f"there is no process {pid}.")
    parent = to_int(fields[_PARENT], 0)
    if fields[0] == "Z":
        raise CommandError(
            f"process {pid} has ended and is a zombie of its parent {parent} ({_named(parent)}); "
            f"try `crashcart why --pid {parent}`."
        )
    if to_int(fields[_FLAGS], 0) & _KERNEL_THREAD:
        raise CommandError(f"process {pid} ({_named(pid)}) is a kernel thread, not a program.")
    try:
        once(f"/proc/{pid}/environ", 1)
    except PermissionError:
        raise CommandError(f"process {pid} ({_named(pid)}) {_forbidden(pid)}") from None
    except OSError:
        raise CommandError(f"process {pid} ended just now.") from None


def _top(pid: int) -> int:
    """The highest process that is still of the job."""
    top, child = pid, _process(pid)
    for _ in range(_HIGHEST):
        parent = _process(child.parent_pid) if child is not None and child.parent_pid > 1 else None
        if child is None or parent is None:
            break
        child.parent = parent
        child.describe()
        role = role_of(parent)[0]
        if _started_by(parent, child, role):
            top = parent.pid
        elif role != SHELL:
            break
        child = parent
    return top


def _started_by(parent: Process, child: Process, role: str) -> bool:
    """Whether the parent is of the same job, as far as the two tell."""
    if not is_python(parent.pid):
        return child.stated is not None and parent.comm in _STARTERS
    copied = child.forked or any("multiprocessing" in word for word in child.arguments[1:4])
    if role == LAUNCHER or copied or child.stated is None:
        return role == LAUNCHER or copied
    started = {one.stated for pid in parent.children() if (one := _process(pid)) is not None}
    return parent.stated is None and len(started - {None}) > 1


def _process(pid: int) -> Process | None:
    try:
        process = Process(pid, keep=False)
    except (OSError, ValueError):
        return None
    process.describe()
    return process


def _mark(pid: int) -> str:
    """What ranks without a launcher of their own have in common, as under srun: where they meet."""
    if entry(pid, "RANK") is None and entry(pid, "SLURM_PROCID") is None:
        return _NOBODYS
    if entry(pid, "TORCHELASTIC_RUN_ID") is not None:  # torchrun is above them
        return _NOBODYS
    return entry(pid, "MASTER_PORT") or _NOBODYS


def entry(pid: int, name: str) -> str | None:
    """``NAME=value`` of the environment with which a process was started."""
    with contextlib.suppress(OSError):
        for entry in once(f"/proc/{pid}/environ", 1 << 18).split(b"\0"):
            if entry.startswith(name.encode() + b"="):
                return os.fsdecode(entry)
    return None


def _run_folder(pid: int) -> str | None:
    """The folder of the run: the keeper and the supervisor, which are above the job, have files in it open."""
    for _ in range(_HIGHEST):
        for path in _open_files(pid):
            folder = os.path.dirname(os.path.dirname(path))
            if os.path.isfile(os.path.join(folder, "run.json")) and os.path.isdir(os.path.join(folder, "recording")):
                return folder
        fields = _fields(pid)
        pid = to_int(fields[_PARENT], 0) if fields else 0
        if pid <= 1:
            break
    return None


def _open_files(pid: int) -> Iterator[str]:
    with contextlib.suppress(OSError):
        for name in os.listdir(f"/proc/{pid}/fd"):
            with contextlib.suppress(OSError):
                path = os.readlink(f"/proc/{pid}/fd/{name}")
                if path.startswith("/") and path.split("/")[-2:-1] in (["logs"], ["recording"]):
                    yield path


def _fields(pid: int) -> list[str]:
    """The fields of ``stat`` behind the name; none where there is no such process."""
    try:
        return once(f"/proc/{pid}/stat", 1024).rpartition(b")")[2].decode().split()
    except OSError:
        return []


def _named(pid: int) -> str:
    with contextlib.suppress(OSError):
        return once(f"/proc/{pid}/comm", 64).decode("utf-8", "replace").strip()
    return "unknown"


def _forbidden(pid: int) -> str:
    try:
        owner = os.stat(f"/proc/{pid}").st_uid
    except OSError:
        owner = -1
    if owner == os.geteuid():
        return "is yours but cannot be inspected from here: it has other privileges, or is outside this container."
    try:
        name = pwd.getpwuid(owner).pw_name
    except (KeyError, OverflowError):
        name = f"user {owner}"
    return f"belongs to {name}: only they and root may inspect it."
