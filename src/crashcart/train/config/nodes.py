"""From text to values: PyYAML finds the structure, with its places; what the words mean is decided here."""

from __future__ import annotations

import base64
import binascii
from typing import TYPE_CHECKING, Any

import yaml
from yaml.resolver import BaseResolver

from crashcart.numbers import to_float
from crashcart.train.config.scalars import note_on, plain

if TYPE_CHECKING:
    from collections.abc import Callable

    from crashcart.train.config.source import Source, YamlError

__all__ = ["Builder", "compose", "node_at"]

_PLAIN = "plain"  # the tag of a word without quotes
_CORE = "tag:yaml.org,2002:"
_MERGE = "<<"
# What aliases may make of a document: a list of ten in ten levels would be ten thousand million.
_TIMES, _FREE = 10, 100_000
_DEEP = 2_000
_KINDS: dict[str, tuple[type, ...]] = {"int": (int,), "float": (float, int), "bool": (bool,), "null": (type(None),)}
_SENTENCES = (
    ("single document", "there is a second document here (---); one file holds one config"),
    ("mapping values are not allowed", "a colon is not expected here: a quote is missing, or the line is indented wrongly"),
    ("could not find expected ':'", "this line, or the one before, has no colon with a space after it"),
    ("did not find expected key", "this does not fit here: the indentation, a quote or a comma is wrong"),
    ("did not find expected '-' indicator", "this line is not indented as the list that it stands in"),
)

if TYPE_CHECKING:
    _Parser: Any = yaml.SafeLoader
else:
    _Parser = yaml.cyaml.CParser if yaml.__with_libyaml__ else yaml.SafeLoader


class _Loader(_Parser, BaseResolver):  # type: ignore[misc]
    """Tells words without quotes from others, and decides nothing else."""

    def __init__(self, text: str) -> None:
        _Parser.__init__(self, text)
        BaseResolver.__init__(self)

    def descend_resolver(self, *_: object) -> None: ...

    def ascend_resolver(self) -> None: ...

    def resolve(self, kind: type, _value: object, implicit: Any) -> str:  # noqa: ANN401 - of PyYAML
        if kind is yaml.ScalarNode:
            return _PLAIN if implicit[0] else _CORE + "str"
        return _CORE + ("seq" if kind is yaml.SequenceNode else "map")


def compose(given: Source) -> Any:  # noqa: ANN401 - a node of PyYAML, or None
    """The structure of the one document in it; None where there is none."""
    loader = None
    try:
        if sum(map(given.text.count, ("[", "{", "- ", "? "))) > _DEEP:
            _measure(given)
        loader = _Loader(given.text)
        return loader.get_single_node()
    except yaml.MarkedYAMLError as problem:
        raise _explained(given, problem) from None
    except yaml.YAMLError as problem:
        raise given.error(str(problem), 0, 0) from None
    except RecursionError:
        raise given.error("it is nested too deeply", 0, 0) from None
    finally:
        if loader is not None:
            loader.dispose()


def _measure(given: Source) -> None:
    """Refuse what is so deep that PyYAML's own parser, which calls itself for each level, would end the process."""
    depth = 0
    for event in yaml.parse(given.text, Loader=_Loader):
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > _DEEP:
            mark = event.start_mark
            line, column = (mark.line, mark.column) if mark else (0, 0)
            raise given.error("it is nested too deeply", line, column)


def _explained(given: Source, problem: yaml.MarkedYAMLError) -> YamlError:
    mark = problem.problem_mark or problem.context_mark
    line, column = (mark.line, mark.column) if mark else (0, 0)
    says = f"{problem.context}, {problem.problem}" if problem.context else str(problem.problem)
    at_mark = given.error(says, line, column)
    indented = given.text.splitlines()[line : line + 1]
    if indented and "\t" in indented[0][: len(indented[0]) - len(indented[0].lstrip())] and "token" in says:
        return given.error("a tab is used for indentation; YAML wants spaces", line, column)
    return next((given.error(sentence, line, column) for words, sentence in _SENTENCES if words in says), at_mark)


class Builder:
    """Makes values of nodes, each alias anew; `notes` are words that are read otherwise than they look."""

    def __init__(self, given: Source) -> None:
        self.notes: list[tuple[Any, str]] = []
        self._given = given
        self._seen: set[int] = set()
        self._built = 0
        self._around: set[int] = set()

    def build(self, root: Any) -> Any:  # noqa: ANN401 - what the file holds
        """The value of a whole document."""
        try:
            return None if root is None else self._value(root)
        except RecursionError:
            raise self._error(root, "it is nested too deeply") from None

    def _error(self, node: Any, says: str) -> YamlError:  # noqa: ANN401 - a node of PyYAML
        return self._given.error(says, node.start_mark.line, node.start_mark.column)

    def _value(self, node: Any) -> Any:  # noqa: ANN401 - of any kind
        self._built += 1
        own = id(node)
        first = own not in self._seen
        self._seen.add(own)
        if node.__class__ is yaml.ScalarNode:
            return self._scalar(node, first=first)
        if not first and own in self._around:
            raise self._error(node, "an alias inside it refers to itself")
        if self._built > _FREE + _TIMES * len(self._seen):
            raise self._error(node, "aliases multiply this document more than tenfold; it is not read")
        self._around.add(own)
        value = self._sequence(node) if isinstance(node, yaml.SequenceNode) else self._mapping(node)
        self._around.discard(own)
        return value

    def _scalar(self, node: Any, *, first: bool) -> object:  # noqa: ANN401 - a node of PyYAML
        tag, text = node.tag, node.value
        if tag == _CORE + "str":
            return text
        try:
            value = plain(text)
        except ValueError as problem:
            raise self._error(node, str(problem)) from None
        if tag == _PLAIN:
            note = note_on(text) if first and (value.__class__ is str or text[:2].lstrip("-+")[:1] == "0") else None
            if note:
                self.notes.append((node.start_mark, note))
            return value
        return self._tagged(node, tag.removeprefix(_CORE), value)

    def _tagged(self, node: Any, tag: str, value: object) -> object:  # noqa: ANN401 - a node of PyYAML
        if tag in _KINDS and isinstance(value, _KINDS[tag]) and isinstance(value, bool) == (tag == "bool"):
            if tag != "float":
                return value
            number = to_float(value, finite=isinstance(value, int))
            if number is not None:  # else a whole number that no float can hold
                return number
        if tag == "timestamp" and hasattr(value, "isoformat"):
            return value
        if tag == "binary":
            try:
                return base64.b64decode(node.value.encode("ascii"))
            except (binascii.Error, UnicodeEncodeError):
                raise self._error(node, "what is tagged !!binary is not base64") from None
        known = tag in _KINDS or tag == "timestamp"
        says = (
            f"{node.value!r} is no {tag}" if known else f"the tag {node.tag} is not known here: a config holds plain values"
        )
        raise self._error(node, says)

    def _sequence(self, node: Any) -> object:  # noqa: ANN401 - a node of PyYAML
        items = [self._value(item) for item in node.value]
        tag = node.tag.removeprefix(_CORE)
        if tag == "seq":
            return items
        if tag in {"omap", "pairs"} and all(isinstance(item, dict) and len(item) == 1 for item in items):
            return [next(iter(item.items())) for item in items]
        raise self._error(node, f"the tag {node.tag} is not known here: a config holds plain values")

    def _mapping(self, node: Any) -> object:  # noqa: ANN401 - a node of PyYAML
        own: dict[Any, Any] = {}
        merged: dict[Any, Any] = {}
        keys: dict[Any, Any] = {}
        for key_node, value_node in node.value:
            is_merge = key_node.tag == _PLAIN and key_node.value == _MERGE
            key = _MERGE if is_merge else self._key(key_node)
            if key in keys:
                raise self._error(key_node, f"the key {key!r} is given twice, first in line {keys[key].start_mark.line + 1}")
            keys[key] = key_node
            if is_merge:
                merged = self._merged(value_node)
            else:
                own[key] = self._value(value_node)
        own = {**merged, **own} if merged else own
        if node.tag == _CORE + "set":
            return set(own)
        if node.tag != _CORE + "map":
            raise self._error(node, f"the tag {node.tag} is not known here: a config holds plain values")
        return own

    def _key(self, node: Any) -> Any:  # noqa: ANN401 - anything that can be a key
        key = self._value(node)
        try:
            hash(key)
        except TypeError:
            raise self._error(node, "a list or a mapping cannot be a key") from None
        return key

    def _merged(self, node: Any) -> dict[Any, Any]:  # noqa: ANN401 - a node of PyYAML
        """What `<<` brings in, in one mapping: of several, the earlier ones win."""
        value = self._value(node)
        maps = value if isinstance(value, list) else [value]
        if not all(isinstance(one, dict) for one in maps):
            raise self._error(node, "<< merges mappings: *name or [*name, *other]")
        together: dict[Any, Any] = {}
        for one in reversed(maps):
            together.update(one)
        return together


def node_at(given: Source, root: Any, path: tuple[Any, ...]) -> tuple[Any, Any]:  # noqa: ANN401 - nodes of PyYAML
    """The nodes of the key and the value at a path, as near to it as the text goes."""
    key, node = None, root
    build: Callable[[Any], Any] = Builder(given).build
    for part in path:
        if isinstance(node, yaml.SequenceNode) and isinstance(part, int) and part < len(node.value):
            key, node = None, node.value[part]
            continue
        found = _pair(build, node, part) if isinstance(node, yaml.MappingNode) else None
        if found is None:
            break
        key, node = found
    return key, node


def _pair(build: Callable[[Any], Any], node: Any, wanted: object) -> Any:  # noqa: ANN401 - nodes of PyYAML
    merges: list[Any] = []
    for key, value in node.value:
        if key.tag == _PLAIN and key.value == _MERGE:
            merges += value.value if isinstance(value, yaml.SequenceNode) else [value]
        elif build(key) == wanted:
            return key, value
    return next((found for merge in merges if (found := _pair(build, merge, wanted))), None)
