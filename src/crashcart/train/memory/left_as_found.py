"""Lets something run and leaves behind what was there before: weights, optimizer state, random numbers, no gradients."""

from __future__ import annotations

import copy
import random
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

__all__ = ["clear_gradients", "left_as_found"]


@contextmanager
def left_as_found(things: Iterable[Any]) -> Iterator[None]:
    """Copies on the host, so that none takes memory where it is measured; restored also after an error."""
    undo = [_random_numbers(), *(_module(thing) if isinstance(thing, nn.Module) else _stateful(thing) for thing in things)]
    try:
        yield
    finally:
        clear_gradients(things)
        for put_back in undo:
            put_back()


def clear_gradients(things: Iterable[Any]) -> None:
    """Free the gradients of the modules among them."""
    for thing in things:
        if isinstance(thing, nn.Module):
            thing.zero_grad(set_to_none=True)


def _module(module: nn.Module) -> Callable[[], None]:
    tensors = {id(each): each for each in [*module.parameters(), *module.buffers()]}.values()
    saved = [(each, _on_host(_own(each))) for each in tensors]
    modes = [(each, each.training) for each in module.modules()]

    def put_back() -> None:
        with torch.no_grad():
            for tensor, values in saved:
                _own(tensor).copy_(values)
        for each, training in modes:
            each.training = training

    return put_back


def _stateful(one: Any) -> Callable[[], None]:  # noqa: ANN401 - an optimizer, scheduler, scaler, averaged weights
    if not (hasattr(one, "state_dict") and hasattr(one, "load_state_dict")):
        raise TypeError(f"restore= takes modules, optimizers and whatever has state_dict and load_state_dict, not {one!r}")
    saved = _on_host(one.state_dict())
    return lambda: one.load_state_dict(saved)


def _own(tensor: torch.Tensor) -> torch.Tensor:
    local = getattr(tensor, "to_local", None)
    own: torch.Tensor = local() if local is not None else tensor
    return own.detach()


def _on_host(tree: Any) -> Any:  # noqa: ANN401 - any state
    if isinstance(tree, torch.Tensor):
        return tree.detach().to("cpu", copy=True)
    if isinstance(tree, dict):
        return {key: _on_host(value) for key, value in tree.items()}
    if isinstance(tree, list):
        return [_on_host(value) for value in tree]
    return copy.deepcopy(tree)


def _random_numbers() -> Callable[[], None]:
    numpy = sys.modules.get("numpy")
    python, host = random.getstate(), torch.get_rng_state()
    arrays = numpy.random.get_state() if numpy is not None else None
    cards = torch.cuda.get_rng_state_all() if torch.cuda.is_available() and torch.cuda.is_initialized() else None  # type: ignore[no-untyped-call]

    def put_back() -> None:
        random.setstate(python)
        torch.set_rng_state(host)
        if numpy is not None:
            numpy.random.set_state(arrays)
        if cards is not None:
            torch.cuda.set_rng_state_all(cards)

    return put_back
