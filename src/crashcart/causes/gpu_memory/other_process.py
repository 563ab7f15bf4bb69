"""Another process is using the GPU's memory.

What happens: the run uses little memory, but the GPU is full.

Why: an earlier run that was not quite killed (orphaned loader workers, a hung rank, a notebook kernel), another user,
or all ranks of the job sitting on the same card because ``CUDA_VISIBLE_DEVICES`` or ``torch.cuda.set_device`` is
missing.

How it shows: in the numbers of the message: capacity minus free minus what this process holds is large. Newer
messages name the other processes (``Process 123 has 70 GiB memory in use``). A recording has what others held, from NVML.

What to do: ``nvidia-smi`` shows the processes; stop your own stale ones, or use another GPU; check that each rank
sets its device.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from crashcart.cause import compiled, decisive, strong, weak
from crashcart.causes._cards import on_cards, per_node, visible
from crashcart.causes.gpu_memory._numbers import GIB, alive, deaths, gib, held_by_others
from crashcart.causes.gpu_memory._recorded import signs
from crashcart.log import evidence
from crashcart.model import Experiment, Fix, Sign
from crashcart.numbers import to_int

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.case import Case

title = "Another process is using the GPU's memory"
alike = ("gpu-memory/train-step",)
SHARE = 0.3
FULL = 0.9
CONTEXT = r"CUDA(?: driver)? error: out of memory"  # not the allocator's words: no context could be made
FIRST = frozenset(
    {"__init__", "reset_parameters", "_apply", "to", "cuda", "convert", "_lazy_init", "init", "empty", "zeros"}
)
EMPTY = 0.1
IDLE = 5  # per cent of use
USED = r"(\d{1,9})MiB / +(\d{1,9})MiB \| +(\d{1,3})%"
OWNER = r"^\|\s{1,20}\d{1,20}\s{1,20}(?:N/A\s{1,20}N/A\s{1,20})?\d{1,20}\s{1,20}[CGM+]{1,20}\s|\dMiB \|$"
phrases = (
    weak("| nvidia-smi ", says="a table of cards was printed", fatal=False, any_level=True),
    strong(
        "busy or unavailable",
        says="another process has exclusive use of the GPU, or holds all of its memory",
        pattern=r"CUDA-capable device\(?s?\)? (?:is/are|are|is) busy or unavailable",
    ),
    decisive(
        "is less than desired gpu memory utilization",
        says="part of the GPU's memory was in use before this process started",
    ),
)


def in_log(case: Case) -> Iterator[Sign]:
    """Capacity minus free, against what this process holds; and tables of cards that are full without an owner."""
    yield from _tables(case)
    yield from _full_before(case)
    for memory in deaths(case):
        held = held_by_others(memory)
        if held is None or memory.capacity is None:
            continue
        says = f"other processes hold {gib(max(0, held))} of the GPU's {gib(memory.capacity)}"
        if held > max(SHARE * memory.capacity, 1.5 * GIB):
            yield Sign("decisive", says, (evidence(memory.line),), not alive(case, memory), memory.line.order)
        elif held < 0.05 * memory.capacity:
            yield Sign("against", says, (evidence(memory.line),), not alive(case, memory), memory.line.order)


def _tables(case: Case) -> Iterator[Sign]:
    """`nvidia-smi`: a card that does nothing, with much of its memory taken, and a list of processes that is empty."""
    lines = case.log.lines
    for index, line in enumerate(lines):
        used = compiled(USED).search(line.text) if "mib /" in line.lowered else None
        if used is None or to_int(used[3], 0) > IDLE or to_int(used[1], 0) < SHARE * to_int(used[2], 0):
            continue
        below = [other.text for other in lines[index + 1 : index + 60] if other.window == line.window]
        start = next((place for place, text in enumerate(below) if "Processes:" in text), None)
        if start is None or any(compiled(OWNER).search(text) for text in below[start:]):
            continue
        says = f"{used[1]} of {used[2]} MiB are in use on an idle GPU, and no process is listed"
        yield Sign("strong", says, (evidence(line),), fatal=False, order=line.order)
        return


def _full_before(case: Case) -> Iterator[Sign]:
    """`nvidia-smi` before the start: one card is full and another is empty, then the first allocation failed."""
    dead = next(deaths(case), None)
    if dead is None or dead.tried is not None:  # a message of the allocator has its own numbers
        return
    cards = [
        (line, to_int(used[1], 0), to_int(used[2], 0))
        for line in case.log.lines
        if line.order < dead.line.order and "mib /" in line.lowered and (used := compiled(USED).search(line.text))
    ]
    steps = any(metric.step is not None and metric.line.order < dead.line.order for metric in case.log.metrics)
    if not steps and compiled(CONTEXT).search(dead.line.text) and FIRST.intersection(dead.functions[-3:]):
        says = "the very first allocation failed, while a module was built: another process holds the GPU"
        yield Sign("decisive", says, (evidence(dead.line),), order=dead.line.order)
    full = next((line for line, used, total in cards if used > FULL * total), None)
    if full is not None and not steps and any(used < EMPTY * total for _, used, total in cards):
        says = "the GPU was full before the start, while another one was empty"
        yield Sign("decisive", says, (evidence(full), evidence(dead.line)), order=dead.line.order)


def in_machine(case: Case) -> Iterator[Sign]:
    """Before a run: cards that it would take and others hold."""
    for fact in on_cards(case, "card_memory"):
        card = fact.value
        if card["total"] and card["used"] > max(SHARE * card["total"], 1.5 * GIB) and not card["mig"]:
            seen = [one for one in case.all("machine.card_processes") if one.value["index"] == card["index"]]
            says = f"{gib(card['used'])} of {gib(card['total'])} on GPU {card['index']} are in use: a job that needs them will fail"
            says += " if they are still in use when it starts"
            yield Sign("strong", says, (fact.evidence, *(one.evidence for one in seen)))


def in_recorder(case: Case) -> Iterator[Sign]:
    """Who held the card when an allocation failed."""
    yield from signs(case, "other-process")


def fix(case: Case) -> Iterator[Fix]:
    """Other cards, where enough of them are empty."""
    empty = [card for card in visible(case) if card.get("total") and card["used"] < EMPTY * card["total"]]
    wanted = per_node(case) or 1
    if len(empty) >= wanted and any(True for _ in in_machine(case)):
        names = ",".join(str(card["index"]) for card in empty[:wanted])
        why = "these are empty now; the training is the same"
        yield Fix(
            f"Use {'GPU' if wanted == 1 else 'GPUs'} {names}", "exact", why, environment={"CUDA_VISIBLE_DEVICES": names}
        )
    yield from by_hand


by_hand = (
    Fix(
        "Find and stop the process that holds the GPU",
        "by-hand",
        "`nvidia-smi` and `fuser -v /dev/nvidia*` list the processes; stop your own stale ones, or choose a free "
        "GPU with "
        "CUDA_VISIBLE_DEVICES",
    ),
)
experiment = Experiment(
    title="Run the same command on a GPU that nvidia-smi shows as empty",
    start_from="the beginning",
    stop_after="20 steps",
    confirms="it runs there with the same settings",
    refutes="it fails there too: then the run itself is too large",
)
