"""The batch that broke a step, kept for replay: which samples, which of their fields are not finite, and a bounded copy.

While a window is open only references are held. Copies are made when it is known to be bad, so a good step costs nothing.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, is_dataclass, replace
from typing import TYPE_CHECKING, Any

import torch

from crashcart.train.step.saying import say

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torch import Tensor

__all__ = ["Kept", "Micro", "Shelf"]

_ID_KEYS = (
    *("sample_ids", "sample_id", "ids", "id", "indices", "index", "idx", "idxs", "uids", "uid", "keys", "key", "__key__"),
    *("image_id", "image_ids", "video_id", "episode_index", "example_id", "guid", "paths", "path", "file_name", "filename"),
)
_DEEPEST = 8
_MOST_ROWS = 64


@dataclass
class Micro:
    """One micro batch of an open window: a reference to the batch, until it is known to be harmless."""

    batch: Any = None
    ids: Any = None

    def device_bytes(self) -> int:
        """How much of a device's memory it keeps from others."""
        return sum(tensor.numel() * tensor.element_size() for _, tensor in _tensors(self.batch) if not tensor.is_cpu)

    def forget(self) -> None:
        """Keep who they were, not what."""
        self.ids = self.ids if self.ids is not None else _ids_in(self.batch)
        self.batch = None


@dataclass(frozen=True)
class Kept:
    """A micro batch that broke a step, or may have: where only gradients broke, each of the window is kept."""

    step: int
    micro: int
    rank: int
    reason: str
    loss: float
    ids: list[Any] | None = None
    not_finite: dict[str, list[int]] = field(default_factory=dict)
    batch: Any = field(default=None, repr=False)
    path: str | None = None

    def __str__(self) -> str:
        rows = sorted({row for rows in self.not_finite.values() for row in rows})
        named = [self.ids[row] for row in rows if row < len(self.ids)] if self.ids else []
        who = named or self.ids
        text = f"step {self.step}, micro batch {self.micro}, rank {self.rank} ({self.reason})"
        text += f", samples {', '.join(map(str, who[:8]))}{' ...' if len(who) > 8 else ''}" if who else ""  # noqa: PLR2004 - a line
        text += f", not finite: {', '.join(map(str, self.not_finite))}" if self.not_finite else ""
        return text + (f", {self.path}" if self.path else "")


class Shelf:
    """The first few micro batches that went wrong, in memory, and on disk where a folder is given."""

    def __init__(self, folder: str | os.PathLike[str] | None, most: int, most_bytes: int) -> None:
        self.folder = None if folder is None else os.fspath(folder)
        self.most, self.most_bytes = most, most_bytes
        self.kept: list[Kept] = []
        self._told = False

    def put(self, micro: Micro, step: int, number: int, *, rank: int, reason: str, loss: float) -> Kept | None:
        """Keep one, unless there are enough."""
        if len(self.kept) >= self.most:
            return None
        try:
            kept = self._copied(micro, step, number, rank=rank, reason=reason, loss=loss)
        except Exception:  # noqa: BLE001 - a batch that cannot be looked into must not end the training
            kept = Kept(step, number, rank, reason, loss)
        self.kept.append(kept)
        return kept

    def _copied(self, micro: Micro, step: int, number: int, *, rank: int, reason: str, loss: float) -> Kept:
        ids = micro.ids if micro.ids is not None else _ids_in(micro.batch)
        wrong = _not_finite(micro.batch)
        rows = sorted({row for rows in wrong.values() for row in rows})
        batch = _copied(micro.batch, self.most_bytes, rows)
        kept = Kept(step, number, rank, reason, loss, _plain_ids(ids), wrong, batch)
        path = self._write(f"step{step}-rank{rank}-micro{number}.pt", vars(kept))
        return replace(kept, path=path)

    def _write(self, name: str, content: dict[str, Any]) -> str | None:
        """A full disk must not end the training: then there is a copy in memory only."""
        if self.folder is None:
            return None
        path = os.path.join(self.folder, name)
        try:
            os.makedirs(self.folder, exist_ok=True)
            torch.save(content, path)
        except (OSError, RuntimeError) as error:
            if not self._told:
                self._told = True
                say(f"StepGuard cannot write to keep_in={self.folder!r}, the copy is in memory only: {error}")
            return None
        return path


def _ids_in(batch: Any) -> Any:  # noqa: ANN401 - whatever a loader yields
    if isinstance(batch, Mapping):
        for key in _ID_KEYS:
            if key in batch and batch[key] is not None:
                return batch[key]
    return None


def _plain_ids(ids: Any) -> list[Any] | None:  # noqa: ANN401 - a tensor, an array, a list, one value
    if ids is None:
        return None
    if hasattr(ids, "tolist"):
        ids = ids.tolist()
    values = list(ids) if isinstance(ids, (list, tuple, range)) else [ids]
    return [_plain_id(value) for value in values]


def _plain_id(value: Any) -> Any:  # noqa: ANN401 - one id
    if hasattr(value, "tolist"):
        value = value.tolist()
    return value if isinstance(value, (int, float, str, bool)) else str(value)


def _tensors(batch: Any, name: str = "", depth: int = 0) -> Iterator[tuple[str, Tensor]]:  # noqa: ANN401 - any nesting
    value = _as_tensor(batch)
    if value is not None:
        yield name or "batch", value
    elif depth < _DEEPEST:
        for key, inner in _inner(batch):
            yield from _tensors(inner, f"{name}.{key}" if name else str(key), depth + 1)


def _inner(batch: Any) -> list[tuple[Any, Any]]:  # noqa: ANN401 - any nesting
    if isinstance(batch, Mapping):
        return list(batch.items())
    if isinstance(batch, (list, tuple)):
        names = getattr(batch, "_fields", range(len(batch)))
        return list(zip(names, batch, strict=True))
    if is_dataclass(batch) and hasattr(batch, "__dict__"):
        return list(vars(batch).items())
    return []


def _as_tensor(value: Any) -> Tensor | None:  # noqa: ANN401 - any leaf
    if isinstance(value, torch.Tensor):
        return value.detach()
    if type(value).__module__ == "numpy" and hasattr(value, "dtype") and hasattr(value, "__array__"):
        try:
            return torch.as_tensor(value)
        except (TypeError, ValueError, RuntimeError):
            return None
    return None


def _not_finite(batch: Any) -> dict[str, list[int]]:  # noqa: ANN401 - any nesting
    """Field -> rows with an entry that is not finite; what a NaN in a batch is mostly traced to."""
    found = {}
    for name, tensor in _tensors(batch):
        if (tensor.is_floating_point() or tensor.is_complex()) and not tensor.is_sparse and not tensor.is_nested:
            bad = ~tensor.isfinite()
            rows = bad.reshape(len(bad), -1).any(1).nonzero().flatten() if bad.dim() else bad.reshape(1).nonzero().flatten()
            if len(rows):
                found[name] = rows[:_MOST_ROWS].tolist()
    return found


def _copied(batch: Any, most_bytes: int, rows: list[int]) -> Any:  # noqa: ANN401 - any nesting
    """On the host, of plain types only (so that it loads with `weights_only=True`).

    Where it would be larger than allowed, the rows that are not finite stay, else the first ones, as many as there is room for.
    """
    sizes = [(len(tensor) if tensor.dim() else 1, tensor.numel() * tensor.element_size()) for _, tensor in _tensors(batch)]
    share = min(1.0, most_bytes / max(1, sum(size for _, size in sizes)))

    def copy(value: Any, depth: int = 0) -> Any:  # noqa: ANN401 - any nesting
        tensor = _as_tensor(value)
        if tensor is not None:
            if share < 1.0:
                tensor = tensor[: int(len(tensor) * share)] if tensor.dim() else tensor
                full = _as_tensor(value)
                if rows and full is not None and full.dim() and rows[-1] < len(full):
                    tensor = full[rows[: max(1, len(tensor))]] if len(tensor) else full[:0]
            return tensor.to("cpu", copy=True) if not tensor.is_nested else None
        if isinstance(value, (str, int, float, bool, bytes)) or value is None:
            return value
        if depth >= _DEEPEST:
            return str(type(value))
        if isinstance(value, (list, tuple)) and not hasattr(value, "_fields"):
            return [copy(inner, depth + 1) for inner in value]
        inner = _inner(value)
        return {str(key): copy(one, depth + 1) for key, one in inner} if inner else str(type(value))

    return copy(batch)
