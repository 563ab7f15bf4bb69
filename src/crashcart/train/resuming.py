"""Going on from a checkpoint, on every rank from the same one, and saying whether what goes on is what was left off."""

from __future__ import annotations

import os
import sys
import warnings
from typing import Any

import torch

from crashcart import checkpoints
from crashcart.train import agreement, sharded
from crashcart.train.choosing import choose, newest_valid
from crashcart.train.comparing import Before, Resumed, doubts_about
from crashcart.train.training_state import learning_rates, match_names, put, restore_random, unwrapped

__all__ = ["ResumeError", "resume"]

_WAIT_SECONDS = 1800.0
_NAMED = 4
_SUFFIXES = (".pt", ".pth", ".ckpt", ".bin", ".tar", ".safetensors")  # a name that ends so was meant as a file
# How others call the parts, the usual names first.
_SPELLINGS = {
    "model": ("model", "model_state_dict", "state_dict", "model_state", "net", "network"),
    "optimizer": ("optimizer", "optimizer_state_dict", "optim", "optimizer_state", "opt"),
    "scheduler": ("scheduler", "scheduler_state_dict", "lr_scheduler", "lr_scheduler_state_dict", "sched"),
    "scaler": ("scaler", "scaler_state_dict", "grad_scaler", "amp_scaler"),
    "sampler": ("sampler", "sampler_state_dict"),
    "loader": ("loader", "dataloader", "train_loader"),
    "step": ("step", "global_step", "iteration", "iter", "iter_num", "steps"),
    "epoch": ("epoch", "current_epoch"),
    "loss": ("loss", "train_loss"),
}


class ResumeError(RuntimeError):
    """A checkpoint does not fit the program, or there is none that is whole."""


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
    state = _loaded(path, map_location, weights_only=weights_only)
    before = Before.of(optimizer, scheduler)
    _put_all(path, state, parts, strict=strict)
    if rng and isinstance(state.get("random"), dict):
        restore_random(state["random"])
    run = Resumed(
        path=path,
        step=int(state.get("step") or checkpoints.inspect(path, deep=False).step or 0),
        epoch=int(state.get("epoch") or 0),
        batch=int(state.get("batch") or 0),
        loss=state["loss"] if isinstance(state.get("loss"), (int, float)) else None,
        lr=tuple(learning_rates(optimizer)) if optimizer is not None else (),
        more={name: value for name, value in state.items() if name not in {*parts, "random", "lr", "world", "batches"}},
        optimizer=optimizer,
    )
    run.doubts = tuple(doubts_about(run, state, before, parts))
    _say(f"resumed {run}")
    if not agreement.rank():
        for doubt in run.doubts:
            warnings.warn(f"resumed from {os.path.basename(path)}: {doubt}", stacklevel=2)
    return run


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


def _loaded(path: str, map_location: Any, *, weights_only: bool) -> dict[str, Any]:  # noqa: ANN401 - as torch.load takes it
    try:
        state = torch.load(path, map_location=map_location, weights_only=weights_only)
    except Exception as problem:
        verdict = checkpoints.inspect(path)
        if verdict.verdict == "broken":
            raise ResumeError(f"{path} is not whole: {verdict.reasons[0]}.") from problem
        if weights_only and type(problem).__name__ == "UnpicklingError":
            raise ResumeError(
                f"{path} holds Python objects that weights_only refuses; pass weights_only=False if you trust it."
            ) from problem
        raise
    if not isinstance(state, dict):
        raise ResumeError(f"{path} holds a {type(state).__name__}, not the parts of a run by name.")
    return _renamed(state)


def _renamed(state: dict[str, Any]) -> dict[str, Any]:
    if state and all(isinstance(value, torch.Tensor) for value in state.values()):
        return {"model": state}
    others = dict(state)
    found = {}
    for part, spellings in _SPELLINGS.items():
        spelling = next((one for one in spellings if one in others), None)
        if spelling is not None:
            found[part] = others.pop(spelling)
    return {**others, **found}


def _put_all(path: str, state: dict[str, Any], parts: dict[str, Any], *, strict: bool) -> None:
    for name, part in parts.items():
        if part is None:
            continue
        if name in {"sampler", "loader"}:
            if isinstance(state.get(name), dict):
                put(part, state[name])
            continue
        if name not in state:
            raise ResumeError(f"{path} holds no {name}; leave {name}= out to go on without it. It holds {', '.join(state)}.")
        try:
            if name == "model":
                _put_model(part, state[name], strict=strict)
            elif name == "optimizer" and sharded.is_sharded(parts["model"]):
                sharded.load_optimizer(parts["model"], part, state[name])
            else:
                put(part, state[name])
        except (ValueError, KeyError, IndexError, RuntimeError, TypeError) as problem:
            raise ResumeError(f"The {name} in {path} does not fit: {problem}") from problem


def _put_model(model: Any, saved: Any, *, strict: bool) -> None:  # noqa: ANN401 - a module or several
    if isinstance(model, (dict, list, tuple)):
        for name in model if isinstance(model, dict) else range(len(model)):
            _put_model(model[name], saved[name], strict=strict)
        return
    if sharded.is_sharded(model):
        sharded.load_model(model, saved)
        return
    inner = unwrapped(model)
    wanted = inner.state_dict()
    given = match_names(saved, list(wanted))
    missing, unexpected = [name for name in wanted if name not in given], [name for name in given if name not in wanted]
    if strict and (missing or unexpected):
        told = [
            f"{len(names)} {word} ({_few(names)})"
            for word, names in (("missing", missing), ("unexpected", unexpected))
            if names
        ]
        raise ResumeError(f"{' and '.join(told)}. strict=False loads the rest.")
    shapes = [name for name in given if name in wanted and _shape(given[name]) != _shape(wanted[name])]
    if shapes:
        one = shapes[0]
        raise ResumeError(
            f"{len(shapes)} tensors have another shape ({one}: {_shape(given[one])} saved, {_shape(wanted[one])} here)"
        )
    inner.load_state_dict(given, strict=False)


def _few(names: list[str]) -> str:
    return ", ".join(names[:_NAMED]) + (", ..." if len(names) > _NAMED else "")


def _shape(value: Any) -> tuple[int, ...]:  # noqa: ANN401 - a tensor, or extra state of any type
    return tuple(getattr(value, "shape", ()))
