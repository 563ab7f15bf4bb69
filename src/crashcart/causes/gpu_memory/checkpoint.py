"""Loading or saving a checkpoint needs more device memory than is left.

What happens: the run dies right at a resume, or at the first save, with a card that was fine before.

Why: ``torch.load`` without ``map_location`` puts the saved tensors where they were, so every rank loads onto
``cuda:0``; the loaded copy stays beside the live model; gathering full weights or optimizer state for a save needs them
whole on one rank.

How it shows: out of memory with ``torch.load``, ``load_state_dict``, ``resume``, ``save_checkpoint`` or a state-dict
gather on the stack. A recording knows the phase from inside the process.

What to do: ``map_location="cpu"`` and delete the loaded dictionary before training; save sharded, or gather to the host
(``offload_to_cpu=True``, ``rank0_only=True``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from crashcart.causes._joined import edits_of, ranks
from crashcart.causes.gpu_memory._numbers import alive, deaths, phase
from crashcart.causes.gpu_memory._recorded import signs
from crashcart.log import evidence
from crashcart.model import Experiment, Fix, Sign

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.case import Case
    from crashcart.model import Fact

title = "Loading or saving a checkpoint does not fit into GPU memory"
alike = ("gpu-memory/train-step", "gpu-memory/eval-or-sample")


def in_log(case: Case) -> Iterator[Sign]:
    """An out-of-memory error whose stack or announced phase is loading or saving."""
    for memory in deaths(case):
        doing = {"load": "loading", "save": "saving"}.get(phase(case, memory) or "")
        if doing:
            says = f"the GPU ran out of memory while {doing} a checkpoint"
            yield Sign("decisive", says, (evidence(memory.line),), not alive(case, memory), memory.line.order)


def in_code(case: Case) -> Iterator[Sign]:
    """A checkpoint that every rank loads to where it was saved from."""
    count = ranks(case)
    for fact in _loads(case):
        says = "torch.load without map_location: every rank loads a checkpoint saved from cuda:0 back onto cuda:0"
        if count and count > 1:
            yield Sign("strong", f"{says}: {count} copies, including optimizer state", (fact.evidence,))
        else:
            yield Sign("weak", says, (fact.evidence,), fatal=False)


def _loads(case: Case) -> list[Fact]:
    return case.all("code.loaded_in_place") if ranks(case) != 1 else []


def in_recorder(case: Case) -> Iterator[Sign]:
    """What the process itself recorded: it was writing or loading a checkpoint."""
    yield from signs(case, "checkpoint")


def fix(case: Case) -> Iterator[Fix]:
    """Load to the host, where the code does not; then the other ways."""
    edits = edits_of(_loads(case), "edits")
    if edits:
        why = "load_state_dict copies the weights to the right GPU; no second copy stays there"
        yield Fix("Load checkpoints to the CPU first", "exact", why, edits=edits)
    yield from fixes


fixes = (
    Fix(
        "Load checkpoints to the CPU first, and gather to the CPU when saving",
        "by-hand",
        'torch.load(path, map_location="cpu"), then load_state_dict, then `del` the dictionary; for FSDP save sharded or '
        "with StateDictOptions(full_state_dict=True, cpu_offload=True)",
    ),
)
experiment = Experiment(
    title="Resume with map_location='cpu' and watch the memory of every GPU during the load",
    start_from="the checkpoint it failed on",
    stop_after="the first optimizer step after the load",
    confirms="cuda:0 no longer holds one copy per rank, and the step passes",
    refutes="memory during the load is the same and it fails in the same place",
)
