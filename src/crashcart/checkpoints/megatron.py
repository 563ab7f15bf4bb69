"""Folders of Megatron-LM, one for each saved iteration, beside a tracker that is written when all ranks are done.

    latest_checkpointed_iteration.txt: 500
    iter_0000500/mp_rank_00_000/model_optim_rng.pt  distrib_optim.pt     tensor rank 00, pipeline rank 000 (expert rank)

Newer versions save `iter_0000500` in the torch.distributed.checkpoint format; then only the tracker is looked at here.
"""

from __future__ import annotations

import itertools
import re
from typing import TYPE_CHECKING, Final

from crashcart.checkpoints.listing import Listing, Looks, pointer_in
from crashcart.checkpoints.model import Problem
from crashcart.numbers import to_int

if TYPE_CHECKING:
    from collections.abc import Iterator

TRACKER: Final = "latest_checkpointed_iteration.txt"
_RANK: Final = re.compile(r"^mp_rank_(\d{1,6})((?:_\d{1,6})*)$")
_ITERATION: Final = re.compile(r"^iter_\d+$")
_MOST_RANKS: Final = 100_000


def is_megatron(listing: Listing) -> bool:
    """Recognise the folder of one iteration by its rank folders."""
    return any(_RANK.match(name) for name in listing.folders)


def claims(folder: str) -> bool:
    """Tell whether a subfolder holds the state of a rank."""
    return bool(_RANK.match(folder))


def problems(listing: Listing, looks: Looks) -> Iterator[Problem]:
    """Say which ranks are missing, and whether the tracker knows this iteration."""
    folders = sorted(filter(claims, listing.folders))
    yield from _missing_ranks(folders)
    contents = {folder: {name.split("/", 1)[1] for name in looks if name.startswith(f"{folder}/")} for folder in folders}
    usual = set[str]().union(*contents.values())
    for folder, names in contents.items():
        for name in sorted(usual - names if names else usual or {"model_optim_rng.pt"}):
            yield Problem("broken", f"{folder}/{name} is missing")
    steps = {look.numbers["iteration"] for look in looks.values() if "iteration" in look.numbers}
    if listing.step is not None and steps - {listing.step}:
        yield Problem("doubtful", f"its files say iteration {min(steps - {listing.step})}, not {listing.step}")
    yield from behind_tracker(listing)


def _missing_ranks(folders: list[str]) -> Iterator[Problem]:
    found = {tuple(to_int(number, 0) for number in folder.split("_")[2:]) for folder in folders}
    if len({len(rank) for rank in found}) != 1:
        return
    sides = [range(max(numbers) + 1) for numbers in zip(*found, strict=True)]
    grid = itertools.islice(itertools.product(*sides), _MOST_RANKS)
    missing = [rank for rank in grid if rank not in found]
    if missing:
        shown = "_".join(map(str, missing[0]))
        yield Problem("broken", f"{len(missing)} rank folders are missing, that of rank {shown} first")


def behind_tracker(listing: Listing) -> Iterator[Problem]:
    """Doubt an iteration that is later than the tracker."""
    tracked = pointer_in(listing.folder.parent, TRACKER)
    if not _ITERATION.match(listing.folder.name) or listing.step is None:
        return
    if listing.step > to_int(tracked, listing.step):
        yield Problem("doubtful", f"{TRACKER} stands at {tracked}, so this save may not have finished")
