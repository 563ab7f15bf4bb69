"""What this machine lets a job have, where the job runs here: memory, /dev/shm, open files.

On a login node nothing of this machine counts: what ``#SBATCH`` or srun asks for does. The memory limit is the tightest of the
control groups above this process, else what is installed.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from crashcart.model import Evidence, Fact
from crashcart.numbers import to_count
from crashcart.readers.machine import runs_here
from crashcart.readers.machine.groups import folders_of, tightest
from crashcart.readers.machine.reading import number_in, text_of
from crashcart.regular_files import read_start

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.case import Case

__all__ = ["host_facts"]

SHARED = "/dev/shm"  # noqa: S108 - where loaders hand batches over
_KIB = 1024
_SCRIPT = 1 << 20


def host_facts(case: Case) -> Iterator[Fact]:
    """``host.memory_bytes``, ``host.shm_bytes``, ``host.open_files``; for a job that runs elsewhere only what its script sets."""
    said = case.all("script.other_commands")
    texts = "\n".join(str(fact.value) for fact in said)
    raised = re.search(r"ulimit\s+-S?H?n\s+(\d+|unlimited|hard)", texts)
    limit = to_count(raised[1], 0) if raised is not None else 0
    if raised is not None and limit > 0:
        where = _line(said[0].evidence.where.rsplit(":", 1)[0], raised[0]) or said[0].evidence.where
        yield Fact("host.open_files", limit, Evidence("launch", raised[0], where), "flag")
    if not runs_here(case):
        return
    memory = _memory()
    if memory is not None:
        yield memory
    try:
        shm = os.statvfs(SHARED)
    except OSError:
        shm = None
    if shm is not None and shm.f_blocks:
        size = shm.f_blocks * shm.f_frsize
        yield Fact("host.shm_bytes", size, Evidence("machine", f"{size >> 20} MiB", SHARED), "machine")
    if raised is None:
        import resource

        soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        if soft > 0:
            yield Fact("host.open_files", soft, Evidence("machine", f"ulimit -n: {soft}", "this shell"), "machine")


def _line(path: str, text: str) -> str:
    """Where a script says something."""
    try:
        lines = read_start(path, _SCRIPT).decode("utf-8", "replace").split("\n")
        return next((f"{path}:{number}" for number, line in enumerate(lines, 1) if text in line), "")
    except OSError:
        return ""


def _memory() -> Fact | None:
    limit, file = tightest(folders_of("memory"), "memory.max", "memory.limit_in_bytes")
    total = number_in(text_of("/proc/meminfo"), "MemTotal")
    found = [(limit, file)] if limit is not None else []
    if total is not None:
        found.append((total * _KIB, "/proc/meminfo"))
    if not found:
        return None
    size, path = min(found)
    return Fact("host.memory_bytes", size, Evidence("machine", f"{size / 2**30:.1f} GiB", path), "machine")
