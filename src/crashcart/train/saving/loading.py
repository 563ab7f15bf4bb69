"""A checkpoint read, and each of its parts put into its owner; what does not fit is refused with names."""

from __future__ import annotations

from typing import Any

import torch

from crashcart import checkpoints
from crashcart.train.saving import sharded
from crashcart.train.saving.kinds import lacking, several
from crashcart.train.saving.training_state import match_names, put, unwrapped

__all__ = ["ResumeError", "loaded", "put_all"]

_NAMED = 4
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


def loaded(path: str, map_location: Any, *, weights_only: bool) -> dict[str, Any]:  # noqa: ANN401 - as torch.load takes it
    """What a checkpoint holds, by the names of `state_of`."""
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


def put_all(path: str, state: dict[str, Any], parts: dict[str, Any], *, strict: bool) -> None:
    """Load each part that the program gave."""
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
            elif name == "optimizer":
                _put_optimizer(parts["model"], part, state[name])
            else:
                put(part, state[name])
        except (ValueError, KeyError, IndexError, RuntimeError, TypeError) as problem:
            raise ResumeError(f"The {name} in {path} does not fit: {problem}") from problem


def _put_optimizer(model: Any, optimizer: Any, saved: Any) -> None:  # noqa: ANN401 - one or several of each
    """Refuse the state of another kind of optimizer, which loads well and fails at the first step; leave this one as it was."""
    own = [(one, one.state_dict()) for one in several(optimizer)]
    put(optimizer, sharded.by_number(model, optimizer, saved))
    missing = [name for one, _ in own for name in lacking(one)]
    if missing:
        for one, before in own:
            one.load_state_dict(before)
        raise ResumeError(f"it was of another kind, and has no {_few(missing)}; leave optimizer= out to begin it anew")


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
