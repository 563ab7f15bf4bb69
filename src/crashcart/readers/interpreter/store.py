"""The memory of a program that is run in thought: names of frames, attributes of objects, contents of containers.

Writes are logged, so that alternatives can start from the same state: run one, note what it changed, undo it, run the next, and
join what they changed. Reading costs a look into one dictionary, whatever the nesting.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from crashcart.readers.interpreter.values import Constant, PerRank, Unknown, Value, join, unknown_from

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

__all__ = ["Fork", "Store"]

Key = tuple[object, Any]
_ABSENT: Any = object()


class Store:
    """Keys are an owner (a frame, an object, a container) and a name."""

    def __init__(self) -> None:
        self.cells: dict[Key, Any] = {}
        self.log: list[tuple[Key, Any]] = []
        self.over: set[object] = set()
        self.written = 0  # items of containers, which are written as a whole

    def get(self, owner: object, name: object, default: Any = None) -> Any:  # noqa: ANN401 - values and contents
        """What is kept under a key."""
        return self.cells.get((owner, name), default)

    def set(self, owner: object, name: object, value: Any) -> None:  # noqa: ANN401 - values and contents
        """Keep something under a key."""
        if value.__class__ is tuple or value.__class__ is dict:
            self.written += len(value)
        key = (owner, name)
        before = self.cells.get(key, _ABSENT)
        if before is not value:
            self.log.append((key, before))
            self.cells[key] = value

    def delete(self, owner: object, name: object) -> None:
        """Forget a key."""
        key = (owner, name)
        if key in self.cells:
            self.log.append((key, self.cells.pop(key)))

    def names(self, owner: object) -> list[Any]:
        """The names under which an owner keeps something; slow, for objects with few."""
        return [name for each, name in self.cells if each is owner]

    def changes(self, mark: int) -> dict[Key, Any]:
        """What differs from the state at a mark: the present values; names of calls that are over are nobody's business."""
        cells = self.cells
        return {key: cells.get(key, _ABSENT) for key, _ in self.log[mark:] if key[0] not in self.over}

    def before(self, mark: int) -> dict[Key, Any]:
        """What the keys that were written since a mark held then; those that held nothing are left out."""
        found: dict[Key, Any] = {}
        for key, value in self.log[mark:]:
            found.setdefault(key, value)
        return {key: value for key, value in found.items() if value is not _ABSENT and key[0] not in self.over}

    def forget(self, owner: object, names: Iterable[str]) -> None:
        """The names of a call that is over and that nothing refers to any more."""
        self.over.add(owner)
        for name in names:
            self.cells.pop((owner, name), None)

    def undo(self, mark: int) -> None:
        """Go back to the state at a mark."""
        cells, log = self.cells, self.log
        while len(log) > mark:
            key, before = log.pop()
            if before is _ABSENT:
                cells.pop(key, None)
            else:
                cells[key] = before

    def restore(self, mark: int, owners: Callable[[object], bool]) -> None:
        """Give what some owners keep the values that it had at a mark."""
        before: dict[Key, Any] = {}
        for key, value in self.log[mark:]:
            before.setdefault(key, value)
        for key, value in before.items():
            if owners(key[0]):
                self.write(key, value)

    def write(self, key: Key, value: Any) -> None:  # noqa: ANN401 - values and contents
        """Set a key as a whole; ``_ABSENT`` forgets it."""
        if value is _ABSENT:
            self.delete(*key)
        elif self.cells.get(key, _ABSENT) is not value:
            self.set(*key, value)


class Fork:
    """Ways through a program that begin in one state and meet again."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.mark = len(store.log)
        self.ends: list[dict[Key, Any]] = []

    def end(self) -> None:
        """One way has come to where they meet: keep its state, and go back to the beginning."""
        self.ends.append(self.store.changes(self.mark))
        self.store.undo(self.mark)

    def keep(self) -> None:
        """One way leaves here for where they meet; the state stays as it is."""
        self.ends.append(self.store.changes(self.mark))

    def rewind(self) -> None:
        """Go back to the beginning without an end: this way does not come to where they meet."""
        self.store.undo(self.mark)

    def join(self, *, per_rank: bool = False) -> None:
        """Go on from what all ways left; of two ways of ranks the first one's end is that of rank 0."""
        self.store.undo(self.mark)
        if len(self.ends) == 1:
            for key, value in self.ends[0].items():
                self.store.write(key, value)
            return
        cells, ends = self.store.cells, self.ends
        for key in {key: None for end in ends for key in end}:
            before = cells.get(key, _ABSENT)
            first = ends[0].get(key, before)
            value = first
            for end in ends:
                if end.get(key, before) is not first:
                    value = _met([each.get(key, before) for each in ends], per_rank=per_rank)
                    break
            if value is not before:
                self.store.write(key, value)


def _met(values: list[Any], *, per_rank: bool) -> Any:  # noqa: ANN401 - values and contents
    """What a key holds after several ways: values are joined, contents of containers item by item."""
    present = [value for value in values if value is not _ABSENT]
    if isinstance(present[0], Value):
        if per_rank and len(present) == 2:  # noqa: PLR2004 - rank 0 and the others
            return PerRank(*present)
        result: Value = present[0]
        for value in present[1:]:
            result = join(result, value) if isinstance(value, Value) else Unknown()
        return result
    if isinstance(present[0], dict):
        merged: dict[Any, Value] = {}
        for content in present:
            for key, value in content.items():
                merged[key] = join(merged[key], value) if key in merged else value
        for key, value in merged.items():
            if isinstance(value, Constant) and not all(key in content for content in present):
                merged[key] = join(value, Unknown(kind="absent"))  # it may not be there at all
        return merged
    if isinstance(present[0], tuple):
        if len({len(content) for content in present}) == 1:
            columns = zip(*present, strict=True)
            return tuple(_met(list(column), per_rank=False) for column in columns)
        longest = max(present, key=len)
        return (*longest, unknown_from(*(item for content in present for item in content)))
    return present[0] if all(value == present[0] for value in present) else True  # ``open``: there may be more


TRUE, FALSE, NONE = Constant(True), Constant(False), Constant(None)
