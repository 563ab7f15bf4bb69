"""Which job a command belongs to where several machines or tasks run one crashcart each, and which part of it this one is.

Nobody is asked and nobody waits: what the scheduler or the launcher was told is the same on every node, and names the job. Where
it is not told, each node keeps a run of its own, as a single machine does. Two jobs taken for one would be worse than one job
taken for two, so that the host of a rendezvous belongs to the name, however it is spelled.
"""

from __future__ import annotations

import contextlib
import os
import platform
import re
from typing import TYPE_CHECKING, NamedTuple

from crashcart.numbers import to_count
from crashcart.regular_files import read_start

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["GROUP", "NODE", "Part", "part_of"]

# Of the user: runs with the same group meet in one folder; the name of this node where the host's is not its own.
GROUP, NODE = "CRASHCART_GROUP", "CRASHCART_NODE"
_MARK = "CRASHCART_JOB"  # in the environment of whatever runs under crashcart already
_TORCHRUN = ("torchrun", "torch.distributed.run", "torch.distributed.launch")
_ACCELERATE = ("accelerate", "accelerate-launch", "accelerate.commands.launch")
_LOOPBACK = ("localhost", "127.0.0.1", "::1", "0.0.0.0", "")  # noqa: S104 - as words of a command line
_PORT = "29500"
_SETTING = re.compile(r"^(num_machines|machine_rank|main_process_ip|main_process_port):\s*['\"]?([\w.:-]+)", re.MULTILINE)


class Part(NamedTuple):
    """One crashcart among several that record one job."""

    group: str  # the same for all of them
    name: str  # its own
    rank: int | None = None  # of the node, or of the task
    least: int = 1  # how many there are at least
    unique: bool = False  # no later job can have the same group


def part_of(command: Sequence[str], environment: Mapping[str, str]) -> Part | None:
    """The part of a job that this command is; None where it is the whole job, or nothing tells."""
    given = environment.get(GROUP)
    if given:
        rank = _number(environment.get("NODE_RANK") or environment.get("SLURM_NODEID"))
        return _part(environment, given, rank, 1)
    found = _slurm(environment)
    if found is not None or environment.get(_MARK):  # what a recorded job starts has its variables, but is no node of it
        return found
    launcher, flags = _launcher(command)
    if launcher == "torchrun" or (not launcher and _highest(environment.get("PET_NNODES")) > 1):
        return _torchrun(flags, environment)
    if launcher == "accelerate":
        return _accelerate(flags, environment)
    if launcher == "deepspeed":
        return _static(flags, environment, _highest(flags.get("num-nodes"))) if "no-ssh" in flags else None
    return None if launcher else _from_environment(environment)


def _slurm(environment: Mapping[str, str]) -> Part | None:
    """A task of a step that has several: `srun crashcart run -- ...`; a batch script is no step."""
    job, step = environment.get("SLURM_JOB_ID"), environment.get("SLURM_STEP_ID", "")
    tasks = _number(environment.get("SLURM_STEP_NUM_TASKS") or environment.get("SLURM_NTASKS")) or 0
    if not job or not step.isdigit() or tasks < 2:  # noqa: PLR2004 - one task is the whole job
        return None
    again = _number(environment.get("SLURM_RESTART_COUNT"))
    name = f"slurm-{job}.{step}" + (f"-requeue{again}" if again else "")
    return _part(environment, name, _number(environment.get("SLURM_PROCID")), tasks, unique=True)


def _torchrun(flags: Mapping[str, str], environment: Mapping[str, str]) -> Part | None:
    def told(name: str) -> str:
        return flags.get(name) or environment.get("PET_" + name.upper().replace("-", "_"), "")

    nodes = told("nnodes")
    if _highest(nodes) < 2 or "standalone" in flags:  # noqa: PLR2004 - one node is the whole job
        return None
    endpoint = told("rdzv-endpoint") or f"{told('master-addr')}:{told('master-port') or _PORT}"
    name = _place(endpoint)
    if told("rdzv-id") not in {"", "none"}:
        name = f"{told('rdzv-id')}-{name}"
    return _part(environment, name, _number(told("node-rank")), _lowest(nodes))


def _accelerate(flags: dict[str, str], environment: Mapping[str, str]) -> Part | None:
    with contextlib.suppress(OSError):
        text = read_start(flags.get("config-file", ""), 1 << 16).decode("utf-8", "replace")
        flags = {name.replace("_", "-"): value for name, value in _SETTING.findall(text)} | flags
    return _static(flags, environment, _highest(flags.get("num-machines")))


def _static(flags: Mapping[str, str], environment: Mapping[str, str], nodes: int) -> Part | None:
    if nodes < 2 and "hostfile" not in flags:  # noqa: PLR2004 - one node is the whole job
        return None
    host = flags.get("main-process-ip") or flags.get("master-addr", "")
    port = flags.get("main-process-port") or flags.get("master-port") or _PORT
    rank = _number(flags.get("machine-rank") or flags.get("node-rank"))
    return _part(environment, _place(f"{host}:{port}"), rank, max(1, nodes))


def _from_environment(environment: Mapping[str, str]) -> Part | None:
    """Variables that a scheduler, MPI or a launcher around us has set: PyTorchJob, Lightning, `torchrun --no-python crashcart`."""
    get = environment.get
    world, rank = _number(get("OMPI_COMM_WORLD_SIZE")), _number(get("OMPI_COMM_WORLD_RANK"))
    if world and world > 1 and rank is not None and get("PMIX_NAMESPACE"):
        return _part(environment, "mpi-" + environment["PMIX_NAMESPACE"], rank, world)
    host = get("MASTER_ADDR", "")
    name = _place(f"{host}:{get('MASTER_PORT', _PORT)}")
    world, rank = _number(get("WORLD_SIZE")), _number(get("RANK"))
    if host and world and world > 1 and rank is not None:
        run, again = get("TORCHELASTIC_RUN_ID", "none"), _number(get("TORCHELASTIC_RESTART_COUNT"))
        name = (f"{run}-" if run != "none" else "") + name + (f"-restart{again}" if again else "")
        return _part(environment, name, rank, world)
    node = _number(get("NODE_RANK"))
    if node is not None and host not in _LOOPBACK:
        return _part(environment, name, node, _number(get("NNODES")) or 1)
    return None


def _launcher(command: Sequence[str]) -> tuple[str, dict[str, str]]:
    """Which launcher it is, and its flags up to the program that it starts."""
    words = list(command)
    for at, word in enumerate(words):
        name = os.path.basename(word)
        if name in _TORCHRUN or word.endswith("torch/distributed/run.py"):
            return "torchrun", _flags(words[at + 1 :])
        if name in _ACCELERATE:
            return "accelerate", _flags(words[at + 1 :])
        if name == "deepspeed":
            return "deepspeed", _flags(words[at + 1 :])
        if word.endswith((".py", ".sh")):
            break
    return "", {}


def _flags(words: list[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for word, following in zip(words, [*words[1:], ""], strict=True):
        if word.endswith((".py", ".sh")) or word in {"-m", "--module", "--"}:
            break
        if word.startswith("--"):
            name, has_value, value = word[2:].partition("=")
            found.setdefault(name.replace("_", "-"), value if has_value else following)
    return found


def _place(endpoint: str) -> str:
    """Host and port of a rendezvous; a loopback address is this machine."""
    host, _, port = endpoint.strip("[]").rpartition(":") if ":" in endpoint else (endpoint, "", _PORT)
    if host in _LOOPBACK:
        host = platform.node()
    short = host.lower().split(".")[0] if not re.fullmatch(r"[\d.]+", host) else host
    return f"{short}-{port}"


def _part(environment: Mapping[str, str], group: str, rank: int | None, least: int, *, unique: bool = False) -> Part:
    host = environment.get(NODE) or platform.node().split(".")[0] or "node"
    name = host + (f"-{rank}" if rank is not None else "")
    return Part(_safe(group), _safe(name), rank, least, unique)


def _safe(text: str) -> str:
    return re.sub(r"[^\w.-]+", "_", text).lstrip(".")[:80] or "job"


def _number(text: str | None) -> int | None:
    return to_count(text)


def _highest(text: str | None) -> int:
    return _number((text or "").rpartition(":")[2]) or 0


def _lowest(text: str | None) -> int:
    return _number((text or "").partition(":")[0]) or 1
