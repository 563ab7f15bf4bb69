"""This machine, as a user without rights can read it: for ``doctor``, and for a job that ``check`` knows to run here.

What is read is never judged here; causes do that (``in_machine``), and ``fitness`` where no cause is meant. Nothing is changed,
and nothing of the user's is started. ``dmesg`` is the only program that is asked.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from crashcart.errors import our_errors
from crashcart.readers.machine.reading import Reading, fact_of
from crashcart.regular_files import read_start

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from crashcart.case import Case
    from crashcart.model import Fact

__all__ = ["Reading", "machine_facts", "readings", "runs_here"]

SCHEDULED = re.compile(r"^#(?:SBATCH|PBS|BSUB|\$ |COBALT|OAR)", re.MULTILINE)
# What only a scheduler is asked for, in headers or as flags.
ASKED_FOR = tuple(
    f"launch.{name}"
    for name in (
        "tasks", "tasks_per_node", "memory_bytes", "memory_per_cpu_bytes", "memory_per_gpu_bytes", "time_limit_seconds",
        "cpus_per_task", "gpus_per_task", "gpus", "gpus_per_node",
    )
)  # fmt: skip
AWAY = re.compile(
    r"(?:^|[\s/])(?:srun|sbatch|ssh|pdsh|kubectl|docker|podman|singularity|apptainer|enroot|mpirun|ray|sky)\s|\s--?(?:hostfile|H)[= ]"
)


def readings(facts: Mapping[str, Fact]) -> Iterator[Reading]:
    """Every line of ``doctor``, with what a job says of itself where there is one."""
    from crashcart.readers.machine import disks, gpus, kernel_log, network, torch_build
    from crashcart.readers.machine.nvml import cards

    yield from _host()
    yield from disks.look(os.environ)
    yield from kernel_log.look()
    yield from gpus.look(cards(), os.environ)
    yield from torch_build.look(facts)
    yield from network.look(facts, os.environ)


def machine_facts(case: Case) -> None:
    """Put what bears on this job into ``case.seen["machine.*"]``; nothing where it will run elsewhere, or may."""
    if not runs_here(case):
        return
    with our_errors("this machine", case.could_not_look):  # one of another kind must not cost the answer about the job
        for reading in _for_a_job(case):
            if reading.known:
                case.seen.setdefault(f"machine.{reading.name}", []).append(fact_of(reading))


def _for_a_job(case: Case) -> Iterator[Reading]:
    from crashcart.readers.machine import gpus, kernel_log, network, torch_build
    from crashcart.readers.machine.nvml import cards

    yield from _host()
    found = cards()
    yield from gpus.look(found, os.environ)
    if found.each:
        yield from (reading for reading in kernel_log.look() if reading.name == "xid")
        yield from torch_build.look(case.facts)
    yield from network.look(case.facts, os.environ)


def _host() -> Iterator[Reading]:
    from crashcart.readers.machine import limits, memory

    yield from memory.look()
    yield from limits.look(os.environ)
    yield from limits.scheduler(os.environ)


def runs_here(case: Case) -> bool:
    """Whether the job, started as it stands, would run on this machine: no scheduler, no other node, no container, no ssh."""
    kind, command = case.facts.get("launch.kind"), case.facts.get("command.text")
    if kind is None or command is None or kind.value in {"srun", "mpirun"} or AWAY.search(f"{command.value} "):
        return False
    nodes = case.facts.get("launch.nodes")
    if (nodes is not None and nodes.value != 1) or any(name in case.facts for name in ASKED_FOR):
        return False
    return not SCHEDULED.search(_script(command.evidence.where))


def _script(where: str) -> str:
    path = where.rsplit(":", 1)[0]
    try:
        return read_start(path, 1 << 20).decode("utf-8", "replace")
    except OSError:
        return ""
