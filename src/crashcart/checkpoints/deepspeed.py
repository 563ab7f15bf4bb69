"""Folders of DeepSpeed's save_checkpoint, one for each tag, beside a file `latest` that is written when all is done.

    latest: global_step12
    global_step12/mp_rank_00_model_states.pt                       one for each model-parallel rank
                  zero_pp_rank_0_mp_rank_00_optim_states.pt ...    one for each data-parallel rank (or bf16_zero_...)
                  zero_pp_rank_0_mp_rank_00_model_states.pt ...    the same for ZeRO 3

The model states say how many data-parallel ranks there were (`dp_world_size`) and at which step (`global_steps`), so a
rank whose file is missing shows, also when it is the last.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from crashcart.checkpoints import ranks
from crashcart.checkpoints.listing import Listing, Looks, pointer_in
from crashcart.checkpoints.model import Problem
from crashcart.checkpoints.steps import named_step
from crashcart.numbers import to_int

if TYPE_CHECKING:
    from collections.abc import Iterator

_MODEL: Final = re.compile(r"^mp_rank_(\d{1,6})_model_states\.pt$")
_PARTITION: Final = re.compile(r"^(?:\w+?_)?zero_pp_rank_(\d{1,6})_mp_rank_(\d{1,6})_(model|optim)_states\.pt$")
_ANY: Final = re.compile(r"^.+_(?:model|optim)_states\.pt$")
LATEST: Final = "latest"


def is_deepspeed(listing: Listing) -> bool:
    """Recognise the folder of one tag."""
    return any(_ANY.match(name) for name in listing.files)


def problems(listing: Listing, looks: Looks) -> Iterator[Problem]:
    """Say what is missing or does not fit together."""
    model_ranks = {to_int(match[1], 0) for name in listing.files if (match := _MODEL.match(name))}
    groups = _partitions(listing)
    if not model_ranks and not any(what == "model" for what, _ in groups):
        yield Problem("broken", "the model states are missing")
    missing = ranks.missing_ranks(model_ranks)
    if missing:
        yield Problem("broken", f"the model states of model-parallel {ranks.in_words(missing)} are missing")
    yield from _incomplete(groups, _said(looks, "dp_world_size"))
    if not any(what == "optim" for what, _ in groups) and any("optimizer" in look.empty for look in looks.values()):
        yield Problem("doubtful", "the optimizer states are missing")
    yield from _steps(listing, looks)
    yield from _behind_latest(listing)


def _partitions(listing: Listing) -> dict[tuple[str, int], set[int]]:
    groups: dict[tuple[str, int], set[int]] = {}
    for name in listing.files:
        if match := _PARTITION.match(name):
            groups.setdefault((match[3], to_int(match[2], 0)), set()).add(to_int(match[1], 0))
    return groups


def _said(looks: Looks, key: str) -> set[int]:
    return {look.numbers[key] for name, look in looks.items() if _ANY.match(name) and key in look.numbers}


def _incomplete(groups: dict[tuple[str, int], set[int]], world_sizes: set[int]) -> Iterator[Problem]:
    largest = max((max(found) + 1 for found in groups.values()), default=0)
    count = min(max(world_sizes, default=largest), 100_000)
    for (what, model_rank), found in sorted(groups.items()):
        missing = ranks.missing_below(max(count, largest), found)
        if missing:
            where = f"the {what} states of data-parallel {ranks.in_words(missing)} (model-parallel rank {model_rank})"
            yield Problem("broken", f"{where} are missing")
        elif world_sizes and max(found) >= count:
            yield Problem("doubtful", f"there are {what} states of {max(found) + 1} ranks, and {count} ranks saved it")
    for what in sorted({what for what, _ in groups}):
        missing = ranks.missing_ranks(rank for group, rank in groups if group == what)
        if missing:
            yield Problem("broken", f"the {what} states of model-parallel {ranks.in_words(missing)} are missing")


def _steps(listing: Listing, looks: Looks) -> Iterator[Problem]:
    steps = _said(looks, "global_steps")
    if len(steps) > 1:
        yield Problem("doubtful", f"its files were saved at different steps: {', '.join(map(str, sorted(steps)))}")
    elif steps and listing.folder.name.startswith("global_step") and listing.step not in steps:
        yield Problem("doubtful", f"its files say step {min(steps)}, the folder is called {listing.folder.name}")


def _behind_latest(listing: Listing) -> Iterator[Problem]:
    latest = pointer_in(listing.folder.parent, LATEST)
    step = named_step(latest) if latest else None
    if latest and step is not None and listing.step is not None and listing.step > step:
        yield Problem("doubtful", f"`latest` still names {latest}, so this save may not have finished")
