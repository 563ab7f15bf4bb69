"""Going on from a checkpoint, on every rank from the same one, and saying whether what goes on is what was left off."""

from __future__ import annotations

import os
import sys
import warnings
from typing import Any

from crashcart import checkpoints
from crashcart.train.saving import agreement
from crashcart.train.saving.choosing import choose, newest_valid
from crashcart.train.saving.comparing import Before, Resumed, doubts_about
from crashcart.train.saving.loading import ResumeError, loaded, put_all
from crashcart.train.saving.training_state import learning_rates, restore_random

__all__ = ["ResumeError", "resume"]

_WAIT_SECONDS = 1800.0
_NAMED = 4
_OWN = ("random", "lr", "world", "kinds", "batches", "step", "epoch", "batch", "loss")
_SUFFIXES = (".pt", ".pth", ".ckpt", ".bin", ".tar", ".safetensors")  # a name that ends so was meant as a file


def resume(  # noqa: PLR0913 - each names one part of a run
    source: str | os.PathLike[str],
    *,
    model: Any = None,  # noqa: ANN401 - a module, or several in a dict or list; so the others
    optimizer: Any = None,  # noqa: ANN401
    scheduler: Any = None,  # noqa: ANN401
    scaler: Any = None,  # noqa: ANN401
    sampler: Any = None,  # noqa: ANN401
    loader: Any = None,  # noqa: ANN401
    map_location: Any = "cpu",  # noqa: ANN401 - as torch.load takes it
    strict: bool = True,
    rng: bool = True,
    weights_only: bool = True,
    wait_seconds: float = _WAIT_SECONDS,
) -> Resumed:
    """Load a checkpoint, or the newest whole one below a folder, into the parts of a run; where there is none, step 0.

        run = resume("out", model=model, optimizer=optimizer, scheduler=scheduler)
        for step in range(run.step, total):

    Every rank calls it, and all load what the first has chosen. One line tells where the run goes on; each thing in which it would
    differ from the run before is a warning, and in `doubts`. Tell ``run.check(loss)`` the first losses, and it compares them, too.
    """
    parts = {
        "model": model,
        "optimizer": optimizer,
        "scheduler": scheduler,
        "scaler": scaler,
        "sampler": sampler,
        "loader": loader,
    }
    path = _agreed(source, wait_seconds)
    if path is None:
        _say(f"nothing to resume in {os.fspath(source)}: this run begins at step 0")
        return Resumed(optimizer=optimizer)
    state = loaded(path, map_location, weights_only=weights_only)
    before = Before.of(optimizer, scheduler)
    put_all(path, state, parts, strict=strict)
    random_doubts = _restore_random(state) if rng else ()
    run = Resumed(
        path=path,
        step=int(_number(state, "step") or checkpoints.inspect(path, deep=False).step or 0),
        epoch=int(_number(state, "epoch") or 0),
        batch=int(_number(state, "batch") or 0),
        loss=_number(state, "loss"),
        lr=tuple(learning_rates(optimizer)),
        more={name: value for name, value in state.items() if name not in {*parts, *_OWN}},
        told=frozenset({"epoch", "batch"} & state.keys()),
        optimizer=optimizer,
    )
    run.doubts = (*random_doubts, *doubts_about(run, state, before, parts))
    _say(f"resumed {run}")
    if not agreement.rank():
        for doubt in run.doubts:
            warnings.warn(f"resumed from {os.path.basename(path)}: {doubt}", stacklevel=2)
    return run


def _number(state: dict[str, Any], name: str) -> float | None:
    """A number of the checkpoint; others may keep something else under its name."""
    try:
        return float(state[name])
    except (KeyError, TypeError, ValueError, RuntimeError):
        return None


def _restore_random(state: dict[str, Any]) -> tuple[str, ...]:
    if not isinstance(state.get("random"), dict):
        return ()
    try:
        restore_random(state["random"])
    except (
        KeyError,
        TypeError,
        ValueError,
        RuntimeError,
        AttributeError,
    ) as problem:  # of another torch, or somebody else's
        return (f"the random states could not be restored ({problem})",)
    return ()


def _say(line: str) -> None:
    if not agreement.rank():
        print(line, file=sys.stderr, flush=True)  # noqa: T201 - the one line that every resume owes its user


def _agreed(source: str | os.PathLike[str], wait_seconds: float) -> str | None:
    """The file, as the first rank has chosen it: another rank may already see one more, or not yet."""
    if agreement.world() == 1:
        return _chosen(source)
    word = agreement.Word(f"resume {os.path.abspath(source)}")
    if not agreement.rank():
        try:
            path = _chosen(source)
        except Exception as problem:
            word.say("path", f"!{problem}")
            raise
        word.say("path", path or "")
        return path
    told = word.hear("path", wait_seconds)
    if told is None:
        raise ResumeError(f"Rank 0 did not say within {wait_seconds:.0f} s what to resume: every rank must call resume.")
    if told.startswith("!"):
        raise ResumeError(f"Rank 0 found nothing to resume: {told[1:]}")
    if told and not os.path.exists(told):
        raise ResumeError(f"Rank {agreement.rank()} cannot see {told}, which rank 0 chose: the folder is not shared.")
    return told or None


def _chosen(source: str | os.PathLike[str]) -> str | None:
    path = os.path.abspath(source)
    if os.path.isfile(path):
        return path
    if not os.path.isdir(path):
        if path.endswith(_SUFFIXES):
            raise FileNotFoundError(f"There is no checkpoint {path}.")
        return None
    found = newest_valid(path)
    if found is None:
        damaged = choose(path)[1]
        if damaged:
            named = ", ".join(one.path.name for one in damaged[:_NAMED])
            raise ResumeError(f"No checkpoint in {path} is whole ({named}); move them away to begin anew.")
        return None
    if found.is_dir():
        raise ResumeError(f"{found} is a folder of a framework: load it there (accelerator.load_state, Trainer, dcp.load).")
    return str(found)
