"""A small model and a guarded loop, for the tests of StepGuard."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from crashcart.train import StepGuard

NAN, INF = float("nan"), float("inf")


def net() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))


def adam(model: nn.Module, **named: Any) -> torch.optim.AdamW:
    return torch.optim.AdamW(model.parameters(), lr=0.01, **named)


def rows(count: int, size: int = 2) -> list[Tensor]:
    torch.manual_seed(1)
    return [torch.randn(size, 4) for _ in range(count)]


def loss_of(model: nn.Module, batch: Any) -> Tensor:
    inputs = batch["x"] if isinstance(batch, dict) else batch
    loss: Tensor = (model(inputs) - inputs.sum(1, keepdim=True)).square().mean()
    return loss


def weights(model: nn.Module) -> list[float]:
    return [value for parameter in model.parameters() for value in parameter.detach().flatten().tolist()]


def is_nan(loss: Tensor) -> Tensor:
    return loss * NAN


def infinite_gradients(loss: Tensor) -> Tensor:
    """A finite loss whose backward is not."""
    loss = loss * 1.0
    loss.register_hook(lambda gradient: gradient * INF)  # type: ignore[no-untyped-call]
    return loss


def run(
    model: nn.Module,
    guard: StepGuard,
    batches: Iterable[Any],
    bad: Iterable[int] = (),
    how: Callable[[Tensor], Tensor] = is_nan,
) -> int:
    """One epoch; how many batches it had."""
    count = 0
    spoiled = set(bad)
    for batch in guard.batches(batches):
        loss = loss_of(model, batch)
        guard.backward(how(loss) if count in spoiled else loss)
        count += 1
    return count
