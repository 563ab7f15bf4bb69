"""Config files as a program's loader will see them, every value with the place where it is written.

    lr: 1e-4          PyYAML: the *string* "1e-4" (YAML 1.1 wants a dot and a signed exponent); OmegaConf: a number
    steps: 1.0e4      PyYAML: a string as well
    warmup: 1:30      PyYAML: the number 90
    resume: None      a string in every loader

YAML values are given as PyYAML gives them; whether the program's own loader differs is for the causes to weigh. JSON values
are given as ``json`` gives them, TOML as ``tomllib``. Of two facts with one name the later is the one that counts.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from typing import TYPE_CHECKING, Any

from crashcart.documents import DocumentError, compose_yaml, load_json, load_toml
from crashcart.errors import CommandError
from crashcart.model import Evidence, Fact, Span
from crashcart.names import canonical, is_secret
from crashcart.numbers import bound_number, json_int
from crashcart.readers.job.shell import text_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    import yaml

__all__ = ["Found", "facts_from", "read_config", "read_config_text", "yaml_value"]

# A value with its path and the offsets where it stands; None where that cannot be told.
Found = tuple[str, Any, "tuple[int, int] | None"]
LIMIT_VALUES = 20_000
LIMIT_KEY = 1000
HIDDEN = "[redacted]"
SPACE = re.compile(r"[ \t\r\n]*")
PROPERTIES = re.compile(r"(?:[&!]\S*[ \t]+)+")
MERGE = "tag:yaml.org,2002:merge"
# Not values of the file but what is odd about it: more than one document, a key that stands twice.
COMMENT = re.compile(r"//[^\n]*")
DOCUMENTS, DUPLICATE = "(documents)", "(duplicate)"
MARKS = (DOCUMENTS, DUPLICATE)
TOML_TABLE = re.compile(r"^[ \t]*\[([^\[\]\n]+)\]", re.MULTILINE)
TOML_LINE = re.compile(
    r"^[ \t]*([\w.\"'-]+)[ \t]*=[ \t]*(?P<value>\"[^\"\n]*\"|'[^'\n]*'|[^#\s\[{](?:[^#\n\[{]*[^#\s\[{])?)", re.MULTILINE
)


def read_config(path: str, prefix: str = "", *, comments: bool = False) -> list[Fact]:
    """Every value of a config file; raises ``CommandError`` with one sentence where it cannot be read.

    ``prefix`` is the path below which the program will put the values, as Hydra does with the file of a group. ``comments``: the
    program cuts ``// ...`` off the lines of a JSON file before it parses them.
    """
    if path.endswith(".py"):
        from crashcart.readers.job.python_config import read_python

        return read_python(path)
    text = text_of(path)
    return read_config_text(without_comments(text) if comments else text, path, prefix)


def without_comments(text: str) -> str:
    """A text with blanks for what stands behind ``//`` in its lines."""
    return COMMENT.sub(lambda match: " " * len(match[0]), text)


def read_config_text(text: str, path: str, prefix: str = "") -> list[Fact]:
    """The same for text that is at hand; the kind is told by the name."""
    suffix = path.rsplit(".", 1)[-1].lower()
    read = {"json": _json, "toml": _toml}.get(suffix, _yaml)
    try:
        found = _bounded(read(text), path)
    except RecursionError:  # aliases that lead back to themselves
        raise CommandError(f"{path} is nested too deeply to be a config.") from None
    except DocumentError as error:
        raise CommandError(f"{path} {error}.") from None
    except ValueError as error:
        raise CommandError(f"{path} cannot be read as {suffix.upper()}: {_sentence(error)}.") from None
    if prefix:
        found = [(f"{prefix}.{name}" if name else name, value, place) for name, value, place in found]
    return facts_from(found, text, path)


def _bounded(found: Iterator[Found], path: str) -> list[Found]:
    kept: list[Found] = []
    for value in found:
        kept.append(value)
        if len(kept) > LIMIT_VALUES:
            raise CommandError(f"{path} holds more than {LIMIT_VALUES} values, which is data rather than a config.")
    return [value for value in kept if value[0] or value[2]]


def _below(path: str, key: str) -> str:
    """The path of a key; each value carries its own, so that one endless key above many values would fill the memory."""
    if len(key) > LIMIT_KEY:
        raise DocumentError(f"has a key of {len(key):,} characters, which is data rather than a setting")
    return f"{path}.{key}" if path else key


def _sentence(error: ValueError) -> str:
    return " ".join(str(error).split()).rstrip(".")


def facts_from(found: list[Found], text: str, file: str) -> list[Fact]:
    """Name each value; a DeepSpeed file's ``train_batch_size`` is global, and so is axolotl's ``batch_size``."""
    keys = {path for path, _, _ in found}
    is_deepspeed = any(path.startswith(("zero_optimization", "train_micro_batch_size_per_gpu")) for path in keys)
    dialect = "deepspeed" if is_deepspeed else "axolotl" if "micro_batch_size" in keys else ""
    facts = []
    lines = _Lines(text)
    for path, written, place in found:
        value = bound_number(written)
        above = path.rpartition(".")[0] or dialect
        name = None if path.endswith("]") or path in MARKS else canonical(path.rpartition(".")[2], path=above)
        span = Span(file, *place, lines.number_at(place[0])) if place else None
        quote = _line(text, place[0]) if place else f"{path} = {value}"
        if is_secret(path) and not isinstance(value, (bool, type(None))):
            value, quote = HIDDEN, f"{path}: {HIDDEN}"  # nothing may see it from here on
        where = f"{file}:{span.line}" if span else file
        odd = f"config.{path.strip('()')}" if path in MARKS else None
        facts.append(
            Fact(odd or name or f"config.{path or 'document'}", value, Evidence("config", quote, where), "file", path, span)
        )
    return facts


class _Lines:
    """Numbers of lines; values come in the order of the file, so that each line is counted once."""

    def __init__(self, text: str) -> None:
        self._text, self._place, self._number = text, 0, 1

    def number_at(self, place: int) -> int:
        if place < self._place:
            self._place, self._number = 0, 1
        self._number += self._text.count("\n", self._place, place)
        self._place = place
        return self._number


def _line(text: str, at: int) -> str:
    end = text.find("\n", at)
    return text[text.rfind("\n", 0, at) + 1 : end if end >= 0 else len(text)].strip()[:200]


def _yaml(text: str) -> Iterator[Found]:
    import yaml

    shift = int(text.startswith("\ufeff"))  # a byte order mark, which libyaml does not count
    try:
        roots = compose_yaml(text[shift:])
    except (yaml.YAMLError, UnicodeError) as error:
        raise ValueError(_yaml_problem(error)) from None
    for number, root in enumerate(roots):
        if number:
            yield DOCUMENTS, number + 1, (root.start_mark.index + shift,) * 2
        for path, value, place in _yaml_node(root, ""):
            yield path, value, _value_place(text, place[0] + shift, place[1] + shift) if place else None


def _value_place(text: str, start: int, end: int) -> tuple[int, int]:
    """Where a value itself stands: behind the anchor or the tag with which it begins (``lr: &lr 1e-4``)."""
    before = PROPERTIES.match(text, start, end)
    return (before.end() if before else start), end


def _yaml_problem(error: Exception) -> str:
    mark, problem = getattr(error, "problem_mark", None), getattr(error, "problem", None)
    if mark is None:
        return "it is not UTF-8 text, or holds characters that YAML forbids"
    return f"line {mark.line + 1}: {problem}"


def _yaml_node(node: yaml.Node, path: str) -> Iterator[Found]:
    """Walk a node; an empty find is given for every collection, so that the bound also holds where aliases multiply."""
    import yaml

    place = (node.start_mark.index, node.end_mark.index)
    if has_own_tag(node):
        yield "", None, None
        return
    if isinstance(node.value, str):
        yield path, yaml_value(node), place
        return
    yield "", None, None
    if isinstance(node, yaml.SequenceNode):
        if node.value and all(isinstance(item.value, str) for item in node.value):
            yield path, [yaml_value(item) for item in node.value], place
        for number, item in enumerate(node.value):
            yield from _yaml_node(item, f"{path}[{number}]")
        return
    known: set[str] = set()
    for key, item in sorted(node.value, key=lambda pair: bool(pair[0].tag != MERGE)):
        if isinstance(key.value, str) and key.value in known and key.tag != MERGE:
            yield DUPLICATE, f"{path}.{key.value}" if path else key.value, (key.start_mark.index, key.end_mark.index)
        known.update([key.value] if isinstance(key.value, str) else [])
        if key.tag == MERGE:
            for merged in reversed(item.value) if isinstance(item, yaml.SequenceNode) else [item]:
                yield from _yaml_node(merged, path)
        else:
            yield from _yaml_node(item, _below(path, str(key.value)))


def has_own_tag(node: yaml.Node) -> bool:
    """Whether only the program's own loader knows what becomes of a value: ``!ref <lr>``, ``!new:torch.optim.Adam``."""
    return str(node.tag).startswith("!")


def yaml_value(node: yaml.Node) -> Any:  # noqa: ANN401 - data enters here
    """A scalar as PyYAML makes it, or its text where PyYAML refuses it."""
    import yaml

    try:
        return yaml.constructor.SafeConstructor().construct_object(node)
    except (yaml.YAMLError, ValueError, TypeError, AttributeError, LookupError, ArithmeticError):
        return node.value  # a tag of the program's own, a date that is none, `!!int` of nothing: PyYAML raises what comes


def _json(text: str) -> Iterator[Found]:
    load_json(text)
    yield from _json_value(text, _skip(text, 0), "", [0])


def _skip(text: str, at: int) -> int:
    match = SPACE.match(text, at)
    return match.end() if match else at


def _json_value(text: str, at: int, path: str, end: list[int]) -> Iterator[Found]:
    """Walk valid JSON with the places of its values; ``end`` tells the caller where the value ends."""
    if text[at] not in "[{":
        value, end[0] = json.JSONDecoder(parse_int=json_int).raw_decode(text, at)
        yield path, value, (at, end[0])
        return
    yield "", None, None
    closing = "]" if text[at] == "[" else "}"
    start, number, at = at, 0, _skip(text, at + 1)
    while text[at] != closing:
        if closing == "}":
            key, at = json.JSONDecoder().raw_decode(text, at)
            inner, at = _below(path, key), _skip(text, _skip(text, at) + 1)
        else:
            inner = f"{path}[{number}]"
        yield from _json_value(text, at, inner, end)
        at, number = _skip(text, end[0]), number + 1
        at = _skip(text, at + 1) if text[at] == "," else at
    end[0] = at + 1
    items = json.loads(text[start : end[0]], parse_int=json_int) if closing == "]" and number <= LIMIT_VALUES else []
    if items and not any(isinstance(item, (list, dict)) for item in items):
        yield path, items, (start, end[0])


def _toml(text: str) -> Iterator[Found]:
    try:
        table = load_toml(text)
    except ModuleNotFoundError:
        raise ValueError("Python 3.10 cannot read TOML; start crashcart with 3.11 or later") from None
    places = _toml_places(text)
    for path, value in _flat(table, ""):
        place = places.get(path)
        known = place and _toml_single(text[place[0] : place[1]]) == value
        yield path, value, place if known else None


def _toml_single(text: str) -> Any:  # noqa: ANN401 - data enters here
    try:
        return load_toml(f"v = {text}")["v"]
    except ValueError:
        return None


def _toml_places(text: str) -> dict[str, tuple[int, int]]:
    """Where the values of plain ``key = value`` lines stand; anything cleverer has no place."""
    tables = [(0, "")] + [(match.end(), match.group(1).strip()) for match in TOML_TABLE.finditer(text)]
    begins = [at for at, _ in tables]
    places = {}
    for match in TOML_LINE.finditer(text):
        table = tables[bisect_right(begins, match.start()) - 1][1]
        places[f"{table}.{match.group(1)}".strip(".").replace('"', "")] = match.span("value")
    return places


def _flat(value: Any, path: str) -> Iterator[tuple[str, Any]]:  # noqa: ANN401 - data enters here
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _flat(inner, _below(path, key))
    elif isinstance(value, list) and any(isinstance(item, (list, dict)) for item in value):
        for number, inner in enumerate(value):
            yield from _flat(inner, f"{path}[{number}]")
    else:
        yield path, value
