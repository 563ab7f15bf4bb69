"""Frozen records that cost nothing to define.

To the type checker these are dataclasses, and they behave like them. At run time the standard library's would build each of
them from source text and load ``inspect`` for it: a quarter of what ``crashcart why`` needs for a small log.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__all__ = ["field", "names_of", "record", "replace"]

if TYPE_CHECKING:
    from dataclasses import dataclass as record
    from dataclasses import field, replace
else:

    def field(*, default_factory: Any) -> Any:  # noqa: ANN401 - as in dataclasses
        """A default that is made anew for each record."""
        return _Made(default_factory)

    def record(cls: type | None = None, *, frozen: bool = False) -> Any:  # noqa: ANN401 - as in dataclasses
        """Turn annotations into fields."""
        return (lambda given: _built(given, frozen)) if cls is None else _built(cls, frozen)

    def replace(one: Any, /, **changes: Any) -> Any:  # noqa: ANN401 - as in dataclasses
        """The same record with some fields changed."""
        return type(one)(**{**one.__dict__, **changes})


def names_of(value: object) -> tuple[str, ...] | None:
    """The field names of a record, None of anything else."""
    return getattr(type(value), "__record__", None)


class _Made:
    __slots__ = ("make",)

    def __init__(self, make: Any) -> None:  # noqa: ANN401 - as in dataclasses
        self.make = make


def _built(cls: type, frozen: bool) -> type:  # noqa: FBT001 - one caller
    names = tuple(cls.__annotations__)
    defaults = {name: cls.__dict__[name] for name in names if name in cls.__dict__}
    plain = {name: value for name, value in defaults.items() if not isinstance(value, _Made)}
    made = {name: value.make for name, value in defaults.items() if isinstance(value, _Made)}
    required = frozenset(names) - frozenset(defaults)

    def init(self: Any, *values: Any, **named: Any) -> None:  # noqa: ANN401 - any field
        own = self.__dict__
        own.update(plain)
        own.update(zip(names, values, strict=False))
        own.update(named)
        for name, make in made.items():
            if name not in own:
                own[name] = make()
        if len(own) != len(names) or len(values) > len(names) or not required <= own.keys():
            raise TypeError(f"{cls.__name__} takes {', '.join(names)}")

    cls.__record__ = names  # type: ignore[attr-defined]
    cls.__init__ = init  # type: ignore[misc]
    cls.__repr__ = _repr  # type: ignore[assignment]
    cls.__eq__ = _equal  # type: ignore[assignment]
    cls.__hash__ = _hash if frozen else None  # type: ignore[assignment]
    if frozen:
        cls.__setattr__ = _refuse  # type: ignore[assignment]
    return cls


def _repr(self: Any) -> str:  # noqa: ANN401 - any record
    return f"{type(self).__name__}({', '.join(f'{name}={getattr(self, name)!r}' for name in type(self).__record__)})"


def _equal(self: Any, other: object) -> bool:  # noqa: ANN401 - any record
    return bool(type(self) is type(other) and self.__dict__ == other.__dict__)


def _hash(self: Any) -> int:  # noqa: ANN401 - any record
    parts = (getattr(self, name) for name in type(self).__record__)
    return hash(tuple(len(part) if isinstance(part, (list, dict, set)) else part for part in parts))


def _refuse(self: Any, name: str, value: object) -> None:  # noqa: ANN401, ARG001 - any record
    raise AttributeError(f"{type(self).__name__}.{name} cannot be changed: a record is frozen")
