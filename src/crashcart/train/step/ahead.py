"""Batches looked one ahead: the last one is known as the last before it is used."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

__all__ = ["Batches", "Turn", "ahead"]

Batch = TypeVar("Batch")


class Batches(Iterator[Batch]):
    """A loader's batches under a guard: an iterator that has the loader's length, and begins anew when it has ended.

    A generator would have neither: a progress bar would know no total, and a second epoch over it would be empty.
    """

    def __init__(self, loader: Iterable[Batch], begin: Callable[[Iterable[Batch]], Iterator[Batch]]) -> None:
        self._loader, self._begin = loader, begin
        self._running: Iterator[Batch] | None = None
        self._ended = False

    def __len__(self) -> int:
        """Of this rank's loader; a TypeError where it has no length."""
        return len(self._loader)  # type: ignore[arg-type]

    def __iter__(self) -> Batches[Batch]:
        if self._ended:
            self._running, self._ended = None, False
        return self

    def __next__(self) -> Batch:
        if self._running is None:
            self._running = self._begin(self._loader)
        try:
            return next(self._running)
        except BaseException:
            self._ended = True
            raise


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
