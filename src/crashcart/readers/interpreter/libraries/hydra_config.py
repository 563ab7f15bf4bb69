"""Hydra: a config composed of files, groups and structured configs, with the overrides of the command line; and what is built of it.

    @hydra.main(config_path="conf", config_name="config")        conf/config.yaml: defaults: [model: small, _self_]
    def main(cfg): ...                                           python train.py model=large optim.lr=1e-3 +trainer.fast=true

A file of a group is put below the group's name unless it says ``# @package``. Later entries of a defaults list may override the choice
of earlier ones. ``instantiate`` calls the ``_target_`` of a config with its keys.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any

from crashcart.errors import CommandError
from crashcart.numbers import to_int
from crashcart.readers.interpreter.libraries import models
from crashcart.readers.interpreter.libraries.argparse_parser import ParserSpec, flag_fact, refuse, words_of
from crashcart.readers.interpreter.libraries.builtin_functions import nest
from crashcart.readers.interpreter.libraries.config_files import config_value, overlay, put
from crashcart.readers.interpreter.libraries.containers import copied
from crashcart.readers.interpreter.libraries.field_types import fields_in, parameters_of
from crashcart.readers.interpreter.libraries.interpolation import plain_word, resolve
from crashcart.readers.interpreter.libraries.standard import from_plain, has_fields
from crashcart.readers.interpreter.libraries.texts_and_paths import path_text
from crashcart.readers.interpreter.store import NONE
from crashcart.readers.interpreter.values import (
    Bound,
    Class,
    Constant,
    Container,
    Function,
    Instance,
    Library,
    Module,
    Partial,
    Result,
    Unknown,
    Value,
    constant_of,
    unknown_from,
)
from crashcart.readers.job.shell import text_of
from crashcart.record import record

if TYPE_CHECKING:
    import ast

    from crashcart.readers.interpreter.interpreter import Interpreter
    from crashcart.readers.interpreter.trace import Call

__all__ = ["compose", "resolve_target", "structured"]

_PACKAGE = re.compile(r"^#\s*@package\s+(\S+)", re.MULTILINE)
_MOST_FILES = 300
_DEEPEST = 12
_FLAGS_WITH_VALUE = {
    "--config-name": "name",
    "-cn": "name",
    "--config-path": "path",
    "-cp": "path",
    "--config-dir": "dir",
    "-cd": "dir",
}
_SWITCHES = {"--multirun", "-m", "--run", "-r"}
_ENDS_EARLY = {"--help", "--hydra-help", "--version", "--cfg", "-c", "--info", "-i", "--resolve"}
_SPECIAL = {"_target_", "_partial_", "_args_", "_recursive_", "_convert_"}


class RefusedConfigError(Exception):
    """What Hydra would print before it ends the program."""


@record
class Override:
    """One word: ``key=value`` with its prefix (``+``, ``++``, ``~``)."""

    prefix: str
    key: str
    package: str | None
    text: str | None
    word: Value


@record
class Entry:
    """An entry of a defaults list: a config beside this one, or the option of a group."""

    group: str
    option: str | None
    package: str | None
    is_override: bool = False
    is_optional: bool = False


class Composition:
    """One config under way: the choices of groups, the files that were read.

    ``is_old`` is Hydra before 1.1: a config comes before its defaults, and what groups hold is put at the root.
    """

    def __init__(
        self, interpreter: Interpreter, folders: list[str], overrides: list[Override], *, is_old: bool = False
    ) -> None:
        self.interpreter, self.folders, self.is_old = interpreter, folders, is_old
        self.choices: dict[str, str | None] = {}
        self.chosen_by_words: dict[str, Value] = {}
        self.used: set[str] = set()
        self.appended: list[Entry] = []
        self.deleted: set[str] = set()
        self.files: list[str] = []
        self.known = True
        self.values: list[Override] = []
        for override in overrides:
            self._sort(override)

    def _sort(self, override: Override) -> None:
        """An override chooses the option of a group where there is such a group, else it sets a value."""
        group = override.key
        is_group = self.is_group(group) and (override.text is None or not override.text.startswith(("{", "[")))
        if not is_group or group == "hydra" or group.startswith("hydra/"):
            self.values.append(override)
            return
        key = f"{group}@{override.package}" if override.package else group
        option = None if override.text in {None, "null"} else override.text
        if override.prefix == "+":
            self.appended.append(Entry(f"/{group}", option, override.package))
        elif override.prefix == "~":
            self.deleted.add(key)
        else:
            self.choices[key] = option
            self.chosen_by_words[key] = override.word

    def is_group(self, name: str) -> bool:
        """Whether configs of this group exist."""
        if any(os.path.isdir(os.path.join(folder, name)) for folder in self.folders):
            return True
        return any(key.startswith(f"{name}/") for key in _stored(self.interpreter))

    def load(self, name: str) -> tuple[Container, str | None] | None:
        """A config by its path below the folders: its content and the package that it names."""
        name = name.removesuffix(".yaml").removesuffix(".yml").strip("/")
        for folder in self.folders:
            path = os.path.join(folder, f"{name}.yaml")
            if os.path.isfile(path) and len(self.files) < _MOST_FILES:
                self.files.append(os.path.normpath(path))
                made = config_value(self.interpreter, path, numbers=True, attributes=True)
                try:
                    said = _PACKAGE.search(text_of(path)[:1000])
                except CommandError:
                    said = None
                if isinstance(made, Constant) and made.value is None:
                    made = self.interpreter.container("config", {})
                if not isinstance(made, Container):
                    self.known = False
                    return None
                return made, said[1] if said is not None else None
        stored = _stored(self.interpreter).get(name)
        if stored is None:
            return None
        node, package = stored
        return structured(self.interpreter, node), package

    # ---- the tree of configs

    def tree(self, name: str, group: str, package: str, entry: Entry | None, depth: int = 0) -> list[tuple[str, Container]]:
        """The pieces of a config and of its defaults in the order of their merge, each with its package."""
        path = f"{group}/{name}".strip("/")
        loaded = self.load(path)
        if loaded is None or depth > _DEEPEST:
            if entry is not None and entry.is_optional:
                return []
            if self.known and loaded is not None:
                raise RefusedConfigError(f"the defaults of '{path}' lead back to itself")
            if self.known and not any(folder.startswith("pkg:") for folder in self.folders):
                raise RefusedConfigError(f"Could not find '{path}'")
            self.known = False
            return []
        content, header = loaded
        if header is not None and (entry is None or entry.package is None):
            package = _package(header, "", group, name)
        if content.kind in {"list", "tuple"}:  # an option of a group may be a list
            return [(package, content)]
        own = dict(self.interpreter.entries(content))
        listed = own.pop("defaults", None)
        entries = self._entries(listed)
        if not any(each.option == "_self_" and not each.group for each in entries):
            entries.insert(0 if self.is_old else len(entries), Entry("", "_self_", None))
        if depth == 0:
            entries += self.appended
        base = group or os.path.dirname(name)
        for each in entries:
            if each.is_override:
                self.choices.setdefault(self._key(each, base, package), each.option)
        # The last first: a later entry may choose for an earlier one.
        pieces = [self._piece(each, base, package, own, content, depth) for each in reversed(entries)]
        return [piece for part in reversed(pieces) for piece in part]

    def _piece(
        self, entry: Entry, base: str, package: str, own: dict[Any, Value], content: Container, depth: int
    ) -> list[tuple[str, Container]]:
        if entry.option == "_self_" and not entry.group:
            is_open = bool(self.interpreter.store.get(content, "open"))
            return [(package, self.interpreter.container("config", own, is_open=is_open))]
        if entry.is_override or entry.group.startswith(("hydra/", "/hydra/")):
            return []
        if not entry.group:  # a config beside this one
            beside = str(entry.option)
            folder, _, last = beside.rpartition("/")
            place = folder.lstrip("/") if beside.startswith("/") else f"{base}/{folder}".strip("/")
            below = _package(entry.package, package, place, last) if entry.package is not None else package
            if folder and entry.package is None:
                below = ".".join(filter(None, [package, folder.strip("/").replace("/", ".")]))
            return self.tree(last, place, below, entry, depth + 1)
        key = self._key(entry, base, package)
        option = self.choices.get(key, entry.option)
        self.used.add(key)
        if key in self.deleted or option is None or option == "???":
            return []
        group = entry.group.lstrip("/") if entry.group.startswith("/") else f"{base}/{entry.group}".strip("/")
        relative = entry.group.lstrip("/").replace("/", ".")
        below = (
            _package(entry.package, package, group, option)
            if entry.package is not None
            else ""
            if self.is_old
            else ".".join(filter(None, [package, relative]))
        )
        if "${" in option:
            self.known = False
            return []
        if "," in option and not option.startswith("["):
            option = option.partition(",")[0]  # of a sweep the first
        found: list[tuple[str, Container]] = []
        for each in option.strip("[]").split(",") if option.startswith("[") else [option]:
            found += self.tree(each.strip(), group, below, entry, depth + 1)
        return found

    def _key(self, entry: Entry, base: str, package: str) -> str:
        group = entry.group.lstrip("/") if entry.group.startswith("/") else f"{base}/{entry.group}".strip("/")
        if entry.package is None:
            return group
        final = _package(entry.package, package, group, "")
        return group if final == group.replace("/", ".") else f"{group}@{final}"

    def _entries(self, listed: Value | None) -> list[Entry]:
        found: list[Entry] = []
        items, complete = self.interpreter.listed(listed) if isinstance(listed, Container) else ([], listed is None)
        self.known &= complete
        for item in items:
            plain = constant_of(item)
            if isinstance(plain, str):
                name, _, package = plain.partition("@")
                found.append(Entry("", name, package or None))
            elif isinstance(item, Container):
                for key, value in self.interpreter.entries(item).items():
                    option = constant_of(value)
                    options = (
                        [str(constant_of(each)) for each in self.interpreter.listed(value)[0]]
                        if isinstance(value, Container)
                        else None
                    )
                    text = f"[{','.join(options)}]" if options is not None else None if option is None else str(option)
                    found.append(_entry(str(key), text))
        return found


def _entry(key: str, option: str | None) -> Entry:
    words = key.split() or [""]
    group, _, package = words[-1].partition("@")
    return Entry(group, option, package or None, is_override="override" in words[:-1], is_optional="optional" in words[:-1])


def _package(said: str | None, parent: str, group: str, name: str) -> str:
    """Where a config is put: relative to the config that names it, or from the root with ``_global_``."""
    if said is None:
        return parent
    said = said.replace("_group_", group.replace("/", ".")).replace("_name_", name)
    if said.startswith("_global_"):
        return said.removeprefix("_global_").strip(".")
    if said == "_here_":
        return parent
    return ".".join(filter(None, [parent, said]))


# ---- structured configs


def structured(interpreter: Interpreter, value: Value, depth: int = 0) -> Container:
    """A dataclass, an object of one or a dictionary as a config."""
    if isinstance(value, Class):
        value = interpreter.instantiate(value, [], {}, value.node)
    if isinstance(value, Instance) and depth < _DEEPEST:
        items: dict[str, Value] = {}
        for field in fields_in(interpreter, value.cls):
            inner = interpreter.peek(value, field.name)
            if field.default is None and (inner is None or isinstance(inner, Unknown)):
                inner = Constant("???")
            if isinstance(inner, Library) and inner.name.endswith(".MISSING"):
                inner = Constant("???")
            is_config = isinstance(inner, Instance) and has_fields(inner.cls)
            items[field.name] = (
                structured(interpreter, inner, depth + 1) if is_config and inner is not None else inner or Unknown()
            )
        made = interpreter.container("config", items)
        interpreter.store.set(made, "(class)", value.cls)
        return made
    if isinstance(value, Container):
        made = copied(interpreter, value)
        if made.kind == "dict":
            made.kind = "config"
            nest(interpreter, made)
        return made
    return interpreter.container("config", {}, is_open=True)


def _stored(interpreter: Interpreter) -> dict[str, tuple[Value, str | None]]:
    found: dict[str, tuple[Value, str | None]] | None = interpreter.store.get("hydra", "(stored)")
    return found or {}


@models("hydra.core.config_store.ConfigStore.instance", "hydra.core.config_store.ConfigStore")
def config_store(_interpreter: Interpreter, call: Call) -> Value:
    """The one store of structured configs."""
    return Result("hydra.core.config_store.ConfigStore", call)


@models("hydra.core.config_store.ConfigStore.store")
def store_config(interpreter: Interpreter, call: Call) -> Value:
    """``cs.store(name="config", node=Config)``."""
    name, node = constant_of(call.argument(0, "name")), call.argument(1, "node")
    group, package = constant_of(call.argument(2, "group")), constant_of(call.argument(3, "package"))
    if isinstance(name, str) and node is not None:
        key = f"{group}/{name}" if isinstance(group, str) else name
        said = package if isinstance(package, str) else None
        interpreter.store.set("hydra", "(stored)", {**_stored(interpreter), key.removesuffix(".yaml"): (node, said)})
    return NONE


# ---- words


def read_words(words: list[tuple[str, Value]]) -> tuple[list[Override], dict[str, str], bool, bool]:
    """The overrides, the flags of Hydra itself, whether many runs are asked for, and whether it ends early."""
    overrides: list[Override] = []
    flags: dict[str, str] = {}
    many = ends = False
    waiting = list(words)
    while waiting:
        text, value = waiting.pop(0)
        name, equals, written = text.partition("=")
        if name in _FLAGS_WITH_VALUE:
            flags[_FLAGS_WITH_VALUE[name]] = written if equals else waiting.pop(0)[0] if waiting else ""
        elif text in _SWITCHES:
            many |= text in {"--multirun", "-m"}
        elif name in _ENDS_EARLY:
            ends = True
        elif text.startswith("-") and not text.startswith("~"):
            raise RefusedConfigError(f"unrecognized arguments: {text}")
        else:
            overrides.append(_override(text, value, many=any(word in {"--multirun", "-m"} for word, _ in words)))
    return overrides, flags, many, ends


def _override(text: str, word: Value, *, many: bool = False) -> Override:
    prefix = "++" if text.startswith("++") else text[:1] if text[:1] in {"+", "~"} else ""
    key, equals, written = text[len(prefix) :].partition("=")
    name, at, package = key.partition("@")
    if equals and "," in written and written[:1] not in {"[", "{", "'", '"'} and "${" not in written and not many:
        raise RefusedConfigError(f"Ambiguous value for argument '{text}'")
    if not equals and prefix != "~" and "\0" not in text:
        raise RefusedConfigError(f"Error parsing override '{text}': missing EQUAL")
    return Override(prefix, name.strip(), package if at else None, written if equals else None, word)


def word_value(interpreter: Interpreter, override: Override, *, many: bool) -> Value:
    """The value of an override as Hydra's grammar reads it."""
    text = override.text or ""
    key = f"{override.prefix}{override.key}"
    fact = flag_fact(interpreter, [key, override.key], override.key, None)
    origins = (fact,) if fact is not None else override.word.origins
    if not isinstance(override.word, Constant) or "\0" in text:
        return Unknown(origins=origins)
    if many and (
        ("," in text and not text.startswith(("[", "{", "'", '"')))
        or text.startswith(("choice(", "range(", "glob(", "interval("))
    ):
        return Unknown(origins=origins, kind="sweep")
    origin = Constant(None, origins, direct=True)
    parsed = _Grammar(text).whole()
    return from_plain(interpreter, parsed, origin) if parsed is not _NO_VALUE else Unknown(origins=origins)


_NO_VALUE: Any = object()


class _Grammar:
    """The values of Hydra's command line: numbers, truths, quoted and plain texts, lists, dictionaries."""

    def __init__(self, text: str) -> None:
        self.text, self.position = text, 0

    def whole(self) -> Any:  # noqa: ANN401 - data of a word
        stripped = self.text.strip()
        if stripped[:1] in {"[", "{"} or (stripped[:1] in {"'", '"'} and stripped[-1:] == stripped[:1]):
            value = self.value(0)
            return value if not self.text[self.position :].strip() else _NO_VALUE
        return plain_word(stripped)

    def value(self, depth: int) -> Any:  # noqa: ANN401 - data of a word
        self._skip()
        if depth > _DEEPEST or self.position >= len(self.text):
            return _NO_VALUE
        letter = self.text[self.position]
        if letter in "'\"":
            end = self.text.find(letter, self.position + 1)
            value = self.text[self.position + 1 : end] if end > 0 else _NO_VALUE
            self.position = end + 1 if end > 0 else len(self.text)
            return value
        if letter == "[":
            return self._sequence(depth)
        if letter == "{":
            return self._mapping(depth)
        start = self.position
        while self.position < len(self.text) and self.text[self.position] not in ",]}":
            if self.text.startswith("${", self.position):
                end = self.text.find("}", self.position)
                self.position = end if end > 0 else len(self.text) - 1
            self.position += 1
        return plain_word(self.text[start : self.position].strip())

    def _sequence(self, depth: int) -> Any:  # noqa: ANN401 - data of a word
        items = []
        self.position += 1
        self._skip()
        while self.position < len(self.text) and self.text[self.position] != "]":
            start = self.position
            items.append(self.value(depth + 1))
            if self.position == start:  # no value begins here, or it lies too deep
                self.position = len(self.text)
                return _NO_VALUE
            self._skip()
            if self.text[self.position : self.position + 1] == ",":
                self.position += 1
            self._skip()
        self.position += 1
        return _NO_VALUE if _NO_VALUE in items else items

    def _mapping(self, depth: int) -> Any:  # noqa: ANN401 - data of a word
        items: dict[Any, Any] = {}
        self.position += 1
        self._skip()
        while self.position < len(self.text) and self.text[self.position] != "}":
            end = self.text.find(":", self.position)
            if end < 0:
                return _NO_VALUE
            key = plain_word(self.text[self.position : end].strip().strip("'\""))
            self.position = end + 1
            items[key] = self.value(depth + 1)
            self._skip()
            if self.text[self.position : self.position + 1] == ",":
                self.position += 1
            self._skip()
        self.position += 1
        return _NO_VALUE if _NO_VALUE in items.values() else items

    def _skip(self) -> None:
        while self.position < len(self.text) and self.text[self.position] in " \t":
            self.position += 1


# ---- composition


def compose(  # noqa: PLR0913 - what a config is made of
    interpreter: Interpreter,
    folders: list[str],
    name: str | None,
    overrides: list[Override],
    call: Call,
    *,
    many: bool = False,
    is_old: bool = False,
) -> Container:
    """The config that Hydra makes; with a failure where it refuses the words."""
    composition = Composition(interpreter, folders, overrides, is_old=is_old)
    root: Value = interpreter.container("config", {})
    if name is not None:
        group, _, last = name.removesuffix(".yaml").rpartition("/")
        for package, piece in composition.tree(last, group, "", None):
            placed = interpreter.container("config", {})
            if package:
                put(interpreter, placed, package.split("."), piece)
            else:
                placed = piece
            root = overlay(interpreter, root, placed)
    else:
        for entry in composition.appended:
            option = str(entry.option)
            for package, piece in composition.tree(
                option, entry.group.lstrip("/"), entry.group.strip("/").replace("/", "."), entry, 1
            ):
                placed = interpreter.container("config", {})
                put(interpreter, placed, package.split("."), piece)
                root = overlay(interpreter, root, placed)
    if not isinstance(root, Container):
        return interpreter.container("config", {}, is_open=True)
    unused = [key for key in composition.chosen_by_words if key not in composition.used]
    if unused and composition.known and name is not None:
        raise RefusedConfigError(f"Could not override '{unused[0]}'. No match in the defaults list.")
    for override in composition.values:
        _apply(interpreter, root, override, composition, many=many)
    root.call = call
    if not composition.known:
        interpreter.libraries.open_up(interpreter, root)
    resolve(interpreter, root)
    interpreter.composed.append((root, composition.files))
    return root


def _apply(interpreter: Interpreter, root: Container, override: Override, composition: Composition, *, many: bool) -> None:
    path = [part for part in override.key.replace("[", ".").replace("]", "").split(".") if part]
    if not path or path[0] == "hydra" or override.key.startswith("hydra/"):
        return
    if "\0" in override.key:  # "$@": whatever the user gives
        interpreter.libraries.open_up(interpreter, root)
        return
    exists = _at(interpreter, root, path) is not None
    certain = composition.known and not interpreter.store.get(root, "open")
    if override.prefix == "~":
        if exists:
            _delete(interpreter, root, path)
        elif certain:
            raise RefusedConfigError(f"Could not delete '{override.key}': it does not exist.")
        return
    if certain and not exists and not override.prefix and _is_struct(interpreter, root, path):
        raise RefusedConfigError(
            f"Could not override '{override.key}'.\nTo append to your config use +{override.key}={override.text}"
        )
    is_set = exists and constant_of(_at(interpreter, root, path), root) is not None
    if certain and is_set and override.prefix == "+" and not (override.text or "").startswith(("{", "[")):
        raise RefusedConfigError(f"Could not append to config. An item is already at '{override.key}'.")
    value = word_value(interpreter, override, many=many)
    if isinstance(value, Container):
        if value.kind == "dict":
            value.kind = "config"
            nest(interpreter, value)
        below = _at(interpreter, root, path)
        if value.kind == "config" and isinstance(below, Container) and below.kind == "config":
            value = overlay(interpreter, below, value)
    put(interpreter, root, path, value)


def _is_struct(interpreter: Interpreter, root: Container, path: list[str]) -> bool:
    """Whether all that is above a key is known, so that a key that is not there is refused."""
    owner: Value | None = root
    for part in path[:-1]:
        if not isinstance(owner, Container) or owner.kind != "config" or interpreter.store.get(owner, "open"):
            return isinstance(owner, Constant)
        owner = interpreter.entries(owner).get(part)
    return owner is None or (
        isinstance(owner, Container) and not interpreter.store.get(owner, "open") and owner.kind == "config"
    )


def _at(interpreter: Interpreter, root: Value, path: list[str]) -> Value | None:
    found: Value | None = root
    for part in path:
        content = interpreter.items(found) if isinstance(found, Container) else None
        if isinstance(content, dict):
            found = content.get(part)
        elif content is not None and (number := to_int(part)) is not None and 0 <= number < len(content):
            found = content[number]
        else:
            return None
    return found


def _delete(interpreter: Interpreter, root: Container, path: list[str]) -> None:
    owner = _at(interpreter, root, path[:-1]) if len(path) > 1 else root
    if isinstance(owner, Container) and owner.kind == "config":
        kept = {key: value for key, value in interpreter.entries(owner).items() if key != path[-1]}
        interpreter.store.set(owner, "items", kept)


# ---- what programs call


@models("@hydra.main", "@hydra.main.main", "@hydra_zen.main")
def decorate_main(_interpreter: Interpreter, function: Value, decorator: Value, _node: ast.AST) -> Value | None:
    """``@hydra.main(config_path="conf", config_name="config")``."""
    call = decorator.call if isinstance(decorator, Result) else None
    return Result("(hydra function)", call, data=function)


@models("hydra.main.__call__")
def apply_main(_interpreter: Interpreter, call: Call) -> Value:
    """``hydra.main(...)(function)``."""
    decorator = call.receiver.call if isinstance(call.receiver, Result) else None
    return Result("(hydra function)", decorator, data=call.argument(0))


@models("(hydra function).__call__")
def call_main(interpreter: Interpreter, call: Call) -> Value:
    """The function with the composed config."""
    receiver = call.receiver
    function = receiver.data if isinstance(receiver, Result) else None
    if not isinstance(receiver, Result) or not isinstance(function, Value):
        return Unknown()
    if call.arguments or call.keywords:
        return interpreter.call(function, call.arguments, call.keywords, call.node, complete=call.complete)
    config = _main_config(interpreter, receiver, function, call)
    return interpreter.call(function, [config], {}, call.node) if config is not None else NONE


def _main_config(interpreter: Interpreter, receiver: Result, function: Value, call: Call) -> Value | None:
    path = receiver.argument(0, "config_path") if receiver.call is not None else None
    name = receiver.argument(1, "config_name") if receiver.call is not None else None
    words = words_of(interpreter, None)
    unknown = interpreter.container("config", {}, is_open=True)
    try:
        overrides, flags, many, ends = read_words(words or [])
        if ends:
            return None
        plain = flags.get("path") or path_text(path)
        wanted = flags.get("name") or constant_of(name)
        is_old = plain is not None and plain.endswith((".yaml", ".yml"))
        if plain is not None and is_old:  # before 1.1 it could name the config itself
            plain, _, wanted = plain.rpartition("/")
        source = function.source.path if isinstance(function, Function) else interpreter.frame.source.path
        folders = _folders(interpreter, plain, source)
        if "dir" in flags:
            folders += _folders(interpreter, flags["dir"], "")
        if (wanted is not None and not isinstance(wanted, str)) or (
            path is not None and plain is None and constant_of(path, call) is not None
        ):
            return unknown
        if wanted is not None and not folders and not _stored(interpreter):
            return unknown
        wanted = _asked_about(interpreter, folders) or wanted
        name_of_config = wanted if isinstance(wanted, str) else None
        made = compose(interpreter, folders, name_of_config, overrides, call, many=many, is_old=is_old)
    except RefusedConfigError as problem:
        refuse(interpreter, ParserSpec(), call, str(problem), [])
        return unknown
    if words is None:
        interpreter.libraries.open_up(interpreter, made)
    return made


def _asked_about(interpreter: Interpreter, folders: list[str]) -> str | None:
    """The config that the user named without a command, where it lies at the top of the configs: those below are options."""
    folder, name = os.path.split(interpreter.launch.config)
    return name if name and any(os.path.realpath(folder or ".") == os.path.realpath(top) for top in folders) else None


def _folders(interpreter: Interpreter, path: str | None, source: str) -> list[str]:
    """The folder of the configs: relative to the file that names it, or to where the program starts."""
    if path is None:
        return []
    if path.startswith("pkg://"):
        path = path.removeprefix("pkg://").replace(".", "/")
    places = [os.path.dirname(source) or "."] if source else []
    for place in [*places, *interpreter.launch.folders, *interpreter.modules.places]:
        full = os.path.normpath(os.path.join(place, path))
        if os.path.isdir(full):
            return [full]
    return []


@models("hydra.initialize", "hydra.initialize_config_dir", "hydra.initialize_config_module", "hydra.experimental.initialize")
def initialize(interpreter: Interpreter, call: Call) -> Value:
    """Where the configs are, for those composed in code."""
    path = path_text(call.argument(0, "config_path") or call.argument(0, "config_dir") or call.argument(0, "config_module"))
    if path is not None and call.method == "initialize_config_module":
        path = path.replace(".", "/")
    folders = _folders(interpreter, path, interpreter.frame.source.path)
    interpreter.store.set("hydra", "(folders)", folders if path is not None else None)
    return Result("hydra.initialize", call)


@models("hydra.compose", "hydra.experimental.compose")
def compose_config(interpreter: Interpreter, call: Call) -> Value:
    """``compose(config_name="config", overrides=["lr=1"])``."""
    name = constant_of(call.argument(0, "config_name"))
    given = call.argument(1, "overrides")
    items, complete = interpreter.listed(given) if given is not None else ([], call.complete)
    folders = interpreter.store.get("hydra", "(folders)")
    if not isinstance(name, str) or not isinstance(folders, list) or not (folders or _stored(interpreter)):
        return interpreter.container("config", {}, call.node, is_open=True)
    try:
        overrides = [_override(str(constant_of(item, "\0=\0")), item) for item in items]
        made = compose(interpreter, list(folders), name, overrides, call)
    except RefusedConfigError as problem:
        refuse(interpreter, ParserSpec(), call, str(problem), [])
        return interpreter.container("config", {}, call.node, is_open=True)
    if not complete:
        interpreter.libraries.open_up(interpreter, made)
    return made


@models("hydra.utils.get_original_cwd", "hydra.utils.to_absolute_path")
def original_path(_interpreter: Interpreter, call: Call) -> Value:
    """A path as seen from where the program was started."""
    value = call.argument(0)
    return value if value is not None else Constant(".")


@models("hydra.utils.instantiate", "hydra.utils.call", "hydra.experimental.instantiate")
def instantiate(interpreter: Interpreter, call: Call) -> Value:
    """Call the ``_target_`` of a config with its keys."""
    config = call.argument(0, "config")
    given = {name: value for name, value in call.keywords.items() if name != "config"}
    return build(interpreter, config or Unknown(), call, list(call.arguments[1:]), given)


def build(
    interpreter: Interpreter,
    config: Value,
    call: Call,
    arguments: list[Value] | None = None,
    keywords: dict[str, Value] | None = None,
    depth: int = 0,
) -> Value:
    """What a config with ``_target_`` stands for; lists and dictionaries are gone through."""
    if not isinstance(config, Container) or depth > _DEEPEST:
        return config
    content = interpreter.items(config)
    if not isinstance(content, dict):
        return interpreter.container("list", [build(interpreter, item, call, depth=depth + 1) for item in content])
    older = content.get("class", content.get("cls")) if not depth and "_target_" not in content else None
    if isinstance(constant_of(older), str):  # as before Hydra 1.0, with the keys below ``params``
        content = {"_target_": older, **interpreter.entries(content.get("params"))}
    given = {**content, **(keywords or {})}
    target = given.get("_target_")
    recursive = constant_of(given.get("_recursive_"), True) is not False
    values = {
        key: build(interpreter, value, call, depth=depth + 1) if recursive else value
        for key, value in given.items()
        if key not in _SPECIAL
    }
    if target is None:
        return interpreter.container("config", values) if depth else config
    function = resolve_target(interpreter, target) if not isinstance(target, (Function, Class, Library)) else target
    listed = given.get("_args_")
    positional = list(arguments or []) or (interpreter.listed(listed)[0] if isinstance(listed, Container) else [])
    named = {str(key): value for key, value in values.items()}
    if constant_of(given.get("_partial_")) is True:
        return Partial(function, positional, named)
    complete = not interpreter.store.get(config, "open")
    if complete and isinstance(function, (Function, Class)):
        _check_names(interpreter, function, named, call)
    return interpreter.call(function, positional, named, call.node, complete=complete)


def _check_names(interpreter: Interpreter, function: Function | Class, named: dict[str, Value], call: Call) -> None:
    """A key of the config that the target does not take."""
    parameters, takes_any = parameters_of(interpreter, function)
    if isinstance(function, Class) and function.library_bases() and not parameters:
        return
    extra = [name for name in named if name not in {each.name for each in parameters}]
    if extra and not takes_any:
        says = f"{function.name}() got an unexpected keyword argument {extra[0]!r}"
        interpreter.fail(call.node, "TypeError", says, named[extra[0]])


def resolve_target(interpreter: Interpreter, target: Value) -> Value:
    """What a dotted name of a config stands for, in the program or in a library."""
    name = constant_of(target)
    if not isinstance(name, str) or not all(part.isidentifier() for part in name.split(".")):
        return unknown_from(target)
    parts = name.split(".")
    if parts[0] == "__main__" and (entry := interpreter.loaded.get(interpreter.modules.entry)) is not None:
        return interpreter.attribute(entry, parts[1], interpreter.frame.source.tree) if len(parts) > 1 else entry
    for count in range(len(parts), 0, -1):
        path = interpreter.modules.find(".".join(parts[:count]))
        if path is None:
            continue
        module: Value = interpreter.import_module(".".join(parts[:count]))
        for part in parts[count:]:
            if isinstance(module, (Module, Class)):
                module = interpreter.attribute(module, part, interpreter.frame.source.tree)
        return module if not isinstance(module, Bound) else Unknown()
    return Library(interpreter.libraries.full_name(name))


@models(
    "hydra.utils.get_class",
    "hydra.utils.get_method",
    "hydra.utils.get_object",
    "hydra.utils.get_static_method",
    "pydoc.locate",
)
def get_by_name(interpreter: Interpreter, call: Call) -> Value:
    """A class or function by its dotted name."""
    return resolve_target(interpreter, call.argument(0) or Unknown())
