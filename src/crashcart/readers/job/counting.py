"""How many processes a launch starts in all.

torchrun and DeepSpeed are told the number on each node, accelerate and mpirun the sum, srun either. ``auto`` and ``gpu`` ask the
machine of the job, so the cards come from what the job asks for (``#SBATCH``, CUDA_VISIBLE_DEVICES in the script), never from
the machine at hand. A range of nodes (``1:4``) or a variable of the day leaves the sum unknown.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from crashcart.model import Fact
from crashcart.numbers import to_count, to_range
from crashcart.record import replace

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from crashcart.readers.job.launchers import Launch

__all__ = ["processes"]

TORCH = {"torchrun", "torch.distributed.launch"}
UNKNOWN_NODES = ("flag.nnodes", "flag.num_machines", "flag.num_nodes")
UNKNOWN_EACH = ("flag.nproc_per_node", "flag.nproc-per-node", "flag.num_gpus", "flag.num_processes")


def processes(launch: Launch, facts: list[Fact]) -> Iterator[Fact]:
    """The number of processes in all, where it can be told; also what the environment and defaults say of a node."""
    last = {fact.name: fact for fact in facts}
    srun = launch.kind == "srun"
    total = last.get("launch.tasks") if srun else last.get("launch.processes")
    if total is not None:
        yield from [replace(total, name="launch.processes")] if srun and isinstance(total.value, int) else []
        return
    each = last.get("launch.tasks_per_node") if srun else _each(launch, last)
    if each is None or not isinstance(each.value, int):
        return
    yield from [] if each in facts else [each]
    nodes = _nodes(last)
    if nodes == 1 and "launch.nodes" not in last and launch.kind in TORCH:
        yield replace(last["launch.kind"], name="launch.nodes", value=1, origin="default", span=None)
    if nodes is not None:
        yield Fact(
            "launch.processes",
            each.value * nodes,
            each.evidence,
            each.origin,
            each.spelling,
            each.span if nodes == 1 else None,
        )


def _each(launch: Launch, last: Mapping[str, Fact]) -> Fact | None:
    """The processes on one node."""
    name = "launch.processes_per_node"
    each = last.get(name)
    if each is None and launch.kind in TORCH and "environment.PET_NPROC_PER_NODE" in last:
        told = last["environment.PET_NPROC_PER_NODE"]
        each = replace(told, name=name, value=to_count(told.value, told.value))
    if each is None and launch.kind in TORCH and not any(flag in last for flag in UNKNOWN_EACH):
        return (
            replace(last["launch.kind"], name=name, value=1, origin="default", span=None) if "launch.kind" in last else None
        )
    if each is not None and each.value in ("gpu", "auto"):
        cards = _cards(last)
        return replace(each, value=cards, span=None) if cards else None
    return each


def _cards(last: Mapping[str, Fact]) -> int | None:
    visible = last.get("environment.CUDA_VISIBLE_DEVICES")
    if visible is not None and str(visible.value).strip():
        return len([card for card in str(visible.value).split(",") if card.strip()])
    asked = last.get("launch.gpus_per_node")
    return asked.value if asked is not None and isinstance(asked.value, int) else None


def _nodes(last: Mapping[str, Fact]) -> int | None:
    found = last.get("launch.nodes") or last.get("environment.PET_NNODES")
    if found is None:
        return None if any(flag in last for flag in UNKNOWN_NODES) else 1
    nodes = to_range(str(found.value))
    return nodes[0] if nodes is not None and nodes[0] == nodes[1] >= 0 else None
