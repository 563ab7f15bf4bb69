"""Puts the results of the parts of a batch together, in order: the inverse of splitting it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from crashcart.train.batches.tree import fields_of, is_array, kind_of, rebuilt

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["check_joinable", "joined"]


def check_joinable(result: Any, size: int, numbers: str | None) -> None:  # noqa: ANN401 - any nesting
    """Raise now for what could not be joined later, when memory has run out."""
    _join([result], [size], "", numbers, trial=True)


def joined(results: Sequence[Any], sizes: Sequence[int], numbers: str | None) -> Any:  # noqa: ANN401 - as the results
    """One result, as if the whole batch had been run at once; `numbers` are what single numbers are: ``mean`` or ``sum``."""
    return results[0] if len(results) == 1 else _join(results, sizes, "", numbers, trial=False)


def _join(results: Sequence[Any], sizes: Sequence[int], path: str, numbers: str | None, *, trial: bool) -> Any:  # noqa: ANN401
    first = results[0]
    kind = kind_of(first)
    if first is None or isinstance(first, (str, bool)):
        return first
    if kind == "array":
        return _concatenated(results, sizes, path, trial=trial)
    if kind == "single":
        return _number(results, sizes, path, numbers)
    if kind != "named" and all(_one_a_sample(result, size) for result, size in zip(results, sizes, strict=True)):
        return first if trial else type(first)(item for result in results for item in result)
    rows = [fields_of(result) for result in results]
    if len({tuple(name for name, _ in row) for row in rows}) > 1:
        raise ValueError(f"the parts gave different fields in {_place(path)}; pass join=")
    names = [name for name, _ in rows[0]]
    made = [
        _join([row[index][1] for row in rows], sizes, f"{path}.{name}" if path else name, numbers, trial=trial)
        for index, name in enumerate(names)
    ]
    return first if trial else rebuilt(first, made)


def _one_a_sample(result: Any, size: int) -> bool:  # noqa: ANN401 - a sequence
    if len(result) != size or kind_of(result) == "items":
        return len(result) == size
    return not all(is_array(item) and item.shape[0] == size for item in result)


def _concatenated(results: Sequence[Any], sizes: Sequence[int], path: str, *, trial: bool) -> Any:  # noqa: ANN401 - arrays
    for result, size in zip(results, sizes, strict=True):
        if result.shape[0] != size:
            raise ValueError(
                f"{_place(path)} has shape {tuple(result.shape)} for {size} samples, so parts of it cannot be put together: "
                "return one row a sample, or pass join="
            )
    if trial:
        return results[0]
    if len({tuple(result.shape[1:]) for result in results}) > 1:
        shapes = ", ".join(str(tuple(result.shape)) for result in results)
        raise ValueError(f"the parts of {_place(path)} differ in shape ({shapes}): pad them in join=")
    if isinstance(results[0], torch.Tensor):
        return torch.cat(list(results))
    import numpy as np  # the results are its arrays already

    return np.concatenate(list(results))


def _number(results: Sequence[Any], sizes: Sequence[int], path: str, numbers: str | None) -> Any:  # noqa: ANN401 - numbers
    if not isinstance(results[0], (int, float, torch.Tensor)) and not hasattr(results[0], "item"):
        raise TypeError(f"{_place(path)} is a {type(results[0]).__name__}, which cannot be put together: pass join=")
    if numbers is None:
        raise TypeError(
            f"{_place(path)} is a single number for the whole batch: say numbers='mean' or numbers='sum', "
            "so that it is right when the batch is split"
        )
    if numbers == "sum":
        return sum(results[1:], results[0])
    return sum(result * (size / sum(sizes)) for result, size in zip(results, sizes, strict=True))


def _place(path: str) -> str:
    return f"the result's {path!r}" if path else "the result"
