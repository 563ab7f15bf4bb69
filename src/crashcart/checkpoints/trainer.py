"""Folders `checkpoint-N` of the Hugging Face Trainer.

    model.safetensors  optimizer.pt  scheduler.pt  rng_state.pth (rng_state_0.pth ... with ranks)  training_args.bin
    trainer_state.json: {"global_step": 500, "epoch": 0.5, ...}

The Trainer writes the model, then optimizer, scheduler and random states, and trainer_state.json last. With
`save_only_model` the middle is left out altogether; a part of it missing is a save that did not finish.
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

_FOLDER: Final = re.compile(r"^(?:tmp-)?checkpoint-\d+$")
_STATE: Final = "trainer_state.json"
_MARKS: Final = frozenset(
    {"training_args.bin", "rng_state.pth", "rng_state_0.pth"}
)  # programs of others have an optimizer.pt
_RANDOM: Final = re.compile(r"^rng_state_(\d{1,6})\.pth$")


def is_trainer(listing: Listing) -> bool:
    """Recognise the folder by its state, or by its name and a file that only the Trainer has."""
    named = bool(_FOLDER.match(listing.folder.name))
    return _STATE in listing.files or (named and bool(_MARKS & listing.files.keys()))


def problems(listing: Listing, looks: Looks) -> Iterator[Problem]:
    """Say what is missing or does not fit together."""
    yield from _state(listing, looks)
    if not any(map(shards.holds_weights, looks)):
        yield Problem("broken", "there are no model weights in it")
    yield from _resuming(listing)
    if "training_args.bin" not in listing.files:
        yield Problem("doubtful", "training_args.bin is missing, which the Trainer always writes")
    missing = ranks.missing_ranks(to_int(match[1], 0) for name in listing.files if (match := _RANDOM.match(name)))
    if missing:
        yield Problem("broken", f"the random states of {ranks.in_words(missing)} are missing")
    if listing.folder.name.startswith("tmp-"):
        yield Problem("doubtful", "the folder still has its temporary name: the save did not finish")


def holds_model_only(listing: Listing) -> bool:
    """Tell whether it was saved with `save_only_model`: enough to use the model, not to go on training."""
    return not any(_resume_parts(listing).values())


def _state(listing: Listing, looks: Looks) -> Iterator[Problem]:
    if _STATE not in listing.files:
        yield Problem("broken", f"{_STATE} is missing: the save did not finish (it is written last)")
        return
    look = looks[_STATE]
    step = look.numbers.get("global_step")
    if look.verdict == "whole" and step is None:
        yield Problem("broken", f"{_STATE} does not say at which step it was saved")
    elif step is not None and _FOLDER.match(listing.folder.name) and step != listing.step:
        yield Problem("doubtful", f"{_STATE} says step {step}, the folder is called {listing.folder.name}")


def _resuming(listing: Listing) -> Iterator[Problem]:
    parts = _resume_parts(listing)
    if not any(parts.values()):
        return
    for name, present in parts.items():
        if not present:
            yield Problem("broken", f"{name} is missing: training cannot go on from here")


def _resume_parts(listing: Listing) -> dict[str, bool]:
    by_engine = any(name.startswith("global_step") for name in listing.folders)
    own_optimizer = any(name.startswith("optimizer") for name in (*listing.files, *listing.folders))
    return {
        "optimizer.pt": own_optimizer or by_engine,
        "scheduler.pt": "scheduler.pt" in listing.files or by_engine,
        "rng_state.pth": any(name.startswith("rng_state") for name in listing.files),
    }
