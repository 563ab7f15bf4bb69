"""What is written down about a run before it starts: command, machine, versions, code, and an allowed part of the environment.

Secrets never get here: the environment by a list of names that hold none, everything else through ``redact``. The exact command
is in a file of its own that only the user can read.
"""

from __future__ import annotations

import contextlib
import getpass
import os
import platform
import resource
import shlex
import shutil
import stat
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

from crashcart import git
from crashcart.recording.folder import working_folder, write_json
from crashcart.recording.group import part_of
from crashcart.recording.meeting import boot_id
from crashcart.redact import clean, clean_all
from crashcart.version import __version__

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["describe", "write_facts"]

_ALLOWED = (
    "CUDA_VISIBLE_DEVICES", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "PYTHONPATH",
    "VIRTUAL_ENV", "CONDA_DEFAULT_ENV", "LD_LIBRARY_PATH", "PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF", "HF_HOME",
    "HF_HUB_OFFLINE", "WANDB_MODE", "WANDB_DIR", "TMPDIR", "TERM", "LANG", "SHELL",
)  # fmt: skip
_ALLOWED_BEGINNINGS = (
    "NCCL_",
    "TORCH_",
    "GLOO_",
    "SLURM_JOB",
    "SLURM_NODE",
    "SLURM_NTASKS",
    "SLURM_PROCID",
    "SLURM_CPUS",
    "SLURM_STEP",
    "SLURM_RESTART",
    "SLURM_SUBMIT",
    "PET_",
)
_SECRET = ("KEY", "TOKEN", "SECRET", "PASS", "AUTH", "CREDENTIAL")
_PATIENCE = 2.0
_LARGEST_DIFF = 4 << 20
_LONGEST_WORD, _LONGEST_COMMAND = 4096, 16384  # the whole is in the file of the exact command
_FIRST_PIDS = 0xEFFFFFFC  # PROC_PID_INIT_INO of the kernel
_SAME = 0.1  # seconds


def describe(command: Sequence[str], environment: dict[str, str]) -> dict[str, Any]:
    """The facts of a run as plain data."""
    words = [word[:_LONGEST_WORD] for word in clean_all([os.fsencode(word).decode("utf-8", "replace") for word in command])]
    return {
        "schema": 1,
        "crashcart": __version__,
        "command": clean(shlex.join(words))[:_LONGEST_COMMAND],
        "folder": _text(working_folder()),
        "started": time.time(),
        "host": platform.node(),
        "user": _user(),
        "python": platform.python_version(),
        "machine": _machine(),
        "interpreter": clean(_text(shutil.which(command[0]) or command[0])),
        "environment": _allowed(environment),
        "git": _git(),
        "errors": _errors(),
        "state": "running",
    } | _part(command)


def _part(command: Sequence[str]) -> dict[str, Any]:
    """Which node of a job this is, where several crashcarts record it."""
    part = part_of(command, os.environ)
    return {} if part is None else {"node": {"group": part.group, "rank": part.rank, "least": part.least}}


def write_facts(folder: str, facts: dict[str, Any], command: Sequence[str]) -> None:
    """Put them into the run folder, with the exact command and the differences to the commit."""
    with contextlib.suppress(OSError):
        path = os.path.join(folder, "command")
        begun = time.time()
        with open(path, "wb", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
            file.write(os.fsencode(shlex.join(command)) + b"\n")
        if "node" in facts:
            facts["node"] |= {"name": os.path.basename(folder), "clock": _clock(path, begun, time.time())}
    difference = _asked(git.command("diff", "--no-ext-diff", "--no-textconv", "HEAD"))
    if difference:
        with contextlib.suppress(OSError), open(os.path.join(folder, "git.diff"), "w", encoding="utf-8") as file:
            file.write(clean(difference[: difference.rfind("\n", 0, _LARGEST_DIFF) + 1]))
    write_json(os.path.join(folder, "run.json"), facts)


def _clock(path: str, begun: float, ended: float) -> float:
    """How far the clock of the file system, which all nodes share, is ahead of ours: 0 where it may as well be the same."""
    ahead = os.stat(path).st_mtime - (begun + ended) / 2
    return round(ahead, 3) if abs(ahead) > _SAME + ended - begun else 0.0


def _allowed(environment: dict[str, str]) -> dict[str, str]:
    return {
        name: clean(_text(value))
        for name, value in sorted(environment.items())
        if (name in _ALLOWED or name.startswith(_ALLOWED_BEGINNINGS)) and not any(word in name for word in _SECRET)
    }


def _text(word: str) -> str:
    """A word that may hold any bytes and megabytes, as text that can be written and shown everywhere."""
    return os.fsencode(word)[:_LONGEST_WORD].decode("utf-8", "replace")


def _machine() -> dict[str, Any]:
    return {
        "system": platform.platform(),
        "cores": len(os.sched_getaffinity(0)),
        "memory": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "open_files": resource.getrlimit(resource.RLIMIT_NOFILE)[0],
        "boot": boot_id(),
        "pids": "the machine's" if _first_namespace() else "a container's",
        "group": _memory_group(),
        "crashcart_python": sys.version.split()[0],
    }


def _memory_group() -> str:
    """The control group by which the kernel's reports of kills name the job; ``/`` where it has none of its own."""
    with contextlib.suppress(OSError), open("/proc/self/cgroup", encoding="utf-8", errors="replace") as file:
        groups = [line.rstrip("\n").split(":", 2) for line in file]
        named = {controller: path for _, controllers, path in groups for controller in controllers.split(",")}
        return named.get("memory") or named.get("", "/")
    return "/"


def _first_namespace() -> bool:
    """Whether our process ids are those of the kernel log: outside of containers, whose first process is no machine's first."""
    try:
        return os.stat("/proc/self/ns/pid").st_ino == _FIRST_PIDS
    except OSError:
        return False


def _git() -> dict[str, Any]:
    commit = _asked(git.command("rev-parse", "HEAD"))
    if not commit:
        return {}
    return {"commit": commit.strip(), "changed": bool(_asked(git.command("status", "--porcelain", "--untracked-files=no")))}


def _asked(command: list[str]) -> str:
    try:
        done = subprocess.run(  # noqa: S603 - git, with words of ours
            command,
            capture_output=True,
            timeout=_PATIENCE,
            check=False,
            text=True,
            errors="replace",
            env=git.environment(),
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout if done.returncode == 0 else ""


def _errors() -> str | None:
    """The user's own file that standard error goes to: a scheduler writes its last words there."""
    with contextlib.suppress(OSError):
        if stat.S_ISREG(os.fstat(2).st_mode):
            return _text(os.readlink("/proc/self/fd/2"))
    return None


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return str(os.getuid())
