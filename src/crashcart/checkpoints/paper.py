"""The paper objects that stand for what a pickle would build: nothing here imports, calls or loads.

A dict is a list of pairs, because the keys of a paper dict may be paper themselves.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Global:
    """A class or function that unpickling would import."""

    module: str
    name: str


@dataclass(frozen=True, eq=False, slots=True)
class Persistent:
    """An object that is kept outside the pickle: for torch, a storage."""

    id: object


@dataclass(frozen=True, eq=False, slots=True)
class Table:
    """A dict, as its pairs."""

    pairs: list[tuple[object, object]] = field(default_factory=list)


@dataclass(frozen=True, eq=False, slots=True)
class Built:
    """A call that unpickling would make, and what it would put into the result."""

    function: object
    arguments: object
    state: list[object] = field(default_factory=list)
    pairs: list[tuple[object, object]] = field(default_factory=list)
    members: list[object] = field(default_factory=list)


@dataclass(frozen=True)
class Pickle:
    """One pickle: its outermost value, its imports, storages and calls in order, and the offset just after it."""

    value: object
    imports: tuple[Global, ...]
    persistent: tuple[Persistent, ...]
    calls: tuple[Built, ...]
    end: int
