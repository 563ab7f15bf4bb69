"""The healthy programs that must not notice `crashcart run`: what each is started with, what it needs, and where it is run.

A program is healthy if it does on purpose whatever it does, and the same every time: some exit with an error code, some kill
themselves. The programs are written as their authors would write them; nothing in them knows that it is compared.
"""

from __future__ import annotations

import functools
import glob
import importlib.util
import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

__all__ = ["CONTROL", "PROGRAMS", "PROMPT", "Program", "program_named", "read_rows", "why_skipped"]

PROMPT = b"> "  # ends every prompt of a program that is run on a terminal and reads what is typed

_FOLDER = str(Path(__file__).parent / "programs")


@dataclass(frozen=True)
class Program:
    """One row: a command in a folder that holds `files`, found in `programs/`."""

    name: str
    command: tuple[str, ...]
    files: tuple[str, ...]
    exit_code: int = 0
    needs: tuple[str, ...] = ()  # modules, or programs as `uv!`
    gpu: str = "no"  # `no`: runs without one; `may`: uses one where there is one; `must`: skipped elsewhere
    ci: bool = False
    stdin: str | None = None
    terminal: bool = False
    python: str = ""  # "3.8": another interpreter than the one that compares
    any_order: bool = False  # several processes print, in whatever order
    documented: str = ""  # why its standard output, and nothing else, differs under `crashcart run`, as we say in public
    environment: dict[str, str] = field(default_factory=dict)
    timeout_seconds: float = 90.0
    folder: str = _FOLDER  # where its files are

    @property
    def uses_gpu(self) -> bool:
        """Whether it may see a GPU."""
        return self.gpu != "no"

    @property
    def interpreter(self) -> str:
        """What `python` means in its command."""
        return _interpreter(self.python) or "" if self.python else sys.executable

    @property
    def label(self) -> str:
        """Its name where it is a row of this file, else the file of its row and its name: `program_named` takes either."""
        return self.name if self.folder == _FOLDER else f"{self.folder}/rows.json:{self.name}"


def why_skipped(program: Program) -> str:
    """Why a program cannot run here; empty if it can."""
    if program.gpu == "must" and not has_gpu():
        return "needs an NVIDIA GPU"
    if program.python and not _interpreter(program.python):
        return f"no Python {program.python} here"
    for need in program.needs:
        if need.startswith("python>="):
            if sys.version_info < tuple(int(part) for part in need[8:].split(".")):
                return f"needs Python {need[8:]}"
        elif need.endswith("!"):
            if (
                shutil.which(need[:-1], path=os.pathsep.join([os.path.dirname(sys.executable), os.environ.get("PATH", "")]))
                is None
            ):
                return f"{need[:-1]} is not installed"
        elif importlib.util.find_spec(need) is None:
            return f"{need} is not installed"
    return ""


def read_rows(path: Path) -> dict[str, Program]:
    """Programs of somebody else's: a `rows.json` beside them, with `name`, `command`, `files` (or folders) and more of a row."""
    rows = json.loads(path.read_text(encoding="utf-8"))
    folder = str(path.resolve().parent)
    fitted = [{"gpu": "may", **row, "command": tuple(row["command"]), "files": tuple(row["files"])} for row in rows]
    return {row["name"]: Program(**row, folder=folder) for row in fitted}


def program_named(label: str) -> Program:
    """A row of this file by its name, or `FOLDER/rows.json:NAME`."""
    path, colon, name = label.rpartition(":")
    if colon:
        return read_rows(Path(path))[name]
    return CONTROL if name == CONTROL.name else PROGRAMS[name]


@functools.cache
def has_gpu() -> bool:
    """Whether there is a card that a driver answers for."""
    listing = shutil.which("nvidia-smi")
    if listing is None:
        return False
    return b"GPU 0" in subprocess.run([listing, "-L"], capture_output=True, check=False).stdout


@functools.cache
def _interpreter(version: str) -> str | None:
    for pattern in (f"~/.pyenv/versions/{version}.*/bin/python", f"/opt/python/{version}*/bin/python"):
        found = sorted(glob.glob(os.path.expanduser(pattern)))
        if found:
            return found[-1]
    return shutil.which(f"python{version}")


def _row(  # noqa: PLR0913 - a row of a table
    command: str,
    *,
    name: str = "",
    also: tuple[str, ...] = (),
    needs: tuple[str, ...] = (),
    exit_code: int = 0,
    gpu: str = "no",
    ci: bool = False,
    **more: object,
) -> Program:
    """A row; the files that the command names are copied beside it, and the first of them names the program."""
    words = tuple(command.split())
    files = tuple(word for word in words if word.endswith((".py", ".sh")))
    return Program(
        name=name or files[0].rpartition(".")[0].replace("_", "-") + ("-on-a-terminal" if more.get("terminal") else ""),
        command=words,
        files=(*files, *also),
        needs=needs,
        exit_code=exit_code,
        gpu=gpu,
        ci=ci,
        **more,  # type: ignore[arg-type]
    )


_TORCH = ("torch",)
_TORCHRUN = "python -m torch.distributed.run --standalone"

_ROWS = [
    # Training loops and loaders
    _row("python nano_gpt.py", needs=_TORCH, gpu="may", ci=True),
    *(
        _row(f"python loaders.py {how}", name=f"loaders-{how}", needs=_TORCH, gpu="may", ci=how == "fork")
        for how in ("fork", "spawn", "forkserver", "persistent", "pinned", "pinned-persistent", "none")
    ),
    *(
        _row(
            f"python {file}",
            name=f"{file.split('.')[0].replace('_', '-')}-{setting}",
            needs=_TORCH,
            gpu="must",
            environment=dict([variable.split("=", 1)]),
        )
        for file, setting, variable in (
            ("nano_gpt.py", "launch-blocking", "CUDA_LAUNCH_BLOCKING=1"),
            ("mixed_precision.py", "expandable-segments", "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True"),
            ("mixed_precision.py", "malloc-async", "PYTORCH_CUDA_ALLOC_CONF=backend:cudaMallocAsync"),
            ("mixed_precision.py", "no-caching", "PYTORCH_NO_CUDA_MEMORY_CACHING=1"),
            ("oom_retry.py", "expandable-segments", "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True"),
            ("loaders.py pinned", "pinned-background", "PYTORCH_CUDA_ALLOC_CONF=pinned_use_background_threads:True"),
        )
    ),
    _row("python two_scalers.py", needs=_TORCH, gpu="may"),
    _row("python several_loaders.py", needs=_TORCH, gpu="may"),
    _row("python loads_and_schedules.py", needs=_TORCH, gpu="may", ci=True),
    _row("python iterable_dataset.py", needs=_TORCH, gpu="may"),
    _row("python worker_error.py", needs=_TORCH),
    _row("python mixed_precision.py", needs=_TORCH, gpu="may", ci=True),
    _row("python nan_skipped.py", needs=_TORCH, gpu="may"),
    _row("python oom_retry.py", needs=_TORCH, gpu="may"),
    _row("python checkpoints.py", needs=_TORCH, gpu="may", ci=True),
    _row("python failed_saves.py", needs=_TORCH, ci=True),
    # What a program sees of its own stack, references and operations
    _row("python -W always warning_places.py", needs=_TORCH, ci=True),
    _row("python tracebacks.py", needs=_TORCH, ci=True),
    _row("python stack_views.py", needs=_TORCH, ci=True),
    _row("python operation_modes.py", needs=_TORCH, ci=True),
    _row("python references.py", needs=_TORCH, ci=True),
    _row("python mocked_backward.py", needs=_TORCH, gpu="may", ci=True),
    _row("python swapped_tensors.py", needs=_TORCH, ci=True),
    _row("python samplers.py", needs=_TORCH, ci=True),
    _row("python parsers.py", needs=_TORCH, ci=True),
    # Ends, forks and processes, without torch
    *(
        _row(f"python endings.py {how}", name=f"ends-by-{how}", exit_code=code, ci=True)
        for how, code in (
            ("exit-3", 3),
            ("exit-text", 1),
            ("exit-none", 0),
            ("exit-300", 44),
            ("os-exit", 4),
            ("os-exit-flushed", 5),
            ("exception", 1),
            ("chained", 1),
            ("group", 1),
            ("sigterm", 143),
            ("sigkill", 137),
            ("sigkill-unflushed", 137),
            ("abort", 134),
            ("interrupt", 130),
            ("keyboard", 130),
            ("handler", 0),
            ("thread-exit", 0),
            ("daemon-thread", 0),
            ("excepthook", 1),
            ("unraisable", 0),
            ("default-hooks", 0),
            ("recursion", 1),
        )
    ),
    _row("python forks.py", exit_code=0, ci=True),
    _row("python forks.py unflushed", name="forks-unflushed", ci=True),
    *(
        _row("python pools.py", name=f"pools-on-{version}", python=version, ci=version in ("3.8", "3.13"))
        for version in ("3.8", "3.9", "3.10", "3.11", "3.12", "3.13", "3.14")
    ),
    _row("python pools.py", ci=True),
    _row("python commands.py", ci=True),
    _row("python process_state.py", ci=True),
    _row("python process_state.py", terminal=True, ci=True),
    *(
        _row("python process_state.py", name=f"process-state-on-{version}", python=version, ci=version == "3.8")
        for version in ("3.8", "3.9", "3.10", "3.12", "3.13")
    ),
    _row("python signals.py", ci=True),
    _row("python asynchronous.py", ci=True),
    _row("python exit_order.py", ci=True),
    _row("python exec_again.py", exit_code=6, ci=True),
    _row("python daemonize.py", ci=True),
    _row("python daemonize.py --environment-cleared", name="daemonize-environment-cleared"),
    *(
        _row(f"python outputs.py {kind}", name=f"output-{kind}", ci=True, exit_code=code, stdin=stdin)
        for kind, code, stdin in (
            ("huge", 0, None),
            ("binary", 0, None),
            ("progress", 0, None),
            ("closed", 0, None),
            ("redirected", 0, None),
            ("refused", 1, None),
            ("stream", 0, None),
            ("empty", 0, None),
            ("nonblocking", 0, None),
            ("order", 0, None),
            ("stdin", 0, "Ada\n36\nand\nmore"),
            ("eof", 2, None),
        )
    ),
    _row("python outputs.py progress", name="output-progress-on-a-terminal", terminal=True, ci=True),
    _row("python outputs.py binary", name="output-binary-on-a-terminal", terminal=True, ci=True),
    _row(
        "python outputs.py interrupted",
        name="output-interrupted-on-a-terminal",
        terminal=True,
        stdin="word\n\x03",
        exit_code=7,
        ci=True,
    ),
    _row("python outputs.py interrupted", name="output-ended-on-a-terminal", terminal=True, stdin="\x04\n", ci=True),
    _row(
        "python outputs.py ask",
        name="output-ask-on-a-terminal",
        terminal=True,
        stdin="hello\nworld\nquit\nsecret\n",
        ci=True,
    ),
    # What does differ, on purpose, in standard output only
    _row(
        "python process_state.py descriptors",
        name="process-state-descriptors",
        documented="a Python process has one file more open, with number 1000, for stacks",
        ci=True,
    ),
    _row(
        "python traced.py each all",
        name="traced-all-files",
        documented="our hooks are Python functions: who counts the calls in all files counts theirs",
        needs=_TORCH,
        ci=True,
    ),
    _row(
        "python introspection.py --code",
        name="introspection-of-code",
        documented="the code of a function that we hook is that of its wrapper",
        needs=_TORCH,
    ),
    # Launch scripts
    _row("bash pipeline.sh", ci=True),
    _row("bash traps.sh", exit_code=15, ci=True),
    _row("bash background.sh", ci=True),
    _row("sh seeds.sh", also=("seeds_train.py",), ci=True),
    _row("bash shell_words.sh", exit_code=44, ci=True),
    _row("bash closed.sh", ci=True),
    _row("bash limits.sh", ci=True),
    _row("bash torch_limits.sh", needs=_TORCH),
    # Interpreters, flags and environments
    _row("bash python_path.sh", ci=True),
    _row("bash python_path.sh", name="python-path-on-3.12", python="3.12", ci=True),
    _row("bash python_path.sh", name="python-path-on-3.9", python="3.9"),
    *(_row("python forks.py", name=f"forks-on-{version}", python=version) for version in ("3.8", "3.10", "3.12", "3.13")),
    *(
        _row("python exit_order.py", name=f"exit-order-on-{version}", python=version)
        for version in ("3.8", "3.9", "3.12", "3.13")
    ),
    *(
        _row("python signals.py", name=f"signals-on-{version}", python=version)
        for version in ("3.8", "3.10", "3.12", "3.13")
    ),
    *(
        _row("python asynchronous.py", name=f"asynchronous-on-{version}", python=version)
        for version in ("3.9", "3.12", "3.13")
    ),
    *(
        _row("python -X dev flags.py", name=f"flags-X-dev-on-{version}", python=version)
        for version in ("3.8", "3.12", "3.13")
    ),
    _row("python -q -i interactive.py", exit_code=5, stdin="best()\n1 / 0\nimport sys; sys.exit(5)\n", ci=True),
    _row("bash environments.sh", ci=True),
    _row("bash uv_project.sh", needs=("uv!",)),
    *(
        _row(f"python {flag} flags.py", name="flags" + flag.replace(" ", "-"), ci=True)
        for flag in (
            "-I",
            "-E",
            "-S",
            "-s",
            "-X dev",
            "-W error",
            "-W always",
            "-O",
            "-OO",
            "-B",
            "-u",
            "-q",
            "-P" if sys.version_info >= (3, 11) else "-b",
        )
    ),
    *(
        _row(f"python {flag} nan_skipped.py", name="nan-skipped" + flag.split(" -W")[0].replace(" ", "-"), needs=_TORCH)
        for flag in ("-I", "-E", "-X dev -W ignore::DeprecationWarning", "-O")
    ),
    # Tracers, profilers, debuggers
    *(
        _row(
            f"python traced.py {tool} own",
            name=f"traced-by-{tool}-own-files",
            needs=("torch", "python>=3.12") if tool == "monitoring" else _TORCH,
            ci=tool == "settrace",
        )
        for tool in ("settrace", "setprofile", "cprofile", "tracemalloc", "monitoring")
    ),
    _row("python introspection.py", needs=_TORCH),
    _row("python profiled.py", needs=_TORCH, gpu="may", ci=True),
    _row("python -m pdb debugged.py", name="pdb", needs=_TORCH, stdin="b step\nc\nw\nn\ns\nup\np x\ncl 1\nc\nq\n", ci=True),
    _row("bash coverage_report.sh", needs=("coverage",)),
    _row("python logging_setup.py", ci=True),
    _row("python progress_bars.py", needs=("tqdm",), ci=True),
    _row("python progress_bars.py", needs=("tqdm",), terminal=True),
    _row("python rich_output.py", needs=("rich",), exit_code=1),
    _row("python rich_output.py", needs=("rich",), exit_code=1, terminal=True),
    # Kinds of programs
    _row("python image_model.py", needs=("torch", "numpy"), gpu="may"),
    _row("python many_optimizers.py", needs=_TORCH, gpu="may", ci=True),
    _row("python reinforce.py", needs=_TORCH, gpu="may"),
    _row("python files_of_data.py", needs=("torch", "numpy"), gpu="may"),
    _row("python hogwild.py", needs=_TORCH),
    _row("python hogwild.py --file-system", name="hogwild-file-system", needs=_TORCH),
    _row("python trained_threads.py", needs=_TORCH, gpu="may"),
    _row("python scripted.py", needs=_TORCH),
    _row("python cuda_forks.py", needs=_TORCH, gpu="may", ci=True),
    *(
        _row(f"python saves_on_sigterm.py {name}", name=f"saves-on-sig{name.lower()}", needs=_TORCH, exit_code=99, gpu="may")
        for name in ("TERM", "USR1")
    ),
    # torch.compile and CUDA graphs
    *(
        _row(
            f"python compiled.py {how}",
            name="compiled-" + how.replace(" ", "-"),
            needs=_TORCH,
            gpu="may",
            timeout_seconds=200.0,
            environment={"TORCHINDUCTOR_DETERMINISTIC": "1"},  # else the fastest kernel is taken, by chance
        )
        for how in (
            "eager",
            "aot_eager",
            "inductor",
            "inductor reduce-overhead",
            "inductor max-autotune",
            "inductor max-autotune-no-cudagraphs",
        )
    ),
    _row("python compiled_step.py", needs=_TORCH, gpu="may"),
    *(
        _row(f"python {name}.py", needs=_TORCH, gpu="must")
        for name in (
            "cuda_graph",
            "graphed_callables",
            "capture_beside_loader",
            "cuda_memory",
            "cuda_sync",
            "cuda_streams",
            "cuda_ipc",
        )
    ),
    # Several ranks
    _row(f"{_TORCHRUN} --nproc-per-node 1 ddp.py", needs=_TORCH, gpu="may"),
    _row(f"{_TORCHRUN} --nproc-per-node 2 ddp.py", name="ddp-two-ranks", needs=_TORCH),
    _row("python ddp_spawned.py", needs=_TORCH),
    _row(f"{_TORCHRUN} --nproc-per-node 1 fsdp.py 1", name="fsdp-1", needs=_TORCH, gpu="must"),
    _row(f"{_TORCHRUN} --nproc-per-node 1 fsdp.py 2", name="fsdp-2", needs=_TORCH, gpu="may"),
    _row(f"{_TORCHRUN} --nproc-per-node 2 fsdp.py 2", name="fsdp-2-two-ranks", needs=_TORCH),
    _row("bash elastic.sh", also=("elastic.py",), needs=_TORCH),
    # Frameworks and trackers
    _row("python accelerated.py", needs=("torch", "accelerate"), gpu="may"),
    _row("python accelerated.py --mixed_precision bf16", name="accelerated-bf16", needs=("torch", "accelerate"), gpu="may"),
    _row(
        "python -m accelerate.commands.launch --num_processes 1 --num_machines 1 --dynamo_backend no --mixed_precision no accelerated.py",
        name="accelerate-launch",
        needs=("torch", "accelerate"),
        gpu="may",
    ),
    _row(
        "python -m accelerate.commands.launch --cpu --num_processes 2 --num_machines 1 --dynamo_backend no --mixed_precision no accelerated.py --cpu",
        name="accelerate-launch-two-ranks",
        needs=("torch", "accelerate"),
    ),
    _row("python lightning_module.py", needs=("torch", "lightning"), gpu="may"),
    _row("python lightning_module.py ddp", name="lightning-module-ddp", needs=("torch", "lightning"), gpu="may"),
    _row(
        "python lightning_module.py ddp_spawn 2",
        name="lightning-module-ddp-spawn",
        needs=("torch", "lightning"),
        any_order=True,
    ),
    _row("python fabric.py", needs=("torch", "lightning"), gpu="may"),
    _row("python hf_trainer.py", needs=("torch", "transformers", "accelerate"), gpu="may"),
    _row(f"{_TORCHRUN} --nproc-per-node 1 deepspeed_train.py", needs=("torch", "deepspeed"), gpu="may"),
    _row("python ray_train.py", needs=("torch", "ray")),
    _row("python notebook.py", needs=("torch", "nbclient", "ipykernel")),
    _row("python wandb_offline.py", needs=("torch", "wandb")),
    _row("python wandb_offline.py wrap", name="wandb-offline-wrap", needs=("torch", "wandb")),
    _row("python wandb_offline.py redirect", name="wandb-offline-redirect", needs=("torch", "wandb")),
    _row("python tensorboard_log.py", needs=("torch", "tensorboard")),
    _row("python mlflow_log.py", needs=("torch", "mlflow")),
]

CONTROL = _row("python notices.py")  # differs in everything that is compared: shows that the comparison sees it
PROGRAMS = {program.name: program for program in _ROWS}
assert len(PROGRAMS) == len(_ROWS), "two programs have the same name"
