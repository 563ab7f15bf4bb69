"""What a process of the job is for, told from its command line, its environment and its parent.

The command line alone does not say it: a forked loader worker has its parent's, and every process below a rank inherits ``RANK``.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from crashcart.run.outside.process import Process

__all__ = ["COMPILE", "LAUNCHER", "LOADER", "OTHER", "RANK", "SHELL", "TRACKER", "only_launches", "role_of", "stated_rank"]

LAUNCHER, RANK, LOADER, TRACKER, COMPILE, SHELL, OTHER = (
    "launcher", "rank", "loader worker", "tracker", "compile worker", "shell", "other",
)  # fmt: skip

_SHELLS = frozenset(("sh", "bash", "dash", "ash", "zsh", "ksh", "fish", "csh", "tcsh", "busybox"))
_LAUNCHERS = frozenset((
    "torchrun", "accelerate", "accelerate-launch", "deepspeed", "mpirun", "mpiexec", "orterun", "horovodrun", "srun", "fabric", "lightning",
    "colossalai", "pt_elastic", "torch.distributed.run", "torch.distributed.launch", "accelerate.commands.launch",
    "deepspeed.launcher.launch", "deepspeed.launcher.runner", "torch/distributed/run.py", "torch/distributed/launch.py",
    "crashcart", "crashcart.cli", "crashcart/__main__.py", "crashcart/cli.py", "accelerate/commands/launch.py", "deepspeed/launcher/launch.py", "deepspeed/launcher/runner.py",
))  # fmt: skip
_TRACKERS = (
    "wandb-core", "wandb-service", "wandb-symon", "wandb-xpu", "gpu_stats", "wandb", "tensorboard", "tensorboard.main", "mlflow", "aim", "trackio",
)  # fmt: skip
_COMPILE = ("torch._inductor.compile_worker", "_inductor/compile_worker")
# What multiprocessing starts beside its workers: `from multiprocessing.resource_tracker import main;main(5)`
_SERVANTS = ("multiprocessing.resource_tracker", "multiprocessing.forkserver")
_RANKS = (b"RANK", b"OMPI_COMM_WORLD_RANK", b"LOCAL_RANK")
_PYTHONS = ("python", "pypy")
_TAKES_VALUE = frozenset(("-X", "-W", "--check-hash-based-pycs"))


def stated_rank(environ: bytes) -> int | None:
    """The rank that the launcher wrote into the environment."""
    values = dict(entry.partition(b"=")[::2] for entry in environ.split(b"\0") if entry[:1] in b"ROL")
    return next((int(values[name]) for name in _RANKS if values.get(name, b"").isdigit()), None)


def role_of(process: Process) -> tuple[str, int | None, bool]:
    """Role, rank, and whether that rank is only assumed: a single ``python train.py`` has none in its environment."""
    if process.told is not None:
        return RANK, process.told, False
    above = _nearest_rank(process)
    rank = above.rank if above else None
    program, target = _named(process.arguments)
    role = _by_name(process, program, target)
    if role:
        return role, rank, False
    if process.comm.startswith("pt_data_worker"):
        return LOADER, rank, False
    if above is None:
        return _top(process, program, target)
    if process.stated is not None and process.stated != above.rank and not _is_copy(process, target):
        return RANK, process.stated, False
    return (LOADER if _is_worker(process, above, target) else OTHER), rank, False


def only_launches(process: Process) -> Process | None:
    """The process above that was taken for this rank, and now turns out to have started it."""
    above = _nearest_rank(process)
    if above is None or not above.assumed:
        return None
    if process.told is not None:
        return above if process.told == above.rank else None
    program, target = _named(process.arguments)
    starts = process.stated == above.rank and program.startswith(_PYTHONS) and not _is_copy(process, target)
    return above if starts and _by_name(process, program, target) is None else None


def _top(process: Process, program: str, target: str) -> tuple[str, int | None, bool]:
    """The role of a process that has no rank above it."""
    servant = target.startswith("from multiprocessing")
    if process.launches:
        return LAUNCHER, None, False
    if process.stated is not None and not servant and not (process.forked and process.parent):
        return RANK, process.stated, False
    if process.parent is not None and process.parent.role not in (LAUNCHER, SHELL):
        return OTHER, None, False
    if not servant and not process.forked and (program.startswith(_PYTHONS) or _runs_python(process)):
        return RANK, 0, True
    return (LAUNCHER if process.parent is None else OTHER), None, False


def _runs_python(process: Process) -> bool:
    """Whether the program is Python, whatever it calls itself: ``setproctitle`` writes over the command line."""
    try:
        return os.path.basename(os.readlink(f"/proc/{process.pid}/exe")).startswith(_PYTHONS)
    except OSError:
        return False


def _by_name(process: Process, program: str, target: str) -> str | None:
    names = {program, target, target.rsplit("/", 1)[-1], "/".join(target.rsplit("/", 3)[-3:])}
    if any(name == known or name.startswith(known + "(") for known in _TRACKERS for name in names):
        return TRACKER
    if process.comm.startswith("wandb-"):
        return TRACKER
    if any(part in argument for argument in process.arguments[:4] for part in _COMPILE):
        return COMPILE
    if program in _SHELLS:
        return SHELL
    return LAUNCHER if names & _LAUNCHERS else None


def _is_copy(process: Process, target: str) -> bool:
    return process.forked or target.startswith("from multiprocessing")


def _is_worker(process: Process, above: Process, target: str) -> bool:
    if process.parent is above:
        return _is_copy(process, target) and not any(name in target for name in _SERVANTS)
    served = process.parent
    return process.forked and served is not None and served.parent is above and _SERVANTS[1] in target


def _nearest_rank(process: Process) -> Process | None:
    above = process.parent
    while above is not None and above.role != RANK:
        above = above.parent
    return above


def _named(arguments: tuple[str, ...]) -> tuple[str, str]:
    """The program, and for an interpreter the script, module or code that it runs."""
    if not arguments:
        return "", ""
    program = arguments[0].split(" ", 1)[0].lstrip("-").rsplit("/", 1)[-1]
    if not program.startswith(_PYTHONS):
        return program, ""
    rest = iter(arguments[1:])
    for argument in rest:
        if argument in _TAKES_VALUE:
            next(rest, None)
        elif argument in ("-m", "-c"):
            return program, next(rest, "").strip()
        elif not argument.startswith("-"):
            return program, argument
    return program, ""
