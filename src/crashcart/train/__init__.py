"""What the incidents did wrong, done right: small pieces, each of which stands alone.

    from crashcart.train import StepGuard, load_yaml, save_atomic

Nothing is loaded until it is asked for: a piece brings torch, h5py or PyYAML with it only where it needs them. The callbacks
for trainers are `crashcart.train.transformers.GuardCallback` and `crashcart.train.lightning.GuardCallback`.
"""

from __future__ import annotations

from importlib import import_module

TYPE_CHECKING = False  # typing would be most of what an import of this costs
if TYPE_CHECKING:
    # Each piece once more, for type checkers and editors.
    from typing import Any

    from crashcart.train.accelerate import guard_for as guard_for
    from crashcart.train.batches.splitting import chunks as chunks
    from crashcart.train.clipping.clip import clip_by_module as clip_by_module
    from crashcart.train.config import YamlError as YamlError
    from crashcart.train.config import load_yaml as load_yaml
    from crashcart.train.data.episodes import chunk_index as chunk_index
    from crashcart.train.data.handles import per_worker as per_worker
    from crashcart.train.masked import masked_nan as masked_nan
    from crashcart.train.memory.batch_size import find_batch_size as find_batch_size
    from crashcart.train.memory.safe_eval import safe_eval_batch as safe_eval_batch
    from crashcart.train.ranks import FirstRankError as FirstRankError
    from crashcart.train.ranks import load_once as load_once
    from crashcart.train.ranks import rank_zero_first as rank_zero_first
    from crashcart.train.saving.choosing import newest_valid as newest_valid
    from crashcart.train.saving.resuming import ResumeError as ResumeError
    from crashcart.train.saving.resuming import resume as resume
    from crashcart.train.saving.training_state import state_of as state_of
    from crashcart.train.saving.writing import atomic_folder as atomic_folder
    from crashcart.train.saving.writing import save_atomic as save_atomic
    from crashcart.train.step import HopelessTraining as HopelessTraining
    from crashcart.train.step import NotSafeToSave as NotSafeToSave
    from crashcart.train.step import StepGuard as StepGuard
    from crashcart.train.step import agree_finite as agree_finite
    from crashcart.train.tracking import nonblocking as nonblocking
    from crashcart.train.tracking.sync import sync_tracker as sync_tracker

# Piece -> the module of this package that holds it.
_HOMES: dict[str, str] = {
    "FirstRankError": "ranks",
    "HopelessTraining": "step",
    "NotSafeToSave": "step",
    "ResumeError": "saving.resuming",
    "StepGuard": "step",
    "YamlError": "config",
    "agree_finite": "step",
    "atomic_folder": "saving.writing",
    "chunk_index": "data.episodes",
    "chunks": "batches.splitting",
    "clip_by_module": "clipping.clip",
    "find_batch_size": "memory.batch_size",
    "guard_for": "accelerate",
    "load_once": "ranks",
    "load_yaml": "config",
    "masked_nan": "masked",
    "newest_valid": "saving.choosing",
    "nonblocking": "tracking",
    "per_worker": "data.handles",
    "rank_zero_first": "ranks",
    "resume": "saving.resuming",
    "safe_eval_batch": "memory.safe_eval",
    "save_atomic": "saving.writing",
    "state_of": "saving.training_state",
    "sync_tracker": "tracking.sync",
}

__all__ = sorted(_HOMES)  # noqa: PLE0605 - the table is the list


def __getattr__(name: str) -> Any:  # noqa: ANN401 - whatever the name stands for
    if name in _HOMES:
        return getattr(import_module(f"crashcart.train.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'crashcart.train' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
