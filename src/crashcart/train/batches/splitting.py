"""Splits any nested batch for gradient accumulation: no sample lost, no chunk empty, weights for the exact mean.

    for part, weight in chunks(batch, 4):
        (loss_of(part) * weight).backward()

Slicing by ``len // n`` loses the remainder, and with fewer samples than parts every part is empty.
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, overload

from crashcart.train.all_ranks import numbers_of_all
from crashcart.train.batches.samples import Samples

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["Chunk", "Chunks", "chunks", "even"]


class Chunk(NamedTuple):
    """A part of the batch, and its share of the samples: the weights of all chunks add up to one."""

    batch: Any
    weight: float


class Chunks(Sequence[Chunk]):
    """The chunks of one batch, cut as they are asked for: views of it, nothing is copied."""

    def __init__(self, samples: Samples, count: int, of_all: Sequence[int]) -> None:
        self._samples = samples
        self._ranges = even(samples.size, count)
        self.samples = samples.size
        self.share = samples.size * len(of_all) / sum(of_all) if sum(of_all) else 1.0
        """Times this the weights give, averaged over the ranks by DDP, the mean over all samples of all ranks."""

    @property
    def sizes(self) -> list[int]:
        """How many samples each chunk holds; they differ by one at most."""
        return [stop - start for start, stop in self._ranges]

    @overload
    def __getitem__(self, index: int) -> Chunk: ...
    @overload
    def __getitem__(self, index: slice) -> list[Chunk]: ...
    def __getitem__(self, index: int | slice) -> Chunk | list[Chunk]:
        if isinstance(index, slice):
            return [self[each] for each in range(*index.indices(len(self)))]
        start, stop = self._ranges[index]
        return Chunk(self._samples.part(start, stop), (stop - start) / self.samples)

    def __len__(self) -> int:
        return len(self._ranges)

    def __repr__(self) -> str:
        return f"<{len(self)} chunks of {self.samples} samples: {self.sizes}>"


def chunks(  # noqa: PLR0913 - all but the first two by name
    batch: Any,  # noqa: ANN401 - any nested batch
    n: int,
    *,
    dim: int | Mapping[str, int] = 0,
    size: int | None = None,
    shared: Iterable[str] = (),
    per_sample: Iterable[str] = (),
    all_ranks: bool = False,
    group: Any = None,  # noqa: ANN401 - a ProcessGroup
) -> Chunks:
    """At most `n` chunks of the batch, never more than it has samples, each with its weight.

    `dim`: the dimension that counts samples; a mapping gives it for some fields, by their dotted path, and 0 for the others.
    `size`: how many samples there are, where lengths disagree: what has that length is split, the rest is shared.
    `shared`: paths that go whole into every chunk, whatever their length.
    `per_sample`: paths of lists of arrays with one array a sample, where their lengths could also mean fields.
    `all_ranks`: as many chunks on every rank of `group` as the smallest batch among them allows, so that each rank enters
    its collectives equally often. It is a collective itself; a batch that cannot be split raises on every rank.
    """
    count = operator.index(n)
    if count < 1:
        raise ValueError(f"chunks needs n of at least 1, not {count}")
    if not all_ranks:
        samples = Samples(batch, dim, size, shared, per_sample)
        return Chunks(samples, min(count, samples.size), [samples.size])
    failure: Exception | None = None
    try:
        samples = Samples(batch, dim, size, shared, per_sample)
    except (TypeError, ValueError) as error:
        failure = error
    of_all = [(int(have), int(want)) for have, want in numbers_of_all([-1 if failure else samples.size, count], group)]
    if failure is not None:
        raise failure
    sizes = [have for have, _ in of_all]
    if min(sizes) < 1:
        rank = sizes.index(min(sizes))
        what = "could not split its batch" if min(sizes) < 0 else "has an empty batch"
        raise ValueError(f"rank {rank} {what}, so no number of chunks fits all ranks")
    return Chunks(samples, min(min(pair) for pair in of_all), sizes)


def even(total: int, count: int) -> list[tuple[int, int]]:
    """`count` ranges that cover `total` without a gap; sizes differ by one at most, the larger first."""
    size, longer = divmod(total, count) if count else (0, 0)
    starts = [index * size + min(index, longer) for index in range(count + 1)]
    return list(itertools.pairwise(starts))
