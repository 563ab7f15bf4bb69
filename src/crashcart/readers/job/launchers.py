"""What stands before the program in a launch command: launchers, wrappers, and the options that belong to them.

    nohup srun -N 2 --mem 200G torchrun --nproc_per_node 8 train.py ...      #SBATCH --time=1-00:00:00

An option takes a value unless it is known to be a switch or a program name follows it: launchers gain options, and a wrong
guess would hide the program. srun and sbatch share their options; times, sizes and devices are turned into numbers, because
``--mem=200G`` is the limit that the kernel enforces and ``--time`` the moment when the job is killed.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any

from crashcart.numbers import slurm_seconds, to_count, to_float, to_int, whole_product
from crashcart.record import field, record

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from crashcart.readers.job.words import Word

__all__ = ["SLURM", "Launch", "Option", "peel", "slurm_setting", "typed"]

LAUNCHERS = {
    "torchrun": "torchrun",
    "accelerate launch": "accelerate",
    "accelerate-launch": "accelerate",
    "deepspeed": "deepspeed",
    "srun": "srun",
    "mpirun": "mpirun",
    "mpiexec": "mpirun",
    "orterun": "mpirun",
    "horovodrun": "mpirun",
    "torch.distributed.run": "torchrun",
    "torch.distributed.launch": "torch.distributed.launch",
    "accelerate.commands.launch": "accelerate",
    "deepspeed.launcher.runner": "deepspeed",
}
# Wrappers and how many words of their own stand after their options.
WRAPPERS = {
    "nohup": 0, "exec": 0, "time": 0, "setsid": 0, "stdbuf": 0, "nice": 0, "ionice": 0, "numactl": 0, "sudo": 0, "env": 0,
    "uv run": 0, "poetry run": 0, "pdm run": 0, "pipenv run": 0, "conda run": 0, "mamba run": 0, "micromamba run": 0,
    "xvfb-run": 0, "command": 0, "crashcart run": 0, "timeout": 1, "taskset": 0, "singularity exec": 1, "apptainer exec": 1,
}  # fmt: skip
SWITCHES = frozenset({
    "standalone", "m", "module", "no_python", "run_path", "use_env",  # torchrun
    "multi_gpu", "cpu", "mps", "tpu", "ipex", "use_xpu", "use_cpu", "use_deepspeed", "use_fsdp", "use_megatron_lm", "use_tp",
    "quiet", "q", "debug", "same_network", "downcast_bf16", "dynamo_use_fullgraph", "dynamo_use_dynamic",  # accelerate
    "enable_cpu_affinity", "tpu_use_cluster", "tpu_use_sudo",  # accelerate
    "force_multi", "save_pid", "no_local_rank", "bind_cores_to_rank", "elastic_training", "no_ssh", "no_ssh_check",  # deepspeed
    "l", "label", "u", "unbuffered", "exclusive", "kill_on_bad_exit", "K", "pty", "overlap", "verbose", "v", "requeue",  # srun
    "allow_run_as_root", "oversubscribe", "tag_output", "report_bindings",  # mpirun
    "i", "ignore_environment", "E", "no_capture_output", "live_stream", "foreground", "preserve_status", "localalloc",
    "frozen", "nv",  # wrappers
})  # fmt: skip
NO_SWITCHES = {("deepspeed", "i"), ("deepspeed", "e")}  # cards to include, where env's -i is a switch
PROGRAMS = frozenset(
    {
        "llamafactory-cli",
        "axolotl",
        "fairseq-train",
        "fairseq-hydra-train",
        "lerobot-train",
        "tune",
        "composer",
        "xtuner",
        "swift",
    }
)
PYTHON = re.compile(r"python[\d.]*")
PYTHON_VALUES = {"-W", "-X"}
NOT_TRAINING = {"pip", "venv", "http.server", "tensorboard.main", "json.tool", "zipfile", "pytest", "site"}
LOCATION = re.compile(r".*\.(?:py|sh)")
VARIABLE = re.compile(r"\$(?:\w+|\{\w+(?:\[[@*]\])?\})")
A_PROGRAM = re.compile(r"(?i)script|prog|main|entry|file|train|py|cmd|command|module|exec|runner")
SOME_OPTIONS = re.compile(r"(?i)arg|opt|extra|flag|launch|dist|accel|torch|ds")
NUMBER = re.compile(r"-?\.?\d")
SLURM = {
    "N": "launch.nodes", "nodes": "launch.nodes", "n": "launch.tasks", "ntasks": "launch.tasks",
    "ntasks_per_node": "launch.tasks_per_node", "c": "launch.cpus_per_task", "cpus_per_task": "launch.cpus_per_task",
    "G": "launch.gpus", "gpus": "launch.gpus", "gpus_per_node": "launch.gpus_per_node", "gres": "launch.gpus_per_node",
    "gpus_per_task": "launch.gpus_per_task", "mem": "launch.memory_bytes", "mem_per_cpu": "launch.memory_per_cpu_bytes",
    "mem_per_gpu": "launch.memory_per_gpu_bytes", "t": "launch.time_limit_seconds", "time": "launch.time_limit_seconds",
    "signal": "launch.signal", "requeue": "launch.requeue",
}  # fmt: skip
UNITS = {"": 1 << 20, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}


@record(frozen=True)
class Option:
    """One option of a launcher: which launcher, the flag, and its value where it has one (a word and where it begins)."""

    launcher: str
    flag: Word
    value: Word | None = None
    begin: int = 0

    @property
    def name(self) -> str:
        """The option without dashes, with underscores."""
        return self.flag.text.split("=", 1)[0].lstrip("-").replace("-", "_")


@record
class Launch:
    """A launch command taken apart; ``program`` is the script or module with its own arguments."""

    kind: str = ""
    options: list[Option] = field(default_factory=list)
    environment: list[Word] = field(default_factory=list)
    program: list[Word] = field(default_factory=list)


def peel(words: Sequence[Word], *, certain: bool = False, installed: Collection[str] = ()) -> Launch | None:
    """Take launchers and wrappers off a command; None where it starts no training, unless the caller is ``certain``.

    ``installed`` are the commands that the project installs.
    """
    launch, rest = Launch(), list(words)
    while rest:
        head, length = _head(rest)
        if head in LAUNCHERS:
            kind = LAUNCHERS[head]
            launch.kind = launch.kind if launch.kind and kind in {"srun", "mpirun"} else kind
            rest = _options(rest[length:], kind, launch)
        elif head == "command" and len(rest) > 1 and rest[1].text in {"-v", "-V"}:
            return None  # it only looks where the program is
        elif head in WRAPPERS:
            rest = _options(rest[length:], "", launch)[WRAPPERS[head] :]
            while head == "env" and rest and "=" in rest[0].text:
                launch.environment.append(rest.pop(0))
        elif PYTHON.fullmatch(head) and not _launching_module(rest := _after_python(rest)):
            break
        elif not PYTHON.fullmatch(head) and head.endswith(".py"):
            launch.kind = launch.kind or "python"  # a file that names its interpreter itself
            break
        elif not PYTHON.fullmatch(head):
            known = launch.kind or head in PROGRAMS or head in installed or certain
            launch.kind, rest = (launch.kind or "program", rest) if known else ("", [])
            break
    if not rest or rest[0].text in NOT_TRAINING or rest[0].text.startswith("-"):
        return None
    return Launch(launch.kind or "python", launch.options, launch.environment, rest)


def _head(rest: list[Word]) -> tuple[str, int]:
    name = os.path.basename(rest[0].text)
    both = f"{name} {rest[1].text}" if len(rest) > 1 else name
    return (both, 2) if both in LAUNCHERS or both in WRAPPERS else (name, 1)


def _launching_module(rest: list[Word]) -> bool:
    return bool(rest) and rest[0].text in LAUNCHERS


def _after_python(rest: list[Word]) -> list[Word]:
    """The script or module that an interpreter starts; nothing for ``python -c`` and a bare interpreter."""
    at = 1
    while at < len(rest) and rest[at].text.startswith("-"):
        if rest[at].text.endswith("m") and not rest[at].text.startswith("--"):
            return rest[at + 1 :]
        if rest[at].text.endswith("c"):
            return []
        at += 2 if rest[at].text in PYTHON_VALUES else 1
    return rest[at:]


def _options(rest: list[Word], launcher: str, launch: Launch) -> list[Word]:
    """Collect the options that a launcher takes; what remains begins with the first word that is none."""
    at = 0
    while at < len(rest) and ((rest[at].text.startswith("-") and rest[at].text != "--") or _more_options(rest, at)):
        flag = rest[at]
        if not flag.text.startswith("-"):
            at += 1
            continue
        at += 1
        option = Option(launcher, flag)
        if "=" in flag.text:
            option = Option(launcher, flag, flag, flag.text.index("=") + 1)
        elif (
            (option.name not in SWITCHES or (launcher, option.name) in NO_SWITCHES)
            and at < len(rest)
            and _may_be_value(rest[at].text)
        ):
            option = Option(launcher, flag, rest[at])
            at += 2 if option.name == "mca" else 1
        launch.options.append(option)
    return rest[at + 1 :] if at < len(rest) and rest[at].text == "--" else rest[at:]


def _more_options(rest: list[Word], at: int) -> bool:
    """``torchrun $EXTRA train.py``: a variable that is set elsewhere, or not at all, where the program stands behind it."""
    text = rest[at].text
    if rest[at].known or not VARIABLE.fullmatch(text) or A_PROGRAM.search(text):
        return False
    behind = next((one.text for one in rest[at + 1 :] if not VARIABLE.fullmatch(one.text)), "")
    if behind.startswith("-"):
        return bool(SOME_OPTIONS.search(text)) and any(LOCATION.fullmatch(one.text) for one in rest[at + 1 :])
    return bool(LOCATION.fullmatch(behind) or PYTHON.fullmatch(behind) or behind in LAUNCHERS or behind in WRAPPERS)


def _may_be_value(text: str) -> bool:
    if text.startswith("-"):
        return bool(NUMBER.match(text))
    return not LOCATION.fullmatch(text) and text not in LAUNCHERS and not PYTHON.fullmatch(text)


def typed(text: str) -> Any:  # noqa: ANN401 - data enters here
    """A value as a parser with types gives it: whole numbers, numbers, truth values, else the text."""
    text = text.strip()
    if text.lower() in {"true", "false"}:
        return text.lower() == "true"
    plain = text.rstrip("_")
    whole = to_int(plain, text) if re.fullmatch(r"[-+]?\d[\d_]*", text) else text
    number = re.fullmatch(r"[-+]?(?:\d[\d_]*(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?", text)
    return to_float(plain, text) if whole is text and number else whole


def slurm_setting(option: str, text: str) -> tuple[str, Any]:
    """The name and value of an option of srun or sbatch: times in seconds, sizes in bytes, devices counted."""
    name = SLURM[option]
    parsers = (("_bytes", _size_bytes), ("time_", slurm_seconds), (".gpus", _devices))
    value = next((parse for key, parse in parsers if key in name), typed)(text)
    return name, text if value is None else value


def _size_bytes(text: str) -> int | None:
    """A Slurm memory size; a bare number is mebibytes."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([kmgt]?)b?", text.lower())
    return whole_product(match.group(1), UNITS[match.group(2)]) if match else None


def _devices(text: str) -> int | None:
    """How many GPUs ``8``, ``a100:8`` or ``gpu:a100:8`` ask for."""
    match = re.fullmatch(r"(?:gpu:)?(?:[a-z][\w.-]*:)?(\d+)(?:\(.*\))?|gpu", text.lower())
    return to_count(match.group(1) or 1) if match else None
