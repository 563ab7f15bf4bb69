"""Which storages a torch pickle speaks of, how long each must be, and what its outermost dict holds.

torch.save keeps tensor data outside the pickle and leaves a persistent id in its place (the sixth item, a view, only in
the old format; nothing but None is written there since 2017):

    ('storage', torch.FloatStorage, '0', 'cuda:0', 1048576)     ->  record data/0 must have 1048576 x 4 bytes

dtypes that are younger than 2022 (float8, uint16) come as torch.storage.UntypedStorage, whose count is in bytes.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from crashcart.checkpoints.model import DamageError, Problem
from crashcart.checkpoints.paper import Built, Global, Persistent, Pickle, Table
from crashcart.checkpoints.zeros import row_items
from crashcart.numbers import to_int

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_ITEM_BYTES: Final = {
    "ByteStorage": 1,
    "CharStorage": 1,
    "BoolStorage": 1,
    "UntypedStorage": 1,
    "QInt8Storage": 1,
    "QUInt8Storage": 1,
    "QUInt4x2Storage": 1,
    "QUInt2x4Storage": 1,
    "ShortStorage": 2,
    "HalfStorage": 2,
    "BFloat16Storage": 2,
    "IntStorage": 4,
    "FloatStorage": 4,
    "QInt32Storage": 4,
    "LongStorage": 8,
    "DoubleStorage": 8,
    "ComplexFloatStorage": 8,
    "ComplexDoubleStorage": 16,
}
_PARTS_OF_ID: Final = 5
_MOST: Final = 1 << 63
_MOST_NAMES: Final = 20_000
_DEEPEST_NAME: Final = 5
_FLOAT_KINDS: Final = {"FloatStorage": "F32", "DoubleStorage": "F64", "HalfStorage": "F16", "BFloat16Storage": "BF16"}


@dataclass(frozen=True)
class Storage:
    """A storage as the pickle speaks of it; `item_bytes` is None for a type that we do not know."""

    key: str
    type_name: str
    item_bytes: int | None
    count: int

    @property
    def is_float(self) -> bool:
        """Whether exact zeros in a row are unusual in it."""
        return self.float_kind is not None

    @property
    def float_kind(self) -> str | None:
        """What kind of number it holds, as ``values`` names them; None where that is no float."""
        return _FLOAT_KINDS.get(self.type_name)

    @property
    def size_bytes(self) -> int | None:
        """How long its data is."""
        return None if self.item_bytes is None else self.count * self.item_bytes

    def fits(self, found_bytes: int) -> bool:
        """Whether data of this length is its own; a storage may end in less than one item."""
        if self.item_bytes is None:
            return True
        return 0 <= found_bytes - self.count * self.item_bytes < self.item_bytes


def storages_of(pickle: Pickle) -> Iterator[Storage]:
    """List the storages in the order of the pickle, with repetitions."""
    for persistent in pickle.persistent:
        found = _storage(persistent)
        if found:
            yield found


def _storage(persistent: Persistent) -> Storage | None:
    identity = persistent.id
    if not isinstance(identity, tuple) or len(identity) < _PARTS_OF_ID or identity[0] not in ("storage", b"storage"):
        return None
    _, kind, key, _, count = identity[:_PARTS_OF_ID]
    if (
        not isinstance(kind, Global)
        or not isinstance(count, int)
        or not 0 <= count < _MOST
        or not isinstance(key, (str, int))
    ):
        raise DamageError(Problem("broken", "a tensor in it refers to something that is not a storage"))
    return Storage(str(key), kind.name, _ITEM_BYTES.get(kind.name), count)


def row_counts(pickle: Pickle) -> Mapping[str, int]:
    """Tell, by storage key, how many items one row of its first tensor has."""
    rows: dict[str, int] = {}
    for call in pickle.calls:
        arguments = call.arguments
        if isinstance(arguments, tuple) and len(arguments) > 2 and isinstance(arguments[0], Persistent):  # noqa: PLR2004
            storage, size = _storage(arguments[0]), arguments[2]
            if storage and isinstance(size, tuple) and all(isinstance(side, int) and 0 <= side < _MOST for side in size):
                rows.setdefault(storage.key, row_items(size))
    return rows


def names_of(pickle: Pickle) -> Mapping[str, str]:
    """Tell, by storage key, the name of the first tensor that lies in it: ``model.layers.0.weight``."""
    names: dict[str, str] = {}
    waiting: list[tuple[str, object, int]] = [("", pickle.value, 0)]
    while waiting and len(names) < _MOST_NAMES:
        name, value, depth = waiting.pop()
        if isinstance(value, Built) and isinstance(value.arguments, tuple) and value.arguments:
            inner = value.arguments[0]
            storage = _storage(inner) if isinstance(inner, Persistent) else None
            if storage:
                names.setdefault(storage.key, name)
            elif isinstance(inner, Built):  # a parameter around its tensor
                waiting.append((name, inner, depth))
        if depth < _DEEPEST_NAME:
            inside = [(str(key), item) for key, item in pairs_of(value) if isinstance(key, (str, int))]
            waiting += [(f"{name}.{key}" if name else key, item, depth + 1) for key, item in reversed(inside)]
    return names


def pairs_of(value: object) -> list[tuple[object, object]]:
    """Return the pairs of a dict or of a subclass such as OrderedDict; nothing for anything else."""
    return value.pairs if isinstance(value, (Table, Built)) else []


def keys_of(value: object) -> frozenset[str] | None:
    """Return the string keys of the outermost dict."""
    keys = frozenset(key for key, _ in pairs_of(value) if isinstance(key, str))
    return keys or None


def numbers_of(value: object) -> Mapping[str, int]:
    """Return the whole numbers of the outermost dict, by key."""
    pairs = pairs_of(value)
    numbers = {
        key: found for key, found in pairs if isinstance(key, str) and type(found) is int and to_int(found) is not None
    }
    return MappingProxyType(numbers)


def empty_of(value: object) -> frozenset[str]:
    """Return the keys of the outermost dict that hold None."""
    return frozenset(key for key, found in pairs_of(value) if isinstance(key, str) and found is None)
