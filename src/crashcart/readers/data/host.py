"""What this machine lets a job have, where the job runs here: memory, /dev/shm, open files.

On a login node nothing of this machine counts: what ``#SBATCH`` or srun asks for does. The memory limit is the tightest of the
control groups above this process, else what is installed.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from crashcart.model import Evidence, Fact

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.case import Case

__all__ = ["host_facts", "runs_here"]

ELSEWHERE = (
    "launch.tasks", "launch.tasks_per_node", "launch.memory_bytes", "launch.memory_per_cpu_bytes", "launch.memory_per_gpu_bytes",
    "launch.time_limit_seconds", "launch.cpus_per_task", "launch.gpus_per_task", "launch.gpus", "launch.gpus_per_node",
)  # fmt: skip
SHARED = "/dev/shm"  # noqa: S108 - where loaders hand batches over
_KIB = 1024


def runs_here(case: Case) -> bool:
    """Whether the command starts the training on this machine."""
    kind = case.facts.get("launch.kind")
    nodes = case.facts.get("launch.nodes")
    if kind is None or kind.value == "srun" or any(name in case.facts for name in ELSEWHERE):
        return False
    return nodes is None or nodes.value == 1


def host_facts(case: Case) -> Iterator[Fact]:
    """``host.memory_bytes``, ``host.shm_bytes``, ``host.open_files``; nothing for a job that runs elsewhere."""
    if not runs_here(case):
        return
    said = "\n".join(str(fact.value) for fact in case.all("script.other_commands"))
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
    raised = re.search(r"ulimit\s+-S?n\s+(\d+|unlimited)", said)
    if raised is None or raised[1].isdigit():
        import resource

        soft = int(raised[1]) if raised is not None else resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        if soft > 0:
            yield Fact("host.open_files", soft, Evidence("machine", f"ulimit -n: {soft}", "this shell"), "machine")


def _memory() -> Fact | None:
    found: list[tuple[int, str]] = []
    for path in _limits():
        try:
            with open(path, encoding="ascii") as file:
                text = file.read().strip()
        except (OSError, ValueError):
            continue
        if text.isdigit() and 0 < int(text) < 1 << 60:
            found.append((int(text), path))
    try:
        with open("/proc/meminfo", encoding="ascii") as file:
            total = re.search(r"MemTotal:\s+(\d+)", file.read())
    except OSError:
        total = None
    if total is not None:
        found.append((int(total[1]) * _KIB, "/proc/meminfo"))
    if not found:
        return None
    size, path = min(found)
    return Fact("host.memory_bytes", size, Evidence("machine", f"{size / 2**30:.1f} GiB", path), "machine")


def _limits() -> Iterator[str]:
    """The files that may hold a limit, of every control group above this process."""
    try:
        with open("/proc/self/cgroup", encoding="utf-8", errors="replace") as file:
            lines = file.read().split("\n")
    except OSError:
        return
    for line in lines:
        number, controllers, path = [*line.split(":", 2), "", "", ""][:3]
        if number == "0" or "memory" in controllers.split(","):
            root, name = (
                ("/sys/fs/cgroup", "memory.max") if number == "0" else ("/sys/fs/cgroup/memory", "memory.limit_in_bytes")
            )
            parts = [part for part in path.split("/") if part not in {"", ".."}]
            yield from (os.path.join(root, *parts[:length], name) for length in range(len(parts) + 1))
