"""A dataclass filled from a config: nested, checked type by type, every problem told with its path.

What is changed on the way: a whole number into a float, a float that is whole (1e4) into an int, a list into a tuple or a set, a
string into a path, an enum (by name or value) or, from a date, into itself. Everything else must already be of its type.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import difflib
import enum
import os
import pathlib
import types
import typing
from collections import abc
from typing import Any, Protocol

from crashcart.numbers import to_float
from crashcart.train.config.scalars import plain

__all__ = ["Path", "Report", "convert", "unknown_key"]

Path = tuple[Any, ...]
_SEQUENCES = (list, tuple, set, frozenset, abc.Sequence, abc.Iterable, abc.Collection, abc.Set)
_MAPPINGS = (dict, abc.Mapping, abc.MutableMapping)
_LARGEST = 2**53  # beyond it a float no longer tells whole numbers apart
_MOST_BITS = 1000  # Python writes no int of more than 4300 digits, but in base 16
_WORDS = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "a string",
    type(None): "null",
    dict: "a mapping",
}


class Report(Protocol):
    """Takes one problem: where, and what in words."""

    def __call__(self, path: Path, says: str, *, at_key: bool = False) -> None:  # noqa: D102 - says it above
        ...


def convert(value: Any, wanted: Any, path: Path, report: Report) -> Any:  # noqa: ANN401 - of any type
    """The value as its type wants it; where that cannot be, a report."""
    wanted = _bare(wanted)
    origin = typing.get_origin(wanted)
    if wanted is Any or wanted is object or isinstance(wanted, (typing.TypeVar, str)):
        return value
    if origin in (typing.Union, types.UnionType):
        return _one_of(value, typing.get_args(wanted), path, report)
    if origin is typing.Literal:
        return _literal(value, typing.get_args(wanted), path, report)
    if dataclasses.is_dataclass(wanted) and isinstance(wanted, type):
        return _dataclass(value, wanted, path, report)
    if (origin or wanted) in _MAPPINGS:
        return _mapping(value, typing.get_args(wanted), path, report)
    if (origin or wanted) in _SEQUENCES:
        return _sequence(value, origin or wanted, typing.get_args(wanted), path, report)
    return _plain_type(value, origin or wanted, path, report)


def unknown_key(key: object, known: typing.Iterable[str]) -> str:
    """Say that a key is not known, and which one may be meant."""
    names = list(known)
    near = difflib.get_close_matches(str(key), names, 1)
    hint = f"did you mean {near[0]}?" if near else f"known are {', '.join(names[:12])}{', ...' if len(names) > 12 else ''}"  # noqa: PLR2004 - what fits on a line
    return f"there is no such setting; {hint}"


def _bare(wanted: Any) -> Any:  # noqa: ANN401 - a type
    while True:
        if typing.get_origin(wanted) in (typing.Annotated, typing.Final):
            wanted = typing.get_args(wanted)[0]
        elif isinstance(wanted, dataclasses.InitVar):
            wanted = wanted.type
        elif hasattr(wanted, "__supertype__"):
            wanted = wanted.__supertype__
        else:
            return type(None) if wanted is None else wanted


def _dataclass(value: Any, wanted: type[Any], path: Path, report: Report) -> Any:  # noqa: ANN401 - an instance
    if not isinstance(value, dict):
        return report(path, f"{wanted.__name__} is a mapping of settings, not {_shown(value)}")
    hints = typing.get_type_hints(wanted, include_extras=True)
    fields = {field.name: field for field in _fields(wanted) if field.init}
    problems = _Counted(report)
    for key in value:
        if key not in fields:
            problems((*path, key), unknown_key(key, fields), at_key=True)
    filled = {
        key: convert(item, hints.get(key, Any), (*path, key), problems) for key, item in value.items() if key in fields
    }
    for name, field in fields.items():
        required = field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
        if required and name not in value:
            problems(path, f"the setting {name} is missing")
    if problems.count:
        return None
    try:
        return wanted(**filled)
    except (ValueError, TypeError, AssertionError) as problem:  # what its own __post_init__ refuses
        return report(path, f"{wanted.__name__} refuses it: {problem}")


def _fields(wanted: type[Any]) -> list[dataclasses.Field[Any]]:
    """With those that only __post_init__ gets."""
    every = wanted.__dataclass_fields__.values()
    return [field for field in every if "_FIELD_CLASSVAR" not in repr(field._field_type)]  # noqa: SLF001 - dataclasses.fields leaves InitVar out


class _Counted:
    """A report that remembers whether there was one."""

    def __init__(self, report: Report) -> None:
        self.count, self._report = 0, report

    def __call__(self, path: Path, says: str, *, at_key: bool = False) -> None:
        self.count += 1
        self._report(path, says, at_key=at_key)


def _one_of(value: Any, members: tuple[Any, ...], path: Path, report: Report) -> Any:  # noqa: ANN401 - of one of these types
    if value is None and type(None) in members:
        return None
    others = [_bare(member) for member in members if _bare(member) is not type(None)]
    if type(value) in others:
        return value
    if len(others) == 1:
        return convert(value, others[0], path, report)
    for member in others:
        silent = _Counted(lambda *_, **__: None)
        found = convert(value, member, path, silent)
        if not silent.count:
            return found
    return report(path, f"one of {', '.join(_called(member) for member in members)} is wanted, not {_shown(value)}")


def _literal(value: Any, choices: tuple[Any, ...], path: Path, report: Report) -> Any:  # noqa: ANN401 - one of the choices
    for choice in choices:
        if value == choice and type(value) is type(choice):
            return value
    near = difflib.get_close_matches(str(value), [str(choice) for choice in choices], 1)
    hint = f"; did you mean {near[0]}?" if near else ""
    return report(path, f"one of {', '.join(map(repr, choices))} is wanted, not {_shown(value)}{hint}")


def _mapping(value: Any, types_: tuple[Any, ...], path: Path, report: Report) -> Any:  # noqa: ANN401 - a mapping
    if not isinstance(value, dict):
        return report(path, f"a mapping is wanted, not {_shown(value)}")
    of_key, of_value = types_ if len(types_) == 2 else (Any, Any)  # noqa: PLR2004 - key and value
    return {
        convert(key, of_key, (*path, key), report): convert(item, of_value, (*path, key), report)
        for key, item in value.items()
    }


def _sequence(value: Any, kind: Any, types_: tuple[Any, ...], path: Path, report: Report) -> Any:  # noqa: ANN401 - a list or the like
    if not isinstance(value, (list, set)):
        return report(path, f"a list is wanted, not {_shown(value)}")
    fixed = kind is tuple and types_ and types_[-1] is not Ellipsis
    if fixed and len(types_) != len(value):
        return report(path, f"a list of {len(types_)} is wanted, not of {len(value)}")
    each = types_ if fixed else [types_[0] if types_ else Any] * len(value)
    items = [convert(item, of, (*path, at), report) for at, (item, of) in enumerate(zip(value, each, strict=True))]
    made = kind if kind in (tuple, set, frozenset) else set if kind is abc.Set else list
    try:
        return made(items)
    except TypeError:
        return report(path, "a list or a mapping cannot be in a set")


def _plain_type(value: Any, wanted: Any, path: Path, report: Report) -> Any:  # noqa: ANN401 - of the type
    if not isinstance(wanted, type):
        return value
    if isinstance(value, wanted) and isinstance(value, bool) <= (wanted is bool):
        return value
    if wanted is float and type(value) is int and (number := to_float(value)) is not None:
        return number
    if wanted is int and type(value) is float and value.is_integer() and abs(value) <= _LARGEST:
        return int(value)
    if wanted is str and type(value) is dt.date:
        return value.isoformat()
    if isinstance(value, str) and issubclass(wanted, os.PathLike):
        made: Any = pathlib.Path if wanted is os.PathLike else wanted
        return made(value)
    if issubclass(wanted, enum.Enum):
        return _member(value, wanted, path, report)
    return report(path, f"{_called(wanted)} is wanted, not {_shown(value)}{_hint(value, wanted)}")


def _member(value: Any, wanted: type[enum.Enum], path: Path, report: Report) -> Any:  # noqa: ANN401 - a member
    for member in wanted:
        if value == member.name or (value == member.value and type(value) is type(member.value)):
            return member
    return _literal(value, tuple(member.name for member in wanted), path, report)


def _hint(value: Any, wanted: Any) -> str:  # noqa: ANN401 - any two
    if isinstance(value, str) and wanted in (int, float, bool) and value:
        try:
            meant = plain(value)
        except ValueError:
            return ""
        if type(meant) in {wanted, int}:
            return ": take the quotes away"
        return "; write null" if value.lower() == "none" else ""
    return ": put it in quotes" if wanted is str and isinstance(value, (bool, int, float, dt.date)) else ""


def _called(wanted: Any) -> str:  # noqa: ANN401 - a type
    return _WORDS.get(wanted) or str(getattr(wanted, "__name__", wanted))


def _shown(value: Any) -> str:  # noqa: ANN401 - any value
    if value is None:
        return "null"
    kinds: dict[Any, str] = {dict: "the mapping ", list: "the list ", str: "the string "}
    kind = kinds.get(type(value), "")
    huge = type(value) is int and value.bit_length() > _MOST_BITS
    text = str(value).lower() if isinstance(value, bool) else f"{value:#x}" if huge else repr(value)
    return kind + (text if len(text) < 60 else text[:57] + "...")  # noqa: PLR2004 - what fits on a line
