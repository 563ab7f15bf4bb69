"""The last weights that were good, on the host, and running statistics that a NaN has not touched, on the device."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from crashcart.train.step.gradients import local_norm

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["Snapshots", "Statistics", "not_finite_names", "weights_of"]

_MOST_STATISTICS_BYTES = 64 << 20


def weights_of(models: list[torch.nn.Module]) -> list[Tensor]:
    """Parameters and floating buffers as this rank holds them, each once."""
    return [_local(tensor.detach()) for tensor in _all_of(models)]


def _all_of(models: list[torch.nn.Module]) -> list[Tensor]:
    found: dict[int, Tensor] = {}
    for model in models:
        found.update((id(parameter), parameter) for parameter in model.parameters())
        found.update((id(buffer), buffer) for buffer in model.buffers() if buffer.is_floating_point())
    return list(found.values())


def _local(tensor: Tensor) -> Tensor:
    return tensor.to_local() if hasattr(tensor, "to_local") else tensor


def _good(tensor: Tensor, *, trained: bool) -> bool:
    """What is not trained may well hold -inf, as masks of attention do; a NaN has no place there either."""
    return bool(tensor.isfinite().all()) if trained else not bool(tensor.isnan().any())


def _finite(tensors: list[Tensor], trained: list[bool]) -> bool:
    """One pass for all; where their norm overflows, or an entry is at fault, each is asked."""
    norm = local_norm(tensors)
    if norm is None or bool(norm.isfinite()):
        return True
    return all(_good(tensor, trained=learns) for tensor, learns in zip(tensors, trained, strict=True))


def not_finite_names(models: list[torch.nn.Module]) -> list[str]:
    """The parameters and buffers of this rank that hold an entry that is not finite (what is not trained: NaN); the host waits."""
    if _finite(weights_of(models), [tensor.requires_grad for tensor in _all_of(models)]):
        return []
    return [
        name
        for model in models
        for name, tensor in [*model.named_parameters(), *model.named_buffers()]
        if tensor.is_floating_point() and not _good(_local(tensor.detach()), trained=tensor.requires_grad)
    ]


class Snapshots:
    """Two copies of weights (and optimizer state) on the host; the older one stays until the newer has proven good."""

    def __init__(self, models: list[torch.nn.Module], optimizers: list[Any]) -> None:
        self._models, self._optimizers = models, optimizers
        self._taken: list[tuple[int, list[Tensor], list[Any]]] = []

    def take(self, step: int) -> None:
        """Copy what is there after window `step`; on a GPU the copy runs behind the step, and nothing waits."""
        weights = [_to_host(tensor) for tensor in weights_of(self._models)]
        states = [_copied(optimizer.state, optimizer) for optimizer in self._optimizers]
        self._taken = [*self._taken[-1:], (step, weights, states)]

    def good_before(self, window: int) -> list[int]:
        """After which windows before this one there is a copy that is finite; the host waits for the copies."""
        if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
            torch.cuda.synchronize()
        trained = [tensor.requires_grad for tensor in _all_of(self._models)]
        return [step for step, weights, _ in self._taken if step < window and _finite(weights, trained)]

    @torch.no_grad()
    def restore(self, step: int) -> None:
        """Put back what was there after this window."""
        weights, states = next((weights, states) for taken, weights, states in self._taken if taken == step)
        for tensor, saved in zip(weights_of(self._models), weights, strict=True):
            tensor.copy_(saved)
        for optimizer, state in zip(self._optimizers, states, strict=True):
            _put_back(optimizer, state)


def _to_host(tensor: Tensor) -> Tensor:
    place = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=tensor.is_cuda)
    return place.copy_(tensor, non_blocking=True)


def _copied(state: Any, optimizer: Any) -> list[dict[str, Any] | None]:  # noqa: ANN401 - an optimizer and its state
    """By the place of each parameter: tensors on the host, the rest as it is."""
    copies: list[dict[str, Any] | None] = []
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            own = state.get(parameter)
            copies.append(None if own is None else {key: _copy_one(value) for key, value in own.items()})
    return copies


def _copy_one(value: Any) -> Any:  # noqa: ANN401 - whatever an optimizer remembers
    if not isinstance(value, torch.Tensor):
        return value
    return _to_host(_local(value.detach()))


def _put_back(optimizer: Any, copies: list[dict[str, Any] | None]) -> None:  # noqa: ANN401 - any optimizer
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    for parameter, saved in zip(parameters, copies, strict=False):
        own = optimizer.state.get(parameter)
        if own is None:
            continue
        for key in list(own):
            if saved is None or key not in saved:
                del own[key]
            elif isinstance(own[key], torch.Tensor):
                _local(own[key]).copy_(saved[key])
            else:
                own[key] = saved[key]
        if not own:
            del optimizer.state[parameter]


class Statistics:
    """Running statistics (batch norm, moving averages): forward changes them before anybody knows that the batch was bad.

    A step that is skipped for its loss puts them back to a copy from before it; one skipped for its gradients only where they
    hold a NaN (nobody told the loss). Only small buffers are watched: tables of a gigabyte do not change.
    """

    def __init__(self, models: list[torch.nn.Module]) -> None:
        found = {id(one): one for model in models for one in model.buffers() if _changes(one)}
        live = sorted(found.values(), key=torch.numel)
        total = 0
        self._live: list[Tensor] = []
        for buffer in live:
            total += buffer.numel() * buffer.element_size()
            if total <= _MOST_STATISTICS_BYTES:
                self._live.append(buffer)
        self._good: list[Tensor] | None = None
        self._newer: list[Tensor] = [torch.empty_like(buffer) for buffer in self._live]
        self._newer_step: int | None = None

    def begin(self) -> None:
        """Before the first forward: what is there now is taken for good, and not what was there before a checkpoint was loaded."""
        if self._good is None:
            self._good = [buffer.detach().clone() for buffer in self._live]

    @property
    def poisoned(self) -> bool:
        """Whether they hold a NaN; the host waits for the answer."""
        return not _finite(self._live, [False] * len(self._live))

    @torch.no_grad()
    def after(self, step: int, known: int, *, bad_since: int | None) -> None:
        """After window `step`, when all up to `known` are judged; `bad_since`: the first of them that was just found bad."""
        if not self._live:
            return
        sure = known if bad_since is None else bad_since - 1
        if self._newer_step is not None and self._newer_step <= sure:
            spare = self._good or [torch.empty_like(buffer) for buffer in self._live]
            self._good, self._newer, self._newer_step = self._newer, spare, None
        if bad_since is not None:
            if self._good is not None:
                _copy_all(self._live, self._good)
            self._newer_step = None
        elif self._newer_step is None:
            _copy_all(self._newer, self._live)
            self._newer_step = step


def _changes(buffer: Tensor) -> bool:
    return buffer.is_floating_point() and buffer.numel() > 0 and not hasattr(buffer, "to_local")


def _copy_all(targets: list[Tensor], sources: list[Tensor]) -> None:
    if hasattr(torch, "_foreach_copy_"):
        torch._foreach_copy_(targets, sources)
        return
    for target, source in zip(targets, sources, strict=True):
        target.copy_(source)
