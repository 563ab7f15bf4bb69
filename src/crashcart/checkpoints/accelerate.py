"""Folders of accelerate's save_state.

    model.safetensors (or pytorch_model.bin, pytorch_model/ of DeepSpeed, pytorch_model_fsdp_0/)
    optimizer.bin  scheduler.bin  sampler.bin  scaler.pt  random_states_0.pkl ... one for every rank

Each rank writes its random states after rank 0 has written the rest, so without them the save did not finish. How many
ranks there were stands nowhere in the folder: the last one missing shows only beside an older checkpoint (`siblings`).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from crashcart.checkpoints import ranks, shards
from crashcart.checkpoints.model import Problem
from crashcart.numbers import to_int

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.checkpoints.listing import Listing, Looks

_RANDOM: Final = re.compile(r"^random_states_(\d{1,6})\.pkl$")
_NUMBERED: Final = re.compile(r"^(optimizer|scheduler|sampler|model|pytorch_model)(?:_(\d{1,3}))?\.(bin|safetensors)$")
_CUSTOM: Final = re.compile(r"^custom_checkpoint_(\d{1,3})\.pkl$")
_MARKS: Final = frozenset({"optimizer.bin", "scheduler.bin"})
_TORCH: Final = frozenset({"torch-zip", "torch-legacy"})


def is_accelerate(listing: Listing) -> bool:
    """Recognise the folder by names that no other library uses."""
    return bool(_MARKS & listing.files.keys()) or any(_RANDOM.match(name) for name in listing.files)


def problems(listing: Listing, looks: Looks) -> Iterator[Problem]:
    """Say what is missing or does not fit together."""
    yield from _random_states(listing, looks)
    yield from _numbered(listing)
    if not any(map(shards.holds_weights, looks)):
        yield Problem("broken", "there are no model weights in it")
    has_optimizer = any(name.startswith("optimizer") or name.endswith("_optim_states.pt") for name in looks)
    if "scheduler.bin" in listing.files and not has_optimizer and not any("_model_states.pt" in name for name in looks):
        yield Problem("broken", "optimizer.bin is missing, though scheduler.bin is there")
    for name, look in looks.items():
        if name.endswith((".bin", ".pkl")) and look.verdict == "whole" and look.kind not in _TORCH:
            yield Problem("doubtful", f"{name} was not written by accelerate: it is {look.kind}")


def _random_states(listing: Listing, looks: Looks) -> Iterator[Problem]:
    found = {to_int(match[1], 0): name for name in listing.files if (match := _RANDOM.match(name))}
    if not found:
        yield Problem("broken", "random_states_0.pkl is missing: the save did not finish (it is written last)")
    missing = ranks.missing_ranks(found)
    if missing:
        yield Problem("broken", f"the random states of {ranks.in_words(missing)} are missing")
    steps = {looks[name].numbers["step"] for name in found.values() if name in looks and "step" in looks[name].numbers}
    if len(steps) > 1:
        yield Problem("doubtful", f"the ranks saved at different steps: {', '.join(map(str, sorted(steps)))}")


def _numbered(listing: Listing) -> Iterator[Problem]:
    groups: dict[tuple[str, str], set[int]] = {}
    for name in listing.files:
        if match := _NUMBERED.match(name):
            groups.setdefault((match[1], match[3]), set()).add(to_int(match[2], 0))
        elif match := _CUSTOM.match(name):
            groups.setdefault(("custom_checkpoint", "pkl"), set()).add(to_int(match[1], 0))
    for (stem, suffix), numbers in sorted(groups.items()):
        missing = ranks.missing_ranks(numbers)
        if missing and stem != "sampler":
            yield Problem("broken", f"number {missing[0]} of the {stem} files (.{suffix}) is missing")
