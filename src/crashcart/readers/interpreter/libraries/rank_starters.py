"""What starts ranks from inside a program, and how many: Lightning's trainers, ``spawn``, a launcher for notebooks.

Trainer(devices=2)      Trainer(devices="0,1", num_nodes=2)      mp.spawn(train, nprocs=8)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from crashcart.numbers import to_count
from crashcart.readers.interpreter.values import Constant, Container, constant_of

if TYPE_CHECKING:
    from crashcart.readers.interpreter.interpreter import Interpreter
    from crashcart.readers.interpreter.trace import Call
    from crashcart.readers.interpreter.values import Value

__all__ = ["LIGHTNING", "OTHER_STARTERS", "SPAWNS", "count_of", "count_started", "join_ranks", "start_ranks"]

LIGHTNING = ("lightning.Trainer", "lightning.Fabric", "lightning.fabric.Fabric")
SPAWNS = {
    "torch.multiprocessing.spawn": "nprocs", "torch.multiprocessing.start_processes": "nprocs",
    "torch.multiprocessing.spawn.spawn": "nprocs", "accelerate.notebook_launcher": "num_processes",
}  # fmt: skip
# How many they start is not read.
OTHER_STARTERS = (
    "multiprocessing.Process", "torch.multiprocessing.Process", "torch.distributed.launcher.api.elastic_launch", "subprocess.Popen",
    "torch.distributed.launcher.elastic_launch", "submitit.AutoExecutor", "ray.train.torch.TorchTrainer", "lightning.LightningCLI",
    "lightning.cli.LightningCLI", "torch.distributed.run.main", "multiprocessing.get_context.Process",
    "torch.multiprocessing.get_context.Process",
)  # fmt: skip
_MOST_RANKS = 10**6


def count_started(interpreter: Interpreter, call: Call) -> tuple[int | None, Value | None]:
    """How many ranks a call starts, None where that is not known; and the value that says it."""
    if call.name in SPAWNS:
        value = call.argument(2, SPAWNS[call.name])
        return count_of(interpreter, value), value
    devices = call.argument(None, "devices") or call.argument(None, "gpus")
    nodes = call.argument(None, "num_nodes", Constant(1))
    if constant_of(call.argument(None, "strategy")) == "dp":
        return 1, None  # one process with several cards
    each, times = count_of(interpreter, devices), count_of(interpreter, nodes)
    return (each * times if each is not None and times is not None else None), devices


def count_of(interpreter: Interpreter, value: Value | None) -> int | None:
    """``2``, ``"2"``, ``[0, 1]`` and ``"0,1"``; ``auto`` and -1 ask the machine."""
    if isinstance(value, Container):
        items, complete = interpreter.listed(value)
        return len(items) or None if complete else None
    plain = constant_of(value)
    if isinstance(plain, str):
        return len([part for part in plain.split(",") if part.strip()]) or None if "," in plain else to_count(plain) or None
    return plain if type(plain) is int and 0 < plain < _MOST_RANKS else None


def start_ranks(interpreter: Interpreter, call: Call) -> None:
    """From here on there are as many ranks as this call starts, unless a launcher starts them."""
    launch = interpreter.launch
    if launch.kind not in {"", "python", "program"}:
        return
    count, value = count_started(interpreter, call)
    if launch.starters and count != launch.ranks:
        count = None  # two trainers that differ
    if id(call.node) not in launch.starters:
        launch.starters.append(id(call.node))
    launch.ranks = count
    launch.rank_facts = value.origins if value is not None else ()


def join_ranks(interpreter: Interpreter, world: Value | None, call: Call) -> None:
    """``init_process_group(world_size=3)`` in a process that the program started by itself: that many ranks there are."""
    launch = interpreter.launch
    count = constant_of(world)
    is_own = launch.kind in {"", "python", "program"} and launch.ranks in {None, 1} and not launch.starters
    if is_own and type(count) is int and 1 < count < _MOST_RANKS and _is_in_process(call):
        launch.starters.append(id(call.node))
        launch.ranks = count
        launch.rank_facts = world.origins if world is not None else ()


def _is_in_process(call: Call) -> bool:
    """Whether a call happens in a process that the program started."""
    return any(region.kind == "thread" for region in call.region.above())
