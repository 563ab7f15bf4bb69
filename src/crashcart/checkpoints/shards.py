"""Weights in several files, as Hugging Face libraries save them, and the index that is written after the last of them.

    model-00001-of-00002.safetensors   model-00002-of-00002.safetensors   model.safetensors.index.json

Whole means: each shard that the index names is there and holds just the tensors that the index puts into it. Shards
that were swapped or come from another model show by their names of tensors; those of another step of it do not.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from crashcart.checkpoints.json_files import INDEX_SUFFIX
from crashcart.checkpoints.model import Look, Problem
from crashcart.numbers import to_int

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.checkpoints.listing import Listing, Looks

_SHARD: Final = re.compile(r"^(?P<stem>.+)-(?P<number>\d{5})-of-(?P<count>\d{5})\.(?P<suffix>safetensors|bin)$")
_STATE: Final = re.compile(
    r"^(?:optimizer|scheduler|scaler|sampler|dl_state_dict|training_args|rng_state|random_states)|_optim_states\.pt$"
)
_CONFIGS: Final = ("config.json", "adapter_config.json", "model_index.json")
_WEIGHTS: Final = re.compile(
    r"^(?:pytorch_model|model|adapter_model|diffusion_pytorch_model|pytorch_lora_weights|pytorch_model_fsdp)"
    r"(?:[_.-][\w.-]+)?\.(?:safetensors|bin)$"
)


def is_sharded(listing: Listing) -> bool:
    """Recognise shards, with their index or without."""
    return bool(listing.matching(INDEX_SUFFIX)) or any(_SHARD.match(name) for name in listing.files)


def is_model(listing: Listing) -> bool:
    """Recognise a model folder: weights beside the configuration that tells what they are."""
    return any(name in listing.files for name in _CONFIGS) and has_weights(listing)


def has_weights(listing: Listing) -> bool:
    """Tell whether weights lie here under a name that libraries use, in one file or in shards."""
    return any(_WEIGHTS.match(name) for name in listing.files)


def holds_weights(path: str) -> bool:
    """Tell whether a file of a training checkpoint holds weights, rather than the state of the training."""
    name = path.rsplit("/", maxsplit=1)[-1]
    return name.endswith((".safetensors", ".distcp", ".bin", ".pth", ".pt")) and not _STATE.match(name)


def problems(listing: Listing, looks: Looks) -> Iterator[Problem]:
    """Compare the shards with their index."""
    for index in listing.matching(INDEX_SUFFIX):
        for shard, tensors in sorted(looks[index].shards.items()):
            yield from _shard_problems(listing, looks, shard, tensors)
    yield from _without_index(listing)


def _shard_problems(listing: Listing, looks: Looks, shard: str, tensors: frozenset[str]) -> Iterator[Problem]:
    if shard not in listing.files:
        yield Problem("broken", f"{shard} is missing: the index puts {len(tensors)} tensors into it")
        return
    look = looks.get(shard, Look("unknown"))
    if look.keys is None:
        return
    missing, extra = sorted(tensors - look.keys), len(look.keys - tensors)
    if missing:
        yield Problem("broken", f"{shard} lacks {len(missing)} tensors that the index puts into it, {missing[0]!r} first")
    elif extra:
        yield Problem("doubtful", f"{shard} holds {extra} tensors that the index does not know")


def _without_index(listing: Listing) -> Iterator[Problem]:
    groups = {(found["stem"], found["count"], found["suffix"]) for found in map(_SHARD.match, listing.files) if found}
    for stem, count, suffix in sorted(groups):
        index = f"{stem}.{suffix}{INDEX_SUFFIX}"
        if index not in listing.files:
            yield Problem("broken", f"{index} is missing: the save did not finish (it is written last)")
        names = [f"{stem}-{number:05}-of-{count}.{suffix}" for number in range(1, min(to_int(count, 0), 10_000) + 1)]
        absent = [name for name in names if name not in listing.files]
        if absent:
            yield Problem("broken", f"{len(absent)} of {to_int(count)} shards are missing, {absent[0]} first")
