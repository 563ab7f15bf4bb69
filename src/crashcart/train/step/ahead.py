"""Batches looked one ahead: the last one is known as the last before it is used."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

__all__ = ["Turn", "ahead"]

Batch = TypeVar("Batch")


@dataclass
class Turn:
    """One micro batch: what the loop said of it before backward."""

    batch: Any = None
    ids: Any = None
    weight: Any = None
    last: bool | None = None
    done: bool = False


def ahead(batches: Iterable[Batch], limit: int | None = None) -> Iterator[tuple[Batch, bool]]:
    """Each batch, and whether it is the last. An error of the loader comes up after the batch before it, which is then the last."""
    source = iter(batches)
    if limit is not None:
        source = islice(source, limit)
    try:
        current = next(source)
    except StopIteration:
        return
    while True:
        failure: Exception | None = None
        following: list[Batch] = []
        try:
            following = [next(source)]
        except StopIteration:
            pass
        except Exception as error:  # noqa: BLE001 - it is raised below, once the batch that did come was used
            failure = error
        yield current, not following
        if failure is not None:
            raise failure
        if not following:
            return
        current = following[0]
