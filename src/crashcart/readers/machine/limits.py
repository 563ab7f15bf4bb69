"""What this user's processes may have: files, processes, locked memory, core dumps; and processors.

The soft limit of open files is what loader workers and sockets die of, and a user may raise it up to the hard one. Processes are
limited twice: for the user, and for the control group that threads count against as well.
"""

from __future__ import annotations

import os
import resource
import shutil
from typing import TYPE_CHECKING

from crashcart.numbers import to_count, to_float
from crashcart.readers.machine.groups import folders_of, tightest
from crashcart.readers.machine.reading import Reading, amount, number_in, text_of, unknown

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

__all__ = ["look", "scheduler"]

GROUP = "limits"
_LIMITS = (
    ("open_files", "open files", resource.RLIMIT_NOFILE, "ulimit -n"),
    ("processes", "processes", resource.RLIMIT_NPROC, "ulimit -u"),
    ("locked_memory", "locked memory", resource.RLIMIT_MEMLOCK, "ulimit -l"),
    ("core_size", "core dumps", resource.RLIMIT_CORE, "ulimit -c"),
)
_SIZES = frozenset({"locked_memory", "core_size"})


def look(environment: Mapping[str, str], root: str = "") -> Iterator[Reading]:
    """Every line about limits and processors."""
    for name, label, number, where in _LIMITS:
        soft, hard = (None if limit == resource.RLIM_INFINITY else limit for limit in resource.getrlimit(number))
        says = _said(name, soft) + ("" if soft == hard else f", can be raised to {_said(name, hard)}")
        value = {"soft": soft, "hard": hard, "infiniband": _infiniband(root)}
        yield Reading(GROUP, name, label, says, where, value)
    yield from _counts(root)
    yield from _cores(root)
    yield from _processors(environment, root)


def _said(name: str, limit: int | None) -> str:
    if limit is None:
        return "unlimited"
    return amount(limit) if name in _SIZES else f"{limit}"


def _infiniband(root: str) -> bool:
    try:
        return bool(os.listdir(f"{root}/sys/class/infiniband"))
    except OSError:
        return False


def _counts(root: str) -> Iterator[Reading]:
    folders = folders_of("pids", root)
    limit, file = tightest(folders, "pids.max")
    if limit is not None:
        used = number_in(text_of(os.path.join(os.path.dirname(file), "pids.current")))
        says = f"{limit} tasks in this cgroup" + (f", {used} there now" if used is not None else "")
        yield Reading(GROUP, "tasks", "tasks", says, file, {"limit": limit, "used": used})
    place = f"{root}/proc/sys/fs/file-nr"
    words = (text_of(place) or "").split()
    if len(words) == 3 and all(word.isdigit() for word in words):  # noqa: PLR2004 - allocated, unused, the most
        used, most = to_count(words[0], 0), to_count(words[2], 0)
        says = f"{used} open on the whole machine" + (f" of {most}" if most < 1 << 40 else ", no limit in practice")
        yield Reading(GROUP, "all_files", "all files", says, place, {"used": used, "limit": most})


def _cores(root: str) -> Iterator[Reading]:
    place = f"{root}/proc/sys/kernel/core_pattern"
    pattern = (text_of(place) or "").strip()
    if pattern:
        says = (
            f"handed to {pattern[1:].split()[0]}" if pattern[:1] == "|" and pattern[1:].split() else f"written as {pattern}"
        )
        yield Reading(GROUP, "core_pattern", "core pattern", says, place, {"pattern": pattern})


def _processors(environment: Mapping[str, str], root: str) -> Iterator[Reading]:
    present = os.cpu_count() or 1
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else present
    quota, file = _quota(root)
    says = f"{allowed}" + (f" of {present} by affinity" if allowed < present else "")
    says += f", and a quota of {quota:g}" if quota is not None else ""
    asked = environment.get("OMP_NUM_THREADS", "")
    value = {"allowed": allowed, "present": present, "quota": quota, "threads": to_count(asked)}
    yield Reading("processors", "processors", "processors", says, file or "sched_getaffinity", value)
    if asked:
        yield Reading("processors", "threads", "OMP_NUM_THREADS", asked, "environment", value)
    load = text_of(f"{root}/proc/loadavg")
    if load is None:
        yield unknown(("processors", "load", "load"), "not told", f"{root}/proc/loadavg")
    else:
        average = to_float(load.split()[0], 0.0)
        says = f"{average:g} in the last minute"
        yield Reading("processors", "load", "load", says, f"{root}/proc/loadavg", {"load": average, "present": present})


def _quota(root: str) -> tuple[float | None, str]:
    """How many processors' time our groups may use: v2 ``cpu.max`` is ``200000 100000``, v1 has a file for each."""
    found = []
    for folder in folders_of("cpu", root):
        words = (text_of(f"{folder}/cpu.max") or "").split()
        if len(words) == 2 and (period := to_count(words[1])) and (quota := to_count(words[0])) is not None:  # noqa: PLR2004
            found.append((quota / period, f"{folder}/cpu.max"))
        quota, period = (number_in(text_of(f"{folder}/cpu.cfs_{name}_us")) for name in ("quota", "period"))
        if quota and period and quota > 0:
            found.append((quota / period, f"{folder}/cpu.cfs_quota_us"))
    return min(found, default=(None, ""))


def scheduler(environment: Mapping[str, str]) -> Iterator[Reading]:
    """Whether jobs are handed to a scheduler from here: a login node is not where they run."""
    found = next((path for name in ("sbatch", "qsub", "bsub") if (path := shutil.which(name))), None)
    inside = next((environment[name] for name in ("SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID") if name in environment), None)
    if inside is not None:
        says = f"inside job {inside}"
        yield Reading("processors", "scheduler", "scheduler", says, "environment", {"login": False, "job": inside})
    elif found:
        says = "jobs can be submitted here; if this is a login node, the compute nodes may differ"
        yield Reading("processors", "scheduler", "scheduler", says, found, {"login": True, "job": None})
