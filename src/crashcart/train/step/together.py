"""What several ranks know together: whose loss and gradients are finite, in one small sum that no rank leaves out.

A rank that decides alone to skip a step pairs its next all-reduce with the others' earlier one: gradients of different
steps mix, and the job ends in a time-out. So the flags are summed, and every rank reads the same sum.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import distributed

from crashcart.train.step.gradients import Gradients

if TYPE_CHECKING:
    from collections.abc import Iterable

    from torch import Tensor

__all__ = ["Ranks", "agree_finite"]


class Ranks:
    """The ranks that decide together; one alone where nothing distributed was started."""

    def __init__(self, group: Any = None) -> None:  # noqa: ANN401 - a process group, False for "alone", None for the default one
        started = distributed.is_available() and distributed.is_initialized()
        self.group = group if group is not False else None
        self.size = distributed.get_world_size(self.group) if started and group is not False else 1
        self.number = distributed.get_rank() if started else 0
        self.first = self.size == 1 or distributed.get_rank(self.group) == 0

    def begin_sum(self, values: Tensor) -> Any:  # noqa: ANN401 - torch's own handle
        """Start to sum the values over the ranks, in place; what comes back is waited for with `end_sum`."""
        if self.size == 1:
            return None
        return distributed.all_reduce(values, group=self.group, async_op=True)

    @staticmethod
    def end_sum(handle: Any) -> None:  # noqa: ANN401 - torch's own handle
        """On a GPU the stream waits, the host does not."""
        if handle is not None:
            handle.wait()

    def sum(self, values: Tensor) -> Tensor:
        """The values summed over the ranks, in place."""
        self.end_sum(self.begin_sum(values))
        return values

    def smallest(self, number: int, device: torch.device) -> int:
        """The smallest of one number from each rank; the host waits for it."""
        if self.size == 1:
            return number
        value = torch.full((), number, dtype=torch.int64, device=device)
        distributed.all_reduce(value, op=distributed.ReduceOp.MIN, group=self.group)
        return int(value.item())


def agree_finite(
    parameters: torch.nn.Module | Iterable[Tensor],
    loss: Tensor | None = None,
    group: Any = None,  # noqa: ANN401 - a process group, False for "alone", None for the default one
) -> Tensor:
    """Whether all gradients (and the loss) are finite on all ranks: a boolean tensor on the device, nothing is waited for.

    Every rank of the group has to call it, and gets the same answer. For loops that keep their own cycle: call it between
    backward and step.
    """
    if isinstance(parameters, torch.nn.Module):
        parameters = parameters.parameters()
    owners = list(parameters)
    norm = Gradients(owners).local_norm()
    device = next((one.device for one in [*owners, loss] if one is not None), torch.device("cpu"))
    bad = torch.zeros((), device=device)
    for part in (norm, None if loss is None else loss.detach()):
        if part is not None:
            bad = bad + (~part.isfinite()).any().to(device, torch.float32, non_blocking=True)
    return Ranks(group).sum(bad) == 0  # Also a rank without a single gradient has to come to the sum.
