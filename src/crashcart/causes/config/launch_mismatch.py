"""The launcher starts processes for devices or nodes that are not there, or puts several on one.

What happens: ranks without a card of their own die at once with ``invalid device ordinal``, or NCCL refuses because two
ranks sit on the same card; schedulers and Ray wait or refuse because less is there than was asked for.

Why: ``nproc_per_node`` is larger than what ``CUDA_VISIBLE_DEVICES`` or the job's allocation shows; the script was written
for another machine; a device number is fixed in the code; ``set_device(local_rank)`` is missing, so that all ranks take card
0; a hostfile names other slots than the command.

How it shows: ``CUDA error: invalid device ordinal`` in ``set_device``, ``Duplicate GPU detected``, ``No slot '1' specified
on host``, ``You requested gpu: [0, 1] But your machine only has: [0]``, ``Total available GPUs 8 is less than total desired
GPUs 16``.

What to do: print ``torch.cuda.device_count()`` under the launcher on every node; start that many processes; set the device
from ``LOCAL_RANK``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from crashcart.cause import decisive, strong, weak
from crashcart.causes._cards import known_cards, typed_here, visible
from crashcart.model import Edit, Experiment, Fix, Sign

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.case import Case
    from crashcart.model import Fact

title = "More processes than GPUs, or several processes on one GPU"
alike = ("distributed/rendezvous", "config/missing-or-wrong")

phrases = (
    decisive("invalid device ordinal", says="a process requested a GPU that this machine or job does not have",
             any_level=True),
    decisive("duplicate gpu detected", says="two ranks use the same GPU", any_level=True),
    decisive("no slot '", "no slot ", says="the hostfile has fewer slots than the command names",
             pattern=r"No slot '?\d+'? specifi\w+ on host"),
    decisive(
        "but your machine only has", "total desired gpus", "you requested gpu", "in slurm. hint", "ntasks-per-node=",
        "invalid cuda '", "pass valid cuda device", "cuda unavailable, invalid device", "not found in hostfile", "there are not enough slots available", "are not enough gpus",
        "more processors requested than", "requested node configuration is not available",
        "no available node types can fulfill", "only has the following devices",
        "greater than the number of available gpus", "larger than the number of available gpus",
        "exceeds the number of available", "assertionerror: invalid device id", "not enough gpus available",
        "more processes than the number of gpus", "local_rank should be less than",
        "larger than the available number of gpus", "insufficient cuda devices", "has fewer gpus than",
        "cuda unavailable, invalid device", "fewer gpus than", "number of gpus requested",
        says="more GPUs or processes were requested than exist",
        unless=r"^\s*#|export |#SBATCH|^\+ ",
        pattern=r"only has|desired GPUs|You requested gpu|(?:but|does not match|doesn't match).{0,200}(?:ntasks|SLURM)|"
                r"Invalid (?:CUDA|device)|hostfile|"
        r"slots available|enough GPUs|processors requested|node configuration|node types|available|number of GPUs|"
        r"less than|insufficient|fewer GPUs",
    ),
    strong("processgroupnccl is only supported with gpus, no gpus found", says="a process of the job sees no GPU"),
    strong("cannot be scheduled right now", says="Ray has fewer devices than the job requests", pattern=r"GPU",
           any_level=True),
    weak("using device:", "visible devices", "cuda_visible_devices=", says="which GPUs the job sees", fatal=False,
         pattern=r"CUDA_VISIBLE_DEVICES=(?:\"\"|''|-1|\s|$)"),
)  # fmt: skip


def in_config(case: Case) -> Iterator[Sign]:
    """More processes on a node than cards that the script shows them, or that the job asks the scheduler for."""
    wanted, cards = _wanted(case), _cards(case)
    if (
        wanted is None
        or cards is None
        or (case.facts.get("distributed.backend") and case.facts["distributed.backend"].value == "gloo")
    ):
        return
    count, shown = cards
    if wanted.value > count:
        says = f"{wanted.value:g} processes on a node, but {_source(shown)} {count} GPU{'s' if count != 1 else ''}"
        yield Sign("decisive", says, (wanted.evidence, shown.evidence))
    tasks = case.facts.get("launch.tasks_per_node")
    kind = case.facts.get("launch.kind")
    if tasks and kind and kind.value == "srun" and wanted.spelling.endswith("devices") and tasks.value != wanted.value:
        says = (
            f"{wanted.spelling} is {wanted.value:g} and Slurm starts {tasks.value:g} tasks on a node: Lightning refuses that"
        )
        yield Sign("decisive", says, (wanted.evidence, tasks.evidence))


def in_machine(case: Case) -> Iterator[Sign]:
    """More processes than this machine shows them cards; with none at all it may be a login node, or the job needs none."""
    wanted, cards, there = _wanted(case), known_cards(case), visible(case)
    if wanted is None or cards is None or not there or wanted.value <= len(there) or _needs_no_card(case):
        return
    if any(card.get("mig") for card in there):
        return  # a card in parts can serve several processes
    script = _cards(case)
    if script is not None and wanted.value > script[0]:
        return  # told already, from the launch itself
    told = f"{wanted.value:g} processes, but this machine has {len(there)} GPU{'s' if len(there) != 1 else ''}"
    backends = [fact.value for fact in case.all("code.group_backend")]
    sure = typed_here(case) and bool(backends) and all(name and "nccl" in name for name in backends)
    says = told if sure else f"{told}: started here, NCCL refuses two ranks on one GPU"
    yield Sign("decisive" if sure else "strong", says, (wanted.evidence, cards.evidence))


def _needs_no_card(case: Case) -> bool:
    """Whether the job says that it runs on the processor."""
    backend, command = case.facts.get("distributed.backend"), case.facts.get("command.text")
    gloo = backend is not None and backend.value == "gloo"
    words = str(command.value).split() if command is not None else []
    return (
        gloo
        or bool({"--cpu", "--use_cpu"} & set(words))
        or any(fact.value and "nccl" not in fact.value for fact in case.all("code.group_backend"))
    )


def _wanted(case: Case) -> Fact | None:
    """The processes on one node, each of which takes a card."""
    each = case.facts.get("launch.processes_per_node", case.facts.get("launch.tasks_per_node"))
    if each is not None and type(each.value) is int:
        return each
    total, nodes = case.facts.get("launch.processes"), case.facts.get("launch.nodes")
    alone = each is None and (nodes is None or nodes.value == 1)
    return total if total is not None and type(total.value) is int and alone and total.origin != "default" else None


def _cards(case: Case) -> tuple[int, Fact] | None:
    """How many cards a node of the job has: what the script shows, else what it asks for; never this machine's."""
    visible = case.facts.get("environment.CUDA_VISIBLE_DEVICES")
    if visible is not None and isinstance(visible.value, str):
        cards = [card for card in visible.value.split(",") if card.strip()]
        return (len(cards), visible) if cards and "$" not in visible.value and "MIG" not in visible.value else None
    asked = case.facts.get("launch.gpus_per_node")
    if asked is not None and type(asked.value) is int:
        return asked.value, asked
    asked, nodes = case.facts.get("launch.gpus"), case.facts.get("launch.nodes")
    if asked is not None and type(asked.value) is int and (nodes is None or nodes.value == 1):
        return asked.value, asked
    return None


def _source(shown: Fact) -> str:
    return "CUDA_VISIBLE_DEVICES shows" if shown.origin == "environment" else f"{shown.spelling} asks for"


def fix(case: Case) -> Iterator[Fix]:
    """As many processes as cards, where the number stands in a file; else words."""
    wanted, cards = _wanted(case), _cards(case)
    if wanted is not None and cards is not None and wanted.value > cards[0] and wanted.span is not None:
        why = "each process needs its own GPU; with fewer ranks raise the accumulation to keep the global batch"
        yield Fix(f"Start {cards[0]} processes", "changes-training", why, edits=(Edit(wanted.span, str(cards[0])),))
    elif wanted is not None and wanted.span is not None and any(True for _ in in_machine(case)):
        count = len(visible(case))
        why = "each process needs its own GPU; with fewer ranks raise the accumulation to keep the global batch"
        yield Fix(f"Start {count} here", "changes-training", why, edits=(Edit(wanted.span, str(count)),))
    yield from by_hand


by_hand = (
    Fix(
        "Start one process per visible GPU",
        "by-hand",
        "`--nproc_per_node=gpu` lets torchrun count; under Slurm request as many GPUs as tasks; each rank must call "
        "torch.cuda.set_device(int(os.environ['LOCAL_RANK'])) before anything else touches CUDA; with fewer ranks raise the "
        "accumulation to keep the global batch",
    ),
)
experiment = Experiment(
    title="Under the same launcher print LOCAL_RANK, CUDA_VISIBLE_DEVICES and torch.cuda.device_count() on every node, and "
    "exit",
    start_from="the beginning",
    stop_after="each rank has printed its line",
    confirms="a LOCAL_RANK is not below its device_count, or two ranks of a node name the same device",
    refutes="every rank has its own GPU: then look for device numbers fixed in the code",
)
