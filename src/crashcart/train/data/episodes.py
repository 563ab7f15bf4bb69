"""Which part of which episode is sample number i: two flat arrays, not a list with a tuple for each sample.

A list of tuples is copied into every worker, bit by bit: to look at a tuple changes its count of references, which lies beside
it, and so the page that the fork had shared. Here nothing that is looked at has such a count, and there is one number for an
episode, not one for a sample.
"""

from __future__ import annotations

import sys
import warnings
from array import array
from bisect import bisect_right
from collections.abc import Sequence
from operator import index as as_index
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, overload

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["Chunk", "ChunkIndex", "chunk_index"]

Short = Literal["pad", "error", "drop"]
_NAMED = 5  # so many episodes are named in a sentence


class Chunk(NamedTuple):
    """One sample: `valid` steps of an episode from `start` on; a chunk that is longer is padding from there."""

    episode: int
    start: int
    valid: int


def chunk_index(
    lengths: Iterable[int], chunk: int, *, stride: int = 1, short: Short = "pad", tails: bool = False
) -> ChunkIndex:
    """Number the chunks of all episodes: ``index[i]`` is ``(episode, start, valid)``, ``len(index)`` how many there are.

    Every `stride` steps a chunk begins that lies whole in its episode; with `tails` also where only its beginning does, as ACT
    trains. An episode shorter than the chunk gives one chunk with ``valid < chunk`` (`short` = "pad"), stops with its number
    ("error"), or gives none, which a warning tells ("drop"). One without any step cannot be padded: it is told, too.
    """
    if as_index(chunk) < 1 or as_index(stride) < 1:
        raise ValueError(f"chunk and stride are 1 or more, not {chunk} and {stride}.")
    if short not in {"pad", "error", "drop"}:
        raise ValueError(f'short is "pad", "error" or "drop", not {short!r}.')
    counted = array("q", (_length(length) for length in _plain(lengths)))
    _tell_short(counted, chunk, short)
    ends, total = array("q"), 0
    for length in counted:
        total += _chunks_in(length, chunk, stride, short, tails=tails)
        ends.append(total)
    if not total:
        longest = max(counted, default=0)
        raise ValueError(
            f"There is no sample: {len(counted)} episodes, the longest of {longest} steps, and chunks of {chunk}; "
            'take a shorter chunk or short="pad".'
        )
    return ChunkIndex(ends, counted, chunk, stride)


class ChunkIndex(Sequence[Chunk]):
    """All chunks in order, each worked out when it is asked for; shared by all workers, forked or spawned."""

    def __init__(self, ends: array[int], lengths: array[int], chunk: int, stride: int) -> None:
        self.chunk, self.stride = chunk, stride
        self._ends: Any = ends
        self._lengths: Any = lengths
        self._shared: Any = None

    def __len__(self) -> int:
        return int(self._ends[-1])

    @overload
    def __getitem__(self, number: int) -> Chunk: ...
    @overload
    def __getitem__(self, number: slice) -> list[Chunk]: ...
    def __getitem__(self, number: int | slice) -> Chunk | list[Chunk]:
        if isinstance(number, slice):
            return [self[one] for one in range(*number.indices(len(self)))]
        wanted = as_index(number)
        wanted += len(self) if wanted < 0 else 0
        if not 0 <= wanted < len(self):
            raise IndexError(f"chunk {number} of {len(self)}")
        episode = bisect_right(self._ends, wanted)
        before = self._ends[episode - 1] if episode else 0
        start = (wanted - before) * self.stride
        return Chunk(episode, start, min(self.chunk, self._lengths[episode] - start))

    @property
    def episodes(self) -> int:
        """How many episodes there are, with those that give no chunk."""
        return len(self._ends)

    def __repr__(self) -> str:
        return f"ChunkIndex({len(self)} chunks of {self.chunk} from {self.episodes} episodes)"

    def __reduce__(self) -> tuple[Any, ...]:
        """In the job's shared memory, where torch is there to put it: spawned workers then map the same pages."""
        torch = sys.modules.get("torch")
        if torch is None:
            return ChunkIndex, (array("q", self._ends), array("q", self._lengths), self.chunk, self.stride)
        if self._shared is None:
            self._shared = torch.tensor([*self._ends, *self._lengths], dtype=torch.int64)
        return _mapped, (self._shared, self.chunk, self.stride)


def _mapped(shared: Any, chunk: int, stride: int) -> ChunkIndex:  # noqa: ANN401 - a tensor, in a module without torch
    try:
        numbers: Any = memoryview(shared.numpy())
    except RuntimeError:  # torch without NumPy: a copy, still flat
        numbers = array("q", shared.tolist())
    middle = len(numbers) // 2
    index = ChunkIndex(numbers[:middle], numbers[middle:], chunk, stride)
    index._shared = shared  # noqa: SLF001 - keeps the mapping alive
    return index


def _plain(lengths: Any) -> Any:  # noqa: ANN401 - a list, an array or a tensor
    return lengths.tolist() if hasattr(lengths, "tolist") else lengths


def _length(given: int) -> int:
    length = as_index(given)
    if length < 0:
        raise ValueError(f"An episode has {length} steps, which is no length.")
    return length


def _chunks_in(length: int, chunk: int, stride: int, short: Short, *, tails: bool) -> int:
    if length < chunk and (short == "drop" or not length):
        return 0
    last = length - 1 if tails else max(0, length - chunk)
    return last // stride + 1


def _tell_short(lengths: array[int], chunk: int, short: Short) -> None:
    """Stop, or warn, where an episode gives nothing."""
    least = 1 if short == "pad" else chunk
    lost = [number for number, length in enumerate(lengths) if length < least]
    if not lost:
        return
    named = ", ".join(map(str, lost[:_NAMED])) + (", ..." if len(lost) > _NAMED else "")
    says = f"{len(lost)} of {len(lengths)} episodes have fewer than {least} steps (number {named})"
    if short == "error":
        raise ValueError(f'{says}; take a shorter chunk, short="pad" or short="drop".')
    warnings.warn(f"{says}: they give no sample.", stacklevel=3)
