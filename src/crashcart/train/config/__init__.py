"""YAML whose numbers are numbers, read against a schema if there is one.

    config = load_yaml("train.yaml")                    # {'lr': 0.0001}, where PyYAML gives {'lr': '1e-4'}
    config = load_yaml("train.yaml", schema=Config)     # a dataclass or a pydantic model, filled and checked

What differs from ``yaml.safe_load``, and why, stands in `scalars`; all else is the same.
"""

from __future__ import annotations

import dataclasses
import warnings
from typing import TYPE_CHECKING, Any, TypeVar, overload

from crashcart.train.config import models, schemas
from crashcart.train.config.nodes import Builder, compose, node_at
from crashcart.train.config.source import Source, YamlError, read

if TYPE_CHECKING:
    import os
    from typing import IO

    from crashcart.train.config.schemas import Path

__all__ = ["YamlError", "load_yaml"]

Filled = TypeVar("Filled")
_TOLD = 10  # so many problems are told at once


@overload
def load_yaml(source: str | os.PathLike[str] | bytes | IO[Any]) -> Any: ...  # noqa: ANN401 - what the file holds
@overload
def load_yaml(source: str | os.PathLike[str] | bytes | IO[Any], schema: type[Filled]) -> Filled: ...
@overload
def load_yaml(source: str | os.PathLike[str] | bytes | IO[Any], schema: None) -> Any: ...  # noqa: ANN401 - what the file holds
def load_yaml(source: str | os.PathLike[str] | bytes | IO[Any], schema: type[Any] | None = None) -> Any:
    """Read a YAML file, or text; errors are one `YamlError` with file, line and column, and the line itself.

    A string is text if it has a line break or a ``key: value`` and is no file. Keys that are given twice, tags of Python, several
    documents and aliases that multiply are refused. With a schema so are unknown keys, missing ones and wrong types.
    """
    if schema is not None and not (dataclasses.is_dataclass(schema) or models.is_model(schema)):
        raise TypeError(f"schema is a dataclass or a pydantic model, not {schema!r}.")
    if dataclasses.is_dataclass(type(schema)):
        raise TypeError(f"schema is the class {type(schema).__name__} itself, not an instance of it.")
    given = read(source)
    root = compose(given)
    builder = Builder(given)
    value = builder.build(root)
    if isinstance(value, str) and root is not None:
        _refuse_bare(given, value)
    if schema is not None:
        value = _filled(given, root, {} if value is None else value, schema)
    for place, says in builder.notes:
        warnings.warn(f"{given.name}:{place.line + 1}: {says}", stacklevel=2)
    return value


def _refuse_bare(given: Source, value: str) -> None:
    """A document that is one string is a forgotten space, or the name of a file that is not there."""
    if ":" in value and "\n" not in given.text.strip():
        raise given.error("a space is missing after the colon: this is one string, not a key and a value", 0, 0)
    if given.is_argument:
        raise YamlError(f"there is no such file, and as YAML it is only the string {value!r}", value, 0, 0, "")


def _filled(given: Source, root: Any, value: object, schema: type[Any]) -> object:  # noqa: ANN401 - a node of PyYAML
    problems: list[tuple[Path, str, bool]] = []

    def report(path: Path, says: str, *, at_key: bool = False) -> None:
        problems.append((path, says, at_key))

    fill = models.fill if models.is_model(schema) else schemas.convert
    filled = fill(value, schema, (), report)
    if not problems:
        return filled
    told = [_told(given, root, path, says, at_key=at_key) for path, says, at_key in problems]
    told.sort(key=lambda error: (error.line, error.column))
    if len(told) == 1:
        raise told[0]
    more = "\n".join(map(str, told[1:_TOLD])) + (f"\n... and {len(told) - _TOLD} more" if len(told) > _TOLD else "")
    first = told[0]
    raise YamlError(first.reason, first.file, first.line, first.column, first.text, more)


def _told(given: Source, root: Any, path: Path, says: str, *, at_key: bool) -> YamlError:  # noqa: ANN401 - a node of PyYAML
    key, node = node_at(given, root, path)
    mark = (key if at_key and key is not None else node).start_mark if root is not None else None
    named = ".".join(map(str, path))
    sentence = f"{named}: {says}" if named else says
    return given.error(sentence, mark.line if mark else 0, mark.column if mark else 0)
