"""Config files as the program's own loader reads them: YAML, JSON, TOML, OmegaConf, Hydra, mmcv; every value with its place."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any

from crashcart.deadline import limited
from crashcart.documents import compose_yaml, load_json, load_toml
from crashcart.errors import CommandError
from crashcart.model import NotLooked
from crashcart.numbers import to_float
from crashcart.readers.interpreter.libraries import models
from crashcart.readers.interpreter.libraries.builtin_functions import nest
from crashcart.readers.interpreter.libraries.containers import copied, keep_class
from crashcart.readers.interpreter.libraries.interpolation import resolve
from crashcart.readers.interpreter.libraries.texts_and_paths import path_text
from crashcart.readers.interpreter.store import NONE
from crashcart.readers.interpreter.values import (
    Choice,
    Class,
    Constant,
    Container,
    Instance,
    Result,
    Unknown,
    Value,
    constant_of,
    origins_of,
    unknown_from,
)
from crashcart.readers.job.config import HIDDEN, MERGE, has_own_tag, read_config, without_comments, yaml_value
from crashcart.readers.job.shell import text_of

if TYPE_CHECKING:
    from crashcart.model import Fact
    from crashcart.readers.interpreter.interpreter import Interpreter
    from crashcart.readers.interpreter.trace import Call

__all__ = ["Document", "config_value", "find_config"]

_FILE_SECONDS = 1.5
_NUMBER = re.compile(r"[-+]?(?:\d[\d_]*(?:\.\d*)?|\.\d+)[eE][-+]?\d+")
_DEEPEST = 24
_MOST_VALUES = 20_000
_LONGEST_TEXT = 2000
_LOADED_BY = {
    "yaml": (".yaml", ".yml"), "omegaconf": (".yaml", ".yml"), "ruamel": (".yaml", ".yml"), "json": (".json",), "tomllib": (".toml",),
    "toml": (".toml",), "tomli": (".toml",),
}  # fmt: skip
_SUFFIXES = (".yaml", ".yml", ".json", ".toml")


def find_config(interpreter: Interpreter, path: str) -> str | None:
    """The file that a path names, from the folders in which the program may be started."""
    own = os.path.dirname(interpreter.frame.source.path)
    for folder in [*interpreter.launch.folders, ".", own]:
        full = os.path.normpath(os.path.join(folder, path))
        if os.path.exists(full) and not os.path.isdir(full):  # a pipe is refused, with a sentence, by who reads it
            near = os.path.relpath(full) if os.path.isabs(full) and not os.path.isabs(path) else full
            return near if not near.startswith("..") else full
    return None


def config_value(
    interpreter: Interpreter,
    path: str,
    *,
    numbers: bool,
    attributes: bool,
    named_by: tuple[Fact, ...] = (),
    lines: bool = False,
) -> Value:
    """A config file as a value; ``numbers``: a plain 1e-4 is a number for this loader, ``named_by``: the settings behind its path.

    ``lines``: the program goes through its lines and parses what it makes of them.
    """
    found = find_config(interpreter, path)
    if found is None or not found.endswith(_SUFFIXES):
        return Unknown(kind="config")
    if lines and found.endswith(".json"):
        interpreter.launch.commented_files.add(found)
    cached = interpreter.launch.configs.get(found)
    if cached is None:
        try:
            cached = limited(lambda: read_config(found, comments=found in interpreter.launch.commented_files), _FILE_SECONDS)
        except (CommandError, OSError) as problem:
            interpreter.modules.not_looked.append(NotLooked(found, str(problem)))
            cached = []
        _keep(interpreter.launch.configs, found, cached, named_by)
    if numbers:
        interpreter.launch.numeric_files.add(found)
    made = _document(interpreter, found, cached, numbers=numbers)
    if attributes and isinstance(made, Container):
        made.kind = "config" if made.kind == "dict" else made.kind
        nest(interpreter, made)
    return made


def _keep(configs: dict[str, list[Fact]], path: str, facts: list[Fact], named_by: tuple[Fact, ...]) -> None:
    """Keep what a file says; one that another file names is what that one builds upon, and stands before it."""
    files = list(configs)
    above = {fact.evidence.where.rsplit(":", 1)[0] for fact in named_by}
    place = next((number for number, file in enumerate(files) if file in above), len(files))
    behind = {file: configs.pop(file) for file in files[place:]}
    configs[path] = facts
    configs.update(behind)


def _document(interpreter: Interpreter, path: str, facts: list[Fact], *, numbers: bool) -> Value:
    """The content of a config file, every value with the fact of its place."""
    reader = Document(interpreter, {fact.spelling: fact for fact in facts}, numbers=numbers)
    try:
        text = text_of(path)
        if path.endswith(".json"):
            plain = load_json(without_comments(text) if path in interpreter.launch.commented_files else text)
            if isinstance(plain, list):
                reader.facts = {}  # rows of data are no settings
            return reader.of_plain(plain, "", 0)
        if path.endswith(".toml"):
            return reader.of_plain(load_toml(text), "", 0)
        import yaml

        try:
            roots = compose_yaml(text.removeprefix("\ufeff"))
        except (yaml.YAMLError, UnicodeError):
            return Unknown(kind="config")
        return reader.of_node(roots[0], "", 0) if roots else NONE
    except (CommandError, ValueError, ModuleNotFoundError, RecursionError):
        return Unknown(kind="config")


class Document:
    """Makes values of a parsed document; ``numbers``: a plain 1e-4 is a number for the program's loader."""

    def __init__(self, interpreter: Interpreter, facts: dict[str, Fact], *, numbers: bool) -> None:
        self.interpreter, self.facts, self.numbers = interpreter, facts, numbers
        self.count = 0

    def of_plain(self, plain: Any, path: str, depth: int) -> Value:  # noqa: ANN401 - data of a file
        """JSON or TOML."""
        self.count += 1
        if depth > _DEEPEST or self.count > _MOST_VALUES:
            return Unknown()
        if isinstance(plain, dict):
            items = {key: self.of_plain(value, f"{path}.{key}" if path else key, depth + 1) for key, value in plain.items()}
            return self.interpreter.container("dict", items)
        if isinstance(plain, list):
            values = [self.of_plain(value, f"{path}[{number}]", depth + 1) for number, value in enumerate(plain)]
            return self._sequence(values, path)
        fact = self.facts.get(path)
        if fact is not None and fact.value == HIDDEN:
            return Unknown(origins=(fact,))
        return Constant(plain if fact is None else fact.value, (fact,) if fact is not None else (), direct=True)

    def of_node(self, node: Any, path: str, depth: int) -> Value:  # noqa: ANN401 - a node of PyYAML
        """YAML, with anchors and merged keys."""
        self.count += 1
        if depth > _DEEPEST or self.count > _MOST_VALUES:
            return Unknown()
        if has_own_tag(node):
            return Unknown(kind="config")
        if isinstance(node.value, str):
            return self._scalar(node, path)
        if node.id == "sequence":
            return self._sequence(
                [self.of_node(item, f"{path}[{number}]", depth + 1) for number, item in enumerate(node.value)], path
            )
        items: dict[Any, Value] = {}
        for key, item in sorted(node.value, key=lambda pair: bool(pair[0].tag != MERGE)):
            if key.tag == MERGE:
                for merged in reversed(item.value) if item.id == "sequence" else [item]:
                    found = self.of_node(merged, path, depth + 1)
                    items.update(self.interpreter.entries(found))
                continue
            name = yaml_value(key)
            if isinstance(name, (str, int, float, bool, type(None))):
                items[name] = self.of_node(item, f"{path}.{key.value}" if path else str(key.value), depth + 1)
        return self.interpreter.container("dict", items)

    def _scalar(self, node: Any, path: str) -> Value:  # noqa: ANN401 - a node of PyYAML
        fact = self.facts.get(path)
        if fact is not None and fact.value == HIDDEN:
            return Unknown(origins=(fact,))
        value = yaml_value(node) if fact is None or isinstance(fact.value, list) else fact.value
        if self.numbers and isinstance(value, str) and not node.style and _NUMBER.fullmatch(value):
            value = to_float(value, value, finite=False)
        if not isinstance(value, (str, int, float, bool, type(None))):
            value = str(value)
        return Constant(value, (fact,) if fact is not None else (), direct=True)

    def _sequence(self, values: list[Value], path: str) -> Container:
        fact = self.facts.get(path)
        origins = (fact,) if fact is not None else ()
        for value in values:
            if isinstance(value, Constant) and not value.origins:
                value.origins = origins
        made = self.interpreter.container("list", values)
        made.origins = origins
        return made


def _loaded(interpreter: Interpreter, call: Call, *, numbers: bool, attributes: bool = False) -> Value:
    """What a loader makes of a file, a path or a text."""
    value = call.argument(0) or call.argument(None, "stream")
    if isinstance(value, Constant) and isinstance(value.value, str) and not call.name.startswith("omegaconf."):
        return yaml_word(interpreter, value.value, value, numbers=numbers)
    path = path_text(value)
    if isinstance(value, Result) and value.name in {"file", "file text"}:
        path = path_text(value.data) if isinstance(value.data, Value) else value.data
    if isinstance(value, Result) and value.name == "file text" and not isinstance(path, str):
        path = None
    lines = False
    if not isinstance(path, str):
        path = _only_file(interpreter, value.data if isinstance(value, Result) and value.name == "file" else value)
    if not isinstance(path, str) and call.method == "loads" and value is not None:
        named = [fact.value for fact in value.origins if isinstance(fact.value, str) and fact.value.endswith(_SUFFIXES)]
        path, lines = (named[0], True) if len(set(named)) == 1 else (path, False)
    asked = interpreter.launch.config
    if not isinstance(path, str) and asked.endswith(_LOADED_BY.get(call.name.partition(".")[0], ())):
        path = asked
    if not isinstance(path, str) or len(path) > 1000 or "\n" in path:
        made = unknown_from(value)
        made.kind = "config"
        return made
    named_by = value.origins if value is not None else ()
    return config_value(interpreter, path, numbers=numbers, attributes=attributes, named_by=named_by, lines=lines)


def _only_file(interpreter: Interpreter, value: object) -> str | None:
    """Of several paths that a value can be, the only one that is there."""
    options = value.options if isinstance(value, Choice) else ()
    paths = [path for option in options if (path := path_text(option)) and find_config(interpreter, path) is not None]
    return paths[0] if len(paths) == 1 else None


@models(
    "yaml.safe_load",
    "yaml.load",
    "yaml.full_load",
    "yaml.unsafe_load",
    "json.load",
    "tomllib.load",
    "toml.load",
    "tomli.load",
    "json.loads",
    "tomllib.loads",
    "toml.loads",
)
def load_plain(interpreter: Interpreter, call: Call) -> Value | None:
    """PyYAML and its like: ``1e-4`` is a text."""
    if call.name == "json.loads":
        from crashcart.readers.interpreter.libraries.standard import literal

        found: Value | None = literal(interpreter, call)
        if found is not None:
            return found
    numbers = bool(interpreter.trace.named("yaml.add_implicit_resolver")) or any(
        called.method == "add_implicit_resolver" for called in interpreter.trace.calls[:2000]
    )
    return _loaded(interpreter, call, numbers=numbers)


@models(
    "ruamel_yaml.load",
    "ruamel_yaml.safe_load",
    "ruamel.yaml.load",
    "omegaconf.OmegaConf.load",
    "ruamel.yaml.YAML.load",
    "ruamel.yaml.safe_load",
    "hydra.utils.load_config",
)
def load_numbers(interpreter: Interpreter, call: Call) -> Value:
    """OmegaConf and ruamel: ``1e-4`` is a number."""
    made = _loaded(interpreter, call, numbers=True, attributes=call.name.startswith("omegaconf"))
    if isinstance(made, Container) and call.name.startswith("omegaconf"):
        resolve(interpreter, made)
    return made


@models(
    "omegaconf.OmegaConf.create",
    "omegaconf.OmegaConf.structured",
    "omegaconf.OmegaConf.to_container",
    "omegaconf.OmegaConf.to_object",
)
def create(interpreter: Interpreter, call: Call) -> Value:
    """A config of plain data, or the other way round."""
    value = call.argument(0, "obj") or call.argument(None, "cfg")
    if isinstance(value, Class) or (isinstance(value, Instance) and call.method == "structured"):
        from crashcart.readers.interpreter.libraries.hydra_config import structured

        return structured(interpreter, value)
    if isinstance(value, Instance):
        pairs = {
            name: inner
            for name in interpreter.store.names(value)
            if isinstance(inner := interpreter.store.get(value, name), Value) and isinstance(name, str)
        }
        return interpreter.container("config", pairs, call.node)
    if not isinstance(value, Container):
        return value if value is not None else interpreter.container("config", {}, call.node)
    if call.method == "to_object" and isinstance(interpreter.store.get(value, "(class)"), Class):
        return _as_object(interpreter, value, call)
    made = copied(interpreter, value)
    if call.method in {"create", "structured"}:
        made.kind = "config" if made.kind in {"dict", "namespace"} else made.kind
        if made.kind == "config":
            nest(interpreter, made)
            resolve(interpreter, made)
        return made
    return _as_dicts(interpreter, made)


def _as_object(interpreter: Interpreter, value: Value, call: Call, depth: int = 8) -> Value:
    """An object of the dataclass that a config was made of, with objects in it; what has no class keeps its keys as attributes."""
    cls = interpreter.store.get(value, "(class)")
    if not isinstance(value, Container) or not depth:
        return value
    content = interpreter.items(value)
    if not isinstance(content, dict):
        return interpreter.container(value.kind, [_as_object(interpreter, item, call, depth - 1) for item in content])
    items = {name: _as_object(interpreter, item, call, depth - 1) for name, item in content.items()}
    if not isinstance(cls, Class):
        return interpreter.container(value.kind, items, is_open=bool(interpreter.store.get(value, "open")))
    made = Instance(cls, call)
    for name, item in items.items():
        interpreter.store.set(made, name, item)
    interpreter.call_method(made, "__post_init__", [], {}, call.node)
    return made


def _as_dicts(interpreter: Interpreter, value: Container, depth: int = 8) -> Container:
    if value.kind == "config":
        value.kind = "dict"
    for item in interpreter.entries(value).values() if depth else ():
        if isinstance(item, Container):
            _as_dicts(interpreter, item, depth - 1)
    return value


@models("omegaconf.OmegaConf.merge", "omegaconf.OmegaConf.unsafe_merge")
def merge(interpreter: Interpreter, call: Call) -> Value:
    """Configs one over the other; a later value counts."""
    result: Value | None = None
    for value in call.arguments:
        if isinstance(value, (Class, Instance)):
            from crashcart.readers.interpreter.libraries.hydra_config import structured

            value = structured(interpreter, value)  # noqa: PLW2901 - its fields
        if not isinstance(value, Container):
            if result is not None and isinstance(result, Container):
                interpreter.libraries.open_up(interpreter, result)
            continue
        result = copied(interpreter, value) if result is None else overlay(interpreter, result, value)
    if not isinstance(result, Container):
        return unknown_from(*call.arguments)
    if not call.complete:
        interpreter.libraries.open_up(interpreter, result)
    result.kind = "config" if result.kind in {"dict", "namespace"} else result.kind
    nest(interpreter, result)
    resolve(interpreter, result)
    return result


def overlay(interpreter: Interpreter, below: Value, above: Value, depth: int = 8) -> Value:
    """One config over another; what is missing there (``???``) stays as it is."""
    if isinstance(above, Constant) and above.value == "???":
        return below
    if (
        not (isinstance(below, Container) and isinstance(above, Container))
        or above.kind in {"list", "tuple"}
        or below.kind in {"list", "tuple"}
        or not depth
    ):
        return above
    items = dict(interpreter.entries(below))
    for key, value in interpreter.entries(above).items():
        items[key] = overlay(interpreter, items[key], value, depth - 1) if key in items else value
    is_open = bool(interpreter.store.get(below, "open") or interpreter.store.get(above, "open"))
    made = interpreter.container(below.kind, items, is_open=is_open)
    keep_class(interpreter, below, made)
    return made


@models("omegaconf.OmegaConf.from_cli", "omegaconf.OmegaConf.from_dotlist")
def from_words(interpreter: Interpreter, call: Call) -> Value:
    """``a.b=1`` of the command line, read as YAML."""
    from crashcart.readers.interpreter.libraries.argparse_parser import words_of

    words = words_of(interpreter, call.argument(0, "args_list") or call.argument(None, "dotlist"))
    made = interpreter.container("config", {}, call.node, is_open=words is None)
    for text, value in words or ():
        key, equals, written = text.partition("=")
        if equals:
            put(interpreter, made, key.lstrip("-+").split("."), flag_word(interpreter, written, value, key))
    return made


def flag_word(interpreter: Interpreter, text: str, word: Value, key: str) -> Value:
    """A word of the command line as OmegaConf reads it, with the place of its flag."""
    fact = interpreter.launch.flags.get(key)
    if fact is not None:
        word = Constant(text, (fact,)) if isinstance(word, Constant) else Unknown(origins=(fact,))
    return yaml_word(interpreter, text, word, numbers=True)


def yaml_word(interpreter: Interpreter, text: str, word: Value, *, numbers: bool) -> Value:
    """A text as a loader of YAML reads it; ``numbers``: 1e-4 is one, as for OmegaConf."""
    import yaml

    origins = word.origins
    if not isinstance(word, Constant) or len(text) > _LONGEST_TEXT:
        return Unknown(origins=origins)
    if numbers and _NUMBER.fullmatch(text):
        return Constant(to_float(text, text, finite=False), origins, direct=True)
    try:
        from crashcart.documents import load_yaml

        plain = load_yaml(text)
    except (yaml.YAMLError, ValueError, ImportError, RecursionError):
        plain = text
    from crashcart.readers.interpreter.libraries.standard import from_plain

    return from_plain(interpreter, plain, Constant(text, origins, direct=True))


@models("jsonmerge.merge", "mergedeep.merge", "deepmerge.always_merger.merge")
def merge_deeply(interpreter: Interpreter, call: Call) -> Value | None:
    """One config over another, dictionaries in them merged."""
    values = call.arguments
    if len(values) < 2 or not all(isinstance(value, Container) for value in values):
        return None
    merged: Value = values[0]
    for above in values[1:]:
        merged = overlay(interpreter, merged, above)
    return merged


def put(interpreter: Interpreter, owner: Container, path: list[str], value: Value) -> None:
    """Set a value below a path of keys."""
    for key in path[:-1]:
        below = interpreter.items(owner).get(key) if owner.kind in {"config", "dict", "namespace"} else None
        if not isinstance(below, Container):
            below = interpreter.container(owner.kind, {})
            interpreter.set_item(owner, Constant(key), below, None)
        owner = below
    if owner.kind in {"config", "dict", "namespace"}:
        interpreter.set_item(owner, Constant(path[-1]), value, None)


@models(
    "omegaconf.OmegaConf.to_yaml",
    "yaml.dump",
    "yaml.safe_dump",
    "json.dump",
    "json.dumps",
    "omegaconf.OmegaConf.save",
    "omegaconf.OmegaConf.set_struct",
    "omegaconf.OmegaConf.resolve",
    "omegaconf.open_dict",
)
def written(_interpreter: Interpreter, call: Call) -> Value:
    """Nothing that the program decides by."""
    return (
        Result(call.name, call) if call.method == "open_dict" else Unknown() if call.method in {"to_yaml", "dumps"} else NONE
    )


@models("omegaconf.OmegaConf.missing_keys")
def missing_keys(interpreter: Interpreter, call: Call) -> Value:
    """The paths of the values that nobody said."""
    found: list[Value] = []

    def walk(value: Value, path: str) -> None:
        content = interpreter.items(value) if isinstance(value, Container) else {}
        pairs = content.items() if isinstance(content, dict) else enumerate(content)
        for key, inner in pairs:
            if isinstance(inner, Unknown) and inner.kind == "missing":
                found.append(Constant(f"{path}{key}", inner.origins))
            walk(inner, f"{path}{key}.")

    walk(call.argument(0, "cfg") or Unknown(), "")
    made = interpreter.container("set", found, call.node)
    made.origins = origins_of(*found)
    return made


@models("omegaconf.OmegaConf.select", "omegaconf.OmegaConf.update")
def select(interpreter: Interpreter, call: Call) -> Value:
    """A value by its path."""
    owner, path = call.argument(0, "cfg"), constant_of(call.argument(1, "key"))
    if not isinstance(owner, Container) or not isinstance(path, str):
        return Unknown()
    if call.method == "update":
        put(interpreter, owner, path.split("."), call.argument(2, "value") or Unknown())
        return NONE
    found: Value | None = owner
    for part in path.split("."):
        found = (
            interpreter.items(found).get(part) if isinstance(found, Container) and found.kind in {"config", "dict"} else None
        )
    return found if found is not None else call.argument(2, "default") or NONE
