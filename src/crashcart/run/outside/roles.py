"""What a process of the job is for, told from its command line, its environment and its parent.

The command line alone does not say it: a forked loader worker has its parent's, every process below a rank inherits ``RANK``, and
so does everything that a script starts where the user's shell has one. A rank is a process that a launcher started as one, or that
takes optimizer steps. Any other Python program of a script is only taken for rank 0 (``assumed``) until one of them is known.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from crashcart.run.outside.process import Process

__all__ = [
    "COMPILE", "LAUNCHER", "LOADER", "OTHER", "PROGRAM", "RANK", "SHELL", "TRACKER", "WRAPPER", "only_launches", "recorded_role", "role_of",
    "stated_rank", "wraps",
]  # fmt: skip

LAUNCHER, RANK, PROGRAM, LOADER, TRACKER, COMPILE, SHELL, WRAPPER, OTHER = (
    "launcher", "rank", "program", "loader worker", "tracker", "compile worker", "shell", "wrapper", "other",
)  # fmt: skip

_SHELLS = frozenset(("sh", "bash", "dash", "ash", "zsh", "ksh", "fish", "csh", "tcsh", "busybox"))
_LAUNCHERS = frozenset((
    "torchrun", "accelerate", "accelerate-launch", "deepspeed", "mpirun", "mpiexec", "orterun", "horovodrun", "srun", "fabric", "lightning",
    "colossalai", "pt_elastic", "torch.distributed.run", "torch.distributed.launch", "accelerate.commands.launch",
    "deepspeed.launcher.launch", "deepspeed.launcher.runner", "torch/distributed/run.py", "torch/distributed/launch.py",
    "crashcart", "crashcart.cli", "crashcart/__main__.py", "crashcart/cli.py", "accelerate/commands/launch.py", "deepspeed/launcher/launch.py", "deepspeed/launcher/runner.py",
))  # fmt: skip
# Programs that start another one, wait for it and end as it ended. Those that become it (nohup, env, nice) are seen only for a moment.
_WRAPPERS = frozenset((
    "timeout", "nohup", "env", "nice", "ionice", "chrt", "taskset", "numactl", "stdbuf", "unbuffer", "script", "time", "setsid", "sudo", "xvfb-run",
    "conda", "mamba", "micromamba", "uv", "uvx", "poetry", "pipenv", "pdm", "hatch", "pixi", "strace", "nsys", "ncu", "dumb-init", "tini", "flock",
))  # fmt: skip
_TRACKERS = (
    "wandb-core", "wandb-service", "wandb-symon", "wandb-xpu", "gpu_stats", "wandb", "tensorboard", "tensorboard.main", "mlflow", "aim", "trackio",
)  # fmt: skip
_COMPILE = ("torch._inductor.compile_worker", "_inductor/compile_worker")
# What multiprocessing starts beside its workers: `from multiprocessing.resource_tracker import main;main(5)`
_SERVANTS = ("multiprocessing.resource_tracker", "multiprocessing.forkserver")
_RANKS = (b"RANK", b"OMPI_COMM_WORLD_RANK", b"LOCAL_RANK")
_SIZES = (b"WORLD_SIZE", b"OMPI_COMM_WORLD_SIZE")
_PYTHONS = ("python", "pypy")
_TAKES_VALUE = frozenset(("-X", "-W", "--check-hash-based-pycs"))


def stated_rank(environ: bytes) -> tuple[int | None, bool]:
    """The rank that stands in the environment, and whether it is said to be one of several."""
    values = dict(entry.partition(b"=")[::2] for entry in environ.split(b"\0") if entry[:1] in b"ROLW")
    rank = next((int(values[name]) for name in _RANKS if values.get(name, b"").isdigit()), None)
    return rank, any(values.get(name, b"").isdigit() and int(values[name]) > 1 for name in _SIZES)


def recorded_role(process: Process) -> str:
    """The role that is written down: a program that was only taken for rank 0 is one once it takes optimizer steps."""
    return PROGRAM if process.role == RANK and process.assumed and not process.trained else process.role


def role_of(process: Process) -> tuple[str, int | None, bool]:
    """Role, rank, and whether that rank is only assumed: a single ``python train.py`` has none in its environment."""
    if process.told is not None:
        return RANK, process.told, False
    above = _nearest_rank(process)
    if process.trained and (above is None or _only_assumed(above)):
        return RANK, process.stated or 0, process.stated is None or not _set_by_launcher(process)
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
    if above is None or not _only_assumed(above):
        return None
    if process.told is not None:
        return above if process.told == above.rank else None
    if process.trained or wraps(above.command, process.command):
        return above
    program, target = _named(process.arguments)
    starts = process.stated == above.rank and program.startswith(_PYTHONS) and not _is_copy(process, target)
    return above if starts and _by_name(process, program, target) is None else None


def wraps(command: str, started: str) -> bool:
    """Whether a command line ends with the one that it started: ``guard.py 600 python train.py`` and ``python train.py``."""
    program, _, rest = started.partition(" ")
    head, found, tail = command.rpartition(f" {rest}") if rest else ("", "", "-")
    same = head.rpartition(" ")[2].rpartition("/")[2], program.rpartition("/")[2]
    alike = same[0] == same[1] or all(name.startswith(_PYTHONS) for name in same)
    return bool(found) and not tail and " " in head and alike


def _only_assumed(process: Process) -> bool:
    return process.assumed and not process.trained


def _set_by_launcher(process: Process) -> bool:
    """Whether the rank in the environment is a launcher's word: a lone one that the whole job inherits may be the user's shell's."""
    if process.of_several:
        return True
    root = process
    while root.parent is not None:
        root = root.parent
        if root.role == LAUNCHER:
            return True
    return root is not process and root.stated != process.stated


def _top(process: Process, program: str, target: str) -> tuple[str, int | None, bool]:
    """The role of a process that has no rank above it."""
    servant = target.startswith("from multiprocessing")
    if process.launches:
        return process.launches, None, False
    copied = process.forked and process.parent is not None
    if process.stated is not None and not servant and not copied and _set_by_launcher(process):
        return RANK, process.stated, False
    if process.parent is not None and process.parent.role not in (LAUNCHER, SHELL, WRAPPER):
        return OTHER, None, False
    if not servant and not process.forked and (program.startswith(_PYTHONS) or _runs_python(process)):
        return RANK, process.stated or 0, True
    return (WRAPPER if process.parent is None else OTHER), None, False


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
    if names & _WRAPPERS:
        return WRAPPER
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
