"""How many samples a nested batch holds, and any range of them, as views.

The number is the length that all arrays and lists share. A plain list or tuple can hold fields (``[images, labels]``) or one
thing a sample (``[boxes of the first, boxes of the second, ...]``). The lengths decide. Where both fit, what collate functions
make does: lists of mappings or of lists are samples, and so are lists of arrays beside them (three pictures of three channels);
everything else, and the outermost, is fields, as torch's default_collate makes them (two views of two samples).
"""

from __future__ import annotations

import operator
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import torch

from crashcart.train.batches.tree import fields_of, is_array, kind_of, rebuilt, refusal, with_samples

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

__all__ = ["Samples"]

_ONE = frozenset({1})
_MANY = 12  # lengths named in an error


class Samples:
    """A batch, seen as a row of samples."""

    def __init__(
        self,
        batch: Any,  # noqa: ANN401 - any nested batch
        dim: int | Mapping[str, int] = 0,
        size: int | None = None,
        shared: Iterable[str] = (),
        per_sample: Iterable[str] = (),
    ) -> None:
        self._batch = batch
        self._dims = dict(dim) if isinstance(dim, Mapping) else {"": operator.index(dim)}
        self._shared = (shared,) if isinstance(shared, str) else tuple(shared)
        self._per_sample = (per_sample,) if isinstance(per_sample, str) else tuple(per_sample)
        lengths = list(self._lengths(batch, ""))
        for path in (*self._shared, *self._per_sample, *self._dims):
            if path and not any(_covers(path, each) for each in self._paths(batch, "")):
                raise ValueError(f"the batch has no {path!r}; it has {_listed([p for p in self._paths(batch, '') if p])}")
        self._said = size is not None
        self.size = self._given(size, lengths) if size is not None else self._found(lengths)
        self._keeps_lists = any(self._surely_samples(node, path) for node, path in self._sequences(batch, ""))

    def part(self, start: int, stop: int) -> Any:  # noqa: ANN401 - as the batch
        """Samples `start` to `stop` in the same nesting; the whole batch itself where that is all of them."""
        return self._batch if stop - start == self.size else self._part(self._batch, "", start, stop)

    def _given(self, size: int, lengths: list[tuple[str, int]]) -> int:
        if operator.index(size) not in {length for _, length in lengths}:
            raise ValueError(f"nothing in the batch has length {size}: {_told(lengths)}")
        return operator.index(size)

    def _found(self, lengths: list[tuple[str, int]]) -> int:
        sizes = self._sizes(self._batch, "")
        if sizes is None:
            if isinstance(self._batch, (list, tuple)) and not self._batch:
                return 0
            raise ValueError(f"there is no tensor, array or list of samples in this {type(self._batch).__name__}")
        if len(sizes) == 1:
            return next(iter(sizes))
        if sizes:
            both = " or ".join(map(str, sorted(sizes)))
            raise ValueError(f"the batch can be read as {both} samples ({_told(lengths)}): say which with size=")
        raise ValueError(
            f"the batch has no common length: {_told(lengths)}; name what belongs to no sample in shared=, "
            "or say size= to split what has that length and share the rest"
        )

    def _sizes(self, node: Any, path: str) -> frozenset[int] | None:  # noqa: ANN401 - any node
        """The numbers of samples that this node allows; None where it allows any."""
        kind = kind_of(node)
        if self._is_shared(path) or kind == "single":
            return None
        if kind == "array":
            return frozenset({self._length(node, path)})
        if kind == "items":
            return frozenset({len(node)}) if len(node) else None
        if path in self._per_sample:
            return frozenset({len(node)})
        fields = self._common(node, path)
        if kind == "named" or not _alike(node):
            return fields
        samples = frozenset({len(node)})
        if path:
            return samples | (fields or samples)
        return samples if _samples_first(node, outermost=True) else (fields or samples)

    def _common(self, node: Any, path: str) -> frozenset[int] | None:  # noqa: ANN401 - a named node or a sequence
        votes = [sizes for name, child in fields_of(node) if (sizes := self._sizes(child, _join(path, name))) is not None]
        longer = [sizes for sizes in votes if sizes != _ONE]  # length 1 goes with every length, as in broadcasting
        if not longer:
            return _ONE if votes else None
        return frozenset.intersection(*longer)

    def _part(self, node: Any, path: str, start: int, stop: int) -> Any:  # noqa: ANN401 - any node
        kind = kind_of(node)
        if self._is_shared(path) or kind == "single":
            return node
        if kind == "array":
            return self._slice(node, path, start, stop) if self._length(node, path) == self.size else node
        if kind == "items" or (kind == "sequence" and self._one_a_sample(node, path)):
            return node[start:stop] if len(node) == self.size else node
        made = rebuilt(node, [self._part(child, _join(path, name), start, stop) for name, child in fields_of(node)])
        return with_samples(node, made, start, stop)

    def _one_a_sample(self, node: Any, path: str) -> bool:  # noqa: ANN401 - a sequence
        if path in self._per_sample:
            return True
        if len(node) != self.size or not _alike(node):
            return False
        if self.size in (self._common(node, path) or ()):
            arrays_beside_lists = bool(path) and self._keeps_lists and all(is_array(item) for item in node)
            return arrays_beside_lists or _samples_first(node, outermost=not path)
        if path or not self._said:  # found, not said: only the list itself has this length, whatever one of its samples has
            return True
        inner = {size for name, child in fields_of(node) for size in self._sizes(child, _join(path, name)) or ()}
        return self.size not in inner

    def _surely_samples(self, node: Any, path: str) -> bool:  # noqa: ANN401 - a sequence
        if len(node) != self.size or not _alike(node) or not path or path in self._per_sample:
            return False
        return _samples_first(node, outermost=False) or self.size not in (self._common(node, path) or ())

    def _sequences(self, node: Any, path: str) -> Iterator[tuple[Any, str]]:  # noqa: ANN401 - any node
        kind = kind_of(node)
        if kind == "sequence" and not self._is_shared(path):
            yield node, path
        for name, child in fields_of(node) if kind == "named" or (kind == "sequence" and not path) else ():
            yield from self._sequences(child, _join(path, name))

    def _slice(self, node: Any, path: str, start: int, stop: int) -> Any:  # noqa: ANN401 - an array
        dim = self._dim(path) % len(node.shape)
        if isinstance(node, torch.Tensor):
            return node.narrow(dim, start, stop - start)
        rows = getattr(node, "iloc", node)  # pandas
        return rows[(slice(None),) * dim + (slice(start, stop),)] if dim else rows[start:stop]

    def _length(self, node: Any, path: str) -> int:  # noqa: ANN401 - an array
        dim = self._dim(path)
        if not -len(node.shape) <= dim < len(node.shape):
            raise ValueError(
                f"{path or 'the batch'} of shape {tuple(node.shape)} has no dimension {dim}: name the fields that have it, "
                f'dim={{"FIELD": {dim}}}, or name this one in shared='
            )
        return int(node.shape[dim])

    def _dim(self, path: str) -> int:
        return next((dim for name, dim in self._dims.items() if _covers(name, path)), 0)

    def _is_shared(self, path: str) -> bool:
        return any(_covers(name, path) for name in self._shared)

    def _lengths(self, node: Any, path: str) -> Iterator[tuple[str, int]]:  # noqa: ANN401 - any node
        if self._is_shared(path):
            return
        if why := refusal(node):
            raise TypeError(f"{path or 'the batch'} {why}" + (", or name it in shared=" if path else ""))
        kind = kind_of(node)
        if kind == "array":
            yield path, self._length(node, path)
        elif kind != "single":
            if kind != "named":
                yield path, len(node)
            for name, child in fields_of(node) if kind != "items" else ():
                yield from self._lengths(child, _join(path, name))

    def _paths(self, node: Any, path: str) -> Iterator[str]:  # noqa: ANN401 - any node
        yield path
        for name, child in fields_of(node) if kind_of(node) in {"named", "sequence"} else ():
            yield from self._paths(child, _join(path, name))


def _alike(node: Any) -> bool:  # noqa: ANN401 - a sequence
    """All of one kind, as samples are; images and labels beside a name are not."""
    return all(is_array(item) for item in node) or len({type(item) for item in node}) == 1


def _samples_first(node: Any, *, outermost: bool) -> bool:  # noqa: ANN401 - a sequence
    if all(isinstance(item, Mapping) for item in node) and len({frozenset(item) for item in node}) == 1:
        return not outermost or isinstance(node, list)
    return not outermost and isinstance(node, list) and all(isinstance(item, list) for item in node)


def _covers(name: str, path: str) -> bool:
    return name in {"", path} or path.startswith(name + ".")


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _told(lengths: list[tuple[str, int]]) -> str:
    return _listed([f"{path} has {length}" for path, length in lengths if path] or [f"{length}" for _, length in lengths])


def _listed(words: list[str]) -> str:
    return ", ".join(words[:_MANY]) + (f" and {len(words) - _MANY} more" if len(words) > _MANY else "")
