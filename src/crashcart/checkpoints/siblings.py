"""What an older checkpoint of the same run has, and this one lacks.

How many ranks there were, or that there was an optimizer at all, stands in no file of accelerate or the Trainer. The
run saves the same files each time, though, so the checkpoint before this one tells. Only the nearest older one is
asked: when the number of ranks was lowered on purpose, one checkpoint is doubted and those after it are not.
"""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Final

from crashcart.checkpoints import shards
from crashcart.checkpoints.listing import Listing, list_folder
from crashcart.checkpoints.model import Problem
from crashcart.checkpoints.one_file import SUFFIXES
from crashcart.checkpoints.steps import named_count

if TYPE_CHECKING:
    from collections.abc import Iterator

_FAMILY: Final = re.compile(
    r"^(optimizer|scheduler|scaler|sampler|random_states|rng_state|training_args|custom_checkpoint|trainer_state)"
    r"(?:_(\d{1,6}))?\.(?:pt|pth|bin|pkl|json)$"
)
_DIGITS: Final = re.compile(r"\d+")


def problems(listing: Listing, *, known: bool = True) -> Iterator[Problem]:
    """Compare with the nearest older checkpoint beside it; of a folder that is not `known`, every kind of file counts."""
    older = _older(listing)
    if older is None:
        return
    mine, theirs = (_families(folder) if known else _shapes(folder) for folder in (listing, older))
    for family, count in sorted(theirs.items()):
        if family not in mine:
            yield Problem("doubtful", f"it has no {family} file, which {older.folder.name} beside it has")
        elif mine[family] < count:
            says = f"it has {mine[family]} {family} files, {older.folder.name} beside it has {count}"
            yield Problem("doubtful", f"{says}: a rank may not have saved")


def _families(listing: Listing) -> dict[str, int]:
    counts: dict[str, int] = {}
    for name in listing.files:
        if match := _FAMILY.match(name):
            counts[match[1]] = counts.get(match[1], 0) + 1
    if shards.has_weights(listing):
        counts["model weights"] = 1
    return counts


def _shapes(listing: Listing) -> dict[str, int]:
    return dict(Counter(_DIGITS.sub("#", name) for name in listing.files if Path(name).suffix.lower() in SUFFIXES))


def _older(listing: Listing) -> Listing | None:
    shape, step = _DIGITS.sub("#", listing.folder.name), listing.count
    if step is None:
        return None
    try:
        names = [name for name in list_folder(listing.folder.parent).folders if _DIGITS.sub("#", name) == shape]
        earlier = {found: name for name in names if (found := named_count(name)) is not None and found < step}
        return list_folder(listing.folder.parent / earlier[max(earlier)]) if earlier else None
    except OSError:
        return None
