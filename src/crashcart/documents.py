"""Structured documents from outside (JSON, YAML, TOML, Python), measured before a parser or our own readers meet them.

Parsers trust their input. libyaml's composer calls itself for each level, and 50,000 open brackets crash the interpreter; a JSON
file of 60 MB becomes 2 GB of objects; a kilobyte of YAML merges itself into millions of keys; a Python expression of
a thousand operators is a tree a thousand levels deep. So each document is bounded in depth and in the number of its values.
What is refused raises ``DocumentError``, a ``ValueError`` like the errors of the parsers: both are caught alike.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from crashcart.numbers import bound_number, json_int

if TYPE_CHECKING:
    import ast
    from collections.abc import Callable

    import yaml

__all__ = [
    "DocumentError",
    "compose_yaml",
    "json_weight",
    "load_json",
    "load_toml",
    "load_yaml",
    "parse_python",
]

DEEPEST = 100
_JSON_BYTES = 64 << 20
_VALUE_BYTES = 60
_MOST_PER_CHARACTER = _VALUE_BYTES + 5
_YAML_EVENTS = 60_000
_YAML_DIRECTIVES = 100
_TOML_CHARACTERS = 500_000
# The marks between the parts of a program: there are about as many as nodes in its tree, at half a kilobyte each.
_MARKS = (*",;.()[]{}=+-*/%<>|&^~@:\n", " and ", " or ", "not ", " in ", " is ", " if ", " else ")
_MOST_MARKS = 80_000
_DEEP = f"is nested more than {DEEPEST} levels deep"


class DocumentError(ValueError):
    """What a document is or has, so that it is not read: "is nested more than 100 levels deep"."""


def json_weight(text: str | bytes) -> int:
    """About how many bytes of memory it takes to read a JSON text, the text itself included."""
    characters: tuple[Any, ...] = (",", "[", "{", ":") if isinstance(text, str) else (b",", b"[", b"{", b":")
    return (2 if text.isascii() else 5) * len(text) + _VALUE_BYTES * sum(map(text.count, characters))


def load_json(
    text: str | bytes,
    *,
    most_bytes: int = _JSON_BYTES,
    object_pairs_hook: Callable[[list[tuple[str, Any]]], Any] | None = None,
) -> Any:  # noqa: ANN401 - data enters here
    """The value of a JSON text; ``ValueError`` for all that is wrong with it."""
    if len(text) * _MOST_PER_CHARACTER > most_bytes and json_weight(text) > most_bytes:
        raise DocumentError(f"holds more than fits into {most_bytes >> 20} MB of memory")
    text = text if isinstance(text, str) else text.decode()
    try:
        value = json.loads(text, object_pairs_hook=object_pairs_hook, parse_int=json_int)
    except RecursionError:
        raise DocumentError(_DEEP) from None
    if text.count("[") + text.count("{") > DEEPEST and _is_deep(value):
        raise DocumentError(_DEEP)
    return value


def _is_deep(value: object) -> bool:
    level = [value]
    for _ in range(DEEPEST + 1):
        inner = (one.values() if isinstance(one, dict) else one for one in level)
        level = [one for group in inner for one in group if isinstance(one, (dict, list))]  # type: ignore[attr-defined]
        if not level:
            return False
    return True


def compose_yaml(text: str) -> list[yaml.Node]:
    """The documents of a YAML text as nodes with their places; ``yaml.YAMLError`` where it is no YAML."""
    import yaml

    loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    _measure_yaml(text, loader)
    return list(yaml.compose_all(text, Loader=loader))


def load_yaml(text: str) -> Any:  # noqa: ANN401 - data enters here
    """The value of a short YAML text without aliases; ``ValueError`` or ``yaml.YAMLError`` where it has none."""
    import yaml

    _measure_yaml(text, yaml.SafeLoader, aliases=False)
    try:
        return bound_number(yaml.safe_load(text))
    except (AttributeError, LookupError, TypeError, ArithmeticError) as problem:  # `!!timestamp a`, `!!bool x`, `!!int ""`
        raise DocumentError(f"holds a value that is not of its type ({problem!r})") from None


def _measure_yaml(text: str, loader: Any, *, aliases: bool = True) -> None:  # noqa: ANN401 - a class of PyYAML's
    """Follow the events of the parser, which keeps its stack on the heap, unlike the composer."""
    import yaml

    if text.count("\n%") > _YAML_DIRECTIVES:  # libyaml compares each directive with all before it
        raise DocumentError(f"has more than {_YAML_DIRECTIVES} directives")
    depth = 0
    for count, event in enumerate(yaml.parse(text, Loader=loader)):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        elif isinstance(event, yaml.AliasEvent) and not aliases:
            raise DocumentError("holds an alias")
        if depth > DEEPEST:
            raise DocumentError(_DEEP)
        if count > _YAML_EVENTS:
            raise DocumentError("holds more than 20000 values, which is data rather than a config")


def load_toml(text: str) -> dict[str, Any]:
    """The table of a TOML text; ``ModuleNotFoundError`` on Python 3.10, which has no parser."""
    import importlib

    tomllib = importlib.import_module("tomllib")
    if len(text) > _TOML_CHARACTERS:
        raise DocumentError("is larger than 0.5 MB, which is data rather than a config")
    if max((line.partition("=")[0].count(".") for line in text.split("\n")), default=0) > DEEPEST:
        raise DocumentError(_DEEP)  # tomllib takes the square of the parts of a key
    try:
        table: dict[str, Any] = tomllib.loads(text)
    except RecursionError:
        raise DocumentError(_DEEP) from None
    if _is_deep(table):
        raise DocumentError(_DEEP)
    bounded: dict[str, Any] = bound_number(table)  # of hexadecimal digits Python reads any number, and then cannot print it
    return bounded


def parse_python(text: str) -> ast.Module:
    """The tree of Python code; ``SyntaxError`` where it is none."""
    import ast

    if sum(map(text.count, _MARKS)) > _MOST_MARKS:
        raise DocumentError("is too large to be hand-written code")
    try:
        return ast.parse(text)
    except (RecursionError, MemoryError):  # MemoryError: the parser's own stack is full
        raise DocumentError("is nested too deeply to be read") from None
