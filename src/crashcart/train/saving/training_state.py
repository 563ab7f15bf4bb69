"""All that a run needs to go on as if it had not stopped, as plain tensors and numbers: ``weights_only`` loads it."""

from __future__ import annotations

import contextlib
import random
import sys
import zlib
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from crashcart.train.saving import agreement, sharded
from crashcart.train.saving.kinds import kinds_of, several

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["groups_of", "learning_rates", "match_names", "put", "random_state", "restore_random", "state_of", "unwrapped"]

_COMPILED = "_orig_mod"


def state_of(  # noqa: PLR0913 - each names one part of a run
    *,
    model: Any = None,  # noqa: ANN401 - a module, or several in a dict or list; so the others
    optimizer: Any = None,  # noqa: ANN401
    scheduler: Any = None,  # noqa: ANN401
    scaler: Any = None,  # noqa: ANN401
    sampler: Any = None,  # noqa: ANN401
    loader: Any = None,  # noqa: ANN401
    step: int | None = None,
    epoch: int | None = None,
    batch: int | None = None,
    loss: Any = None,  # noqa: ANN401 - a number or a tensor
    **more: Any,  # noqa: ANN401 - what else a run wants to remember
) -> dict[str, Any]:
    """What `resume` reads back: ``save_atomic(state_of(model=model, optimizer=optimizer, step=step, loss=loss), path)``.

    `step` is how many steps are done, `batch` how many batches of this epoch. The tensors are those of the model itself: save
    them before the next step. Of sharded parameters (FSDP) every rank must ask, and the first gets them whole.
    """
    parts = {"scheduler": scheduler, "scaler": scaler}
    state: dict[str, Any] = {name: _state(part) for name, part in parts.items() if part is not None}
    if model is not None:
        state["model"] = _model_state(model)
    if optimizer is not None:
        is_sharded = isinstance(model, nn.Module) and sharded.is_sharded(model)
        state["optimizer"] = sharded.optimizer_state(model, optimizer) if is_sharded else _state(optimizer)
        state["lr"] = learning_rates(optimizer)
    state["kinds"] = kinds_of(optimizer, scheduler)
    for name, part in (("sampler", sampler), ("loader", loader)):
        if part is not None:
            state[name] = _position(part)
    if loader is not None and hasattr(loader, "__len__"):
        state["batches"] = len(loader)
    numbers = {"step": step, "epoch": epoch, "batch": batch}
    state.update({name: int(number) for name, number in numbers.items() if number is not None})
    if loss is not None:
        state["loss"] = float(loss.detach() if hasattr(loss, "detach") else loss)  # torch warns otherwise
    return {**state, "world": agreement.world(), "random": random_state(), **more}


def put(part: Any, state: Any) -> None:  # noqa: ANN401 - an optimizer or the like, or several
    """Load a state into its owner; the counterpart of what `state_of` takes."""
    if isinstance(part, dict):
        for name, one in part.items():
            put(one, state[name])
    elif isinstance(part, (list, tuple)):
        if len(part) != len(state):
            raise ValueError(f"{len(state)} were saved, {len(part)} are given")
        for one, saved in zip(part, state, strict=True):
            put(one, saved)
    elif hasattr(part, "load_state_dict"):
        part.load_state_dict(state)
    elif hasattr(part, "set_epoch") and "epoch" in state:
        part.set_epoch(state["epoch"])


def _state(part: Any) -> Any:  # noqa: ANN401 - whatever has a state, or several
    if isinstance(part, dict):
        return {name: _state(one) for name, one in part.items()}
    if isinstance(part, (list, tuple)):
        return [_state(one) for one in part]
    return part.state_dict()


def _model_state(model: Any) -> Any:  # noqa: ANN401 - a module or several
    if isinstance(model, dict):
        return {name: _model_state(one) for name, one in model.items()}
    if isinstance(model, (list, tuple)):
        return [_model_state(one) for one in model]
    if sharded.is_sharded(model):
        return sharded.model_state(model)
    return {_without_compiled(name): value for name, value in unwrapped(model).state_dict().items()}


def _position(part: Any) -> dict[str, Any]:  # noqa: ANN401 - a sampler or a loader
    if hasattr(part, "state_dict"):
        with contextlib.suppress(AttributeError, NotImplementedError):  # accelerate's loaders have it and may not bear it
            return dict(part.state_dict())
    epoch = getattr(part, "epoch", None)
    return {"epoch": epoch} if isinstance(epoch, int) else {}


def unwrapped(model: nn.Module) -> nn.Module:
    """The module inside DDP, DataParallel and torch.compile, in any order."""
    while True:
        if isinstance(model, (nn.DataParallel, nn.parallel.DistributedDataParallel)):
            model = model.module
        elif _COMPILED in model._modules:  # noqa: SLF001 - a compiled module passes every other question on
            model = getattr(model, _COMPILED)
        else:
            return model


def _without_compiled(name: str) -> str:
    return ".".join(part for part in name.split(".") if part != _COMPILED)


def match_names(saved: Mapping[str, Any], wanted: list[str]) -> dict[str, Any]:
    """The saved tensors under the names that the module has, whatever was wrapped when they were saved."""
    plain = {_without_compiled(name): name for name in wanted}
    given = {_without_compiled(name): value for name, value in saved.items()}
    for _ in range(3):
        if given.keys() == plain.keys() or not given or not all(name.startswith("module.") for name in given):
            break
        shorter = {name.removeprefix("module."): value for name, value in given.items()}
        if len(shorter.keys() & plain.keys()) < len(given.keys() & plain.keys()):
            break
        given = shorter
    return {plain.get(name, name): value for name, value in given.items()}


def groups_of(optimizer: Any) -> list[dict[str, Any]]:  # noqa: ANN401 - an optimizer, or several in a dict or list, or None
    """The groups of all optimizers, one after the other."""
    return [group for one in several(optimizer) for group in one.param_groups]


def learning_rates(optimizer: Any) -> list[float]:  # noqa: ANN401 - as above
    """The rate of each group."""
    return [float(group["lr"]) for group in groups_of(optimizer)]


def random_state() -> dict[str, Any]:
    """The generators of Python, NumPy (where it is in use), torch and CUDA, in types that are safe to load."""
    state: dict[str, Any] = {"python": random.getstate(), "torch": torch.get_rng_state()}
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        name, keys, *rest = numpy.random.get_state()
        state["numpy"] = (name, torch.tensor([int(key) for key in keys]), *rest)
    if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        state["cuda"] = torch.cuda.get_rng_state()
    return state


def restore_random(state: dict[str, Any]) -> None:
    """Set the generators as they were; on other ranks than the first, which saved, to states of their own that follow from it."""
    rank = agreement.rank()
    numpy = sys.modules.get("numpy")
    if rank:
        seed = zlib.crc32(bytes(state["torch"].tolist()), rank)
        random.seed(seed)
        torch.manual_seed(seed)
        if numpy is not None:
            numpy.random.seed(seed)
        return
    version, numbers, gauss = state["python"]
    random.setstate((version, tuple(numbers), gauss))
    torch.set_rng_state(state["torch"].cpu())
    if numpy is not None and "numpy" in state:
        name, keys, *rest = state["numpy"]
        numpy.random.set_state((name, keys.numpy().astype("uint32"), *rest))
    if "cuda" in state and torch.cuda.is_available():
        torch.cuda.set_rng_state(state["cuda"].cpu())
