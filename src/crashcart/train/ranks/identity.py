"""Which rank this process is, on which machine, and whether another process that named itself is still alive."""

from __future__ import annotations

import os
import socket
import sys
import time
from functools import lru_cache
from typing import Any

from crashcart.record import record

__all__ = ["Here", "age", "alive", "here", "machine", "process_of", "signature"]

# Launchers and what they call rank, world size and local rank; torch's own names first.
SPELLINGS = (
    ("RANK", "WORLD_SIZE", "LOCAL_RANK"),
    ("SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID"),
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"),
    ("PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID"),
)
TORCH_SPELLING = SPELLINGS[:1]


@record
class Here:
    """This process among the others of its job."""

    rank: int
    world: int
    local_rank: int | None
    node: str
    joined: bool
    """Whether torch.distributed is initialised."""


def here(*, any_launcher: bool = False) -> Here:
    """Ask torch.distributed where it is initialised, else the variables of torchrun (of any launcher, if asked)."""
    node = os.environ.get("GROUP_RANK") or machine()
    spellings = SPELLINGS if any_launcher else TORCH_SPELLING
    named = next((names for names in spellings if _number(names[0]) is not None), SPELLINGS[0])
    rank, world, local = (_number(name) for name in named)
    distributed = _distributed()
    if distributed is not None:
        return Here(distributed.get_rank(), distributed.get_world_size(), local, node, joined=True)
    return Here(rank or 0, world or 1, local, node, joined=False)


def _number(name: str) -> int | None:
    text = os.environ.get(name, "")
    return int(text) if text.isdecimal() else None


def _distributed() -> Any:  # noqa: ANN401 - torch.distributed, which is not loaded where nobody else did
    if "torch" not in sys.modules:
        return None
    from torch import distributed

    return distributed if distributed.is_available() and distributed.is_initialized() else None


@lru_cache(maxsize=1)
def machine() -> str:
    """A name of this machine that no other has: containers share boot ids, clones share host names."""
    return f"{socket.gethostname()} {_text('/proc/sys/kernel/random/boot_id')}"


def signature() -> dict[str, Any]:
    """What others need to tell later whether this process still lives; not cached, since a fork is another process."""
    pid = os.getpid()
    return {"machine": machine(), "space": _space(), "pid": pid, "start": _start(pid)}


def alive(process: dict[str, Any]) -> bool | None:
    """Whether the process that signed so still runs; None where that cannot be seen from here (another machine)."""
    if process.get("machine") != machine() or process.get("space") != _space() or not _space():
        return None
    return process.get("start") is not None and _start(process["pid"]) == process["start"]


def process_of(rank: int) -> dict[str, Any] | None:
    """The signature of a rank that the same torchrun has started on this machine, by the variables it was given; the oldest such.

    Its own workers have them too, and a program may have overwritten them: that one is not found says nothing.
    """
    wanted = {f"{name}={os.environ.get(name)}" for name in ("TORCHELASTIC_RUN_ID", "MASTER_PORT")} | {f"RANK={rank}"}
    if "TORCHELASTIC_RUN_ID" not in os.environ or not os.path.isdir("/proc/self"):
        return None
    found = [
        (start, int(pid))
        for pid in os.listdir("/proc")
        if pid.isdecimal() and wanted <= set(_text(f"/proc/{pid}/environ").split("\0"))
        if (start := _start(int(pid))) is not None
    ]
    return {"machine": machine(), "space": _space(), "pid": min(found)[1], "start": min(found)[0]} if found else None


def age() -> float | None:
    """Seconds since this process was started; None where the kernel does not say."""
    ticks = _start(os.getpid())
    if ticks is None:
        return None
    return time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")


def _space() -> str:
    try:
        return os.readlink("/proc/self/ns/pid")
    except OSError:
        return ""


def _start(pid: int) -> int | None:
    """The start of a process in ticks since boot, which tells it from a later one of the same number; None once it is dead."""
    fields = _text(f"/proc/{pid}/stat").rpartition(")")[2].split()
    return int(fields[19]) if len(fields) > 19 and fields[0] not in "ZX" else None  # noqa: PLR2004 - the 22nd of proc(5)


def _text(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read().strip()
    except OSError:
        return ""
