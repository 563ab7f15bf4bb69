"""Command lines that are made of typed dataclasses and functions: draccus, pyrallis, tyro, simple_parsing, tap, chz.

    @draccus.wrap()                                    args = tyro.cli(Args)
    def train(cfg: TrainConfig): ...                   --optim.lr 1e-3 --no-compile
    --config_path run.yaml --optim.lr=1e-3

Each field is a flag with its path as the name. draccus and pyrallis read a word as YAML and decode it into the type of the field; the
others convert it as argparse does.
"""

from __future__ import annotations

import argparse
import re
from typing import TYPE_CHECKING, Any

from crashcart.readers.interpreter.libraries import models
from crashcart.readers.interpreter.libraries.argparse_parser import (
    Argument,
    Declaration,
    ParserSpec,
    default_value,
    flag_fact,
    given_values,
    parse_words,
    refuse,
    spec_of,
    words_of,
)
from crashcart.readers.interpreter.libraries.config_files import config_value, flag_word, overlay, put
from crashcart.readers.interpreter.libraries.field_types import (
    ANY,
    Field,
    Kind,
    defaulted,
    fields_in,
    kind_of,
    kind_of_value,
    parameters_of,
)
from crashcart.readers.interpreter.libraries.hf_parser import build_dataclass, enum_members
from crashcart.readers.interpreter.libraries.texts_and_paths import path_text
from crashcart.readers.interpreter.store import FALSE, NONE, TRUE
from crashcart.readers.interpreter.values import (
    Bound,
    Class,
    Constant,
    Container,
    Function,
    Instance,
    Library,
    Partial,
    Result,
    Unknown,
    Value,
    constant_of,
    unknown_from,
)

if TYPE_CHECKING:
    import ast
    from collections.abc import Iterator

    from crashcart.readers.interpreter.interpreter import Interpreter
    from crashcart.readers.interpreter.trace import Call

__all__ = ["convert_word", "decode", "word_count"]

_DEEPEST = 6
_MOST_FLAGS = 4000
_SUBCOMMAND = "tyro.conf.subcommand"
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_CONVERSIONS: dict[str, Any] = {"int": int, "float": float, "str": str}


class UndecodableError(ValueError):
    """A value that is not of the type of its field."""


# ---- draccus and pyrallis


def decode(interpreter: Interpreter, kind: Kind, value: Value, call: Call, *, strict: bool = True, path: str = "") -> Value:
    """A value of a config as its type; raises `UndecodableError` where the library does."""
    if kind.name == "any" or isinstance(value, Unknown):
        return value
    if kind.name == "dataclass":
        return _decode_dataclass(interpreter, kind, value, call, strict=strict, path=path)
    if kind.name == "union":
        return _decode_union(interpreter, kind, value, call, strict=strict, path=path)
    if kind.name in {"list", "set", "tuple"}:
        items, complete = interpreter.listed(value)
        if not isinstance(value, Container) or not complete:
            return unknown_from(value)
        kinds = kind.parts if kind.name == "tuple" and "..." not in kind.choices else (kind.parts[:1] or (ANY,)) * len(items)
        if len(kinds) != len(items):
            raise UndecodableError(f"Expected {len(kinds)} items for {path}, got {len(items)}")
        made = [
            decode(interpreter, each, item, call, strict=strict, path=path) for each, item in zip(kinds, items, strict=True)
        ]
        return interpreter.container(kind.name, made)
    if kind.name == "dict":
        if not isinstance(value, Container) or value.kind not in {"dict", "config"} or len(kind.parts) != 2:
            return value
        pairs = interpreter.items(value).items()
        return interpreter.container(
            "dict", {key: decode(interpreter, kind.parts[1], item, call, strict=strict, path=path) for key, item in pairs}
        )
    if not isinstance(value, Constant):
        if kind.name in {"int", "float", "bool"} and isinstance(value, Container):
            raise UndecodableError(f"Couldn't parse a {value.kind} into a {kind.name} for {path}")
        return unknown_from(value) if kind.name in {"str", "int", "float", "bool"} else value
    if kind.name == "literal":
        if value.value not in kind.choices:
            raise UndecodableError(f"{value.value!r} is none of {kind.choices} for {path}")
        return value
    if kind.name == "enum":
        members = enum_members(interpreter, kind.cls)
        if str(value.value) not in members and members:
            raise UndecodableError(f"{value.value!r} is no member for {path}")
        return (
            interpreter.libraries.member(interpreter, kind.cls, str(value.value), members[str(value.value)])
            if members
            else value
        )
    if kind.name == "path":
        return Result("pathlib.Path", call, origins=value.origins, data=str(value.value))
    return _decode_plain(kind, value, strict=strict, path=path)


def _decode_plain(kind: Kind, value: Constant, *, strict: bool, path: str) -> Value:
    plain = value.value
    if kind.name == "bool" and strict:
        if plain not in {True, False, "true", "false"} or (type(plain) in {int, float}):
            raise UndecodableError(f"Couldn't parse {plain!r} into a bool for {path}")
        return Constant(plain in {True, "true"}, value.origins, direct=True)
    if kind.name == "bool":
        return Constant(bool(plain), value.origins, direct=True)
    if kind.name not in _CONVERSIONS:
        is_alias = kind.name == "class" and isinstance(kind.cls, Library)  # of what, is not known
        return value if is_alias or (kind.name == "none" and plain is None) else unknown_from(value)
    if kind.name == "int" and strict and isinstance(plain, float):
        raise UndecodableError(f"Couldn't parse {plain!r} into an int for {path}")
    try:
        return Constant(_CONVERSIONS[kind.name](plain), value.origins, direct=True)
    except (ValueError, TypeError, OverflowError):
        raise UndecodableError(f"Couldn't parse {plain!r} into a {kind.name} for {path}") from None


def _decode_union(interpreter: Interpreter, kind: Kind, value: Value, call: Call, *, strict: bool, path: str) -> Value:
    if kind.optional and isinstance(value, Constant) and value.value is None:
        return value
    problem = ""
    for part in kind.parts:
        if part.name == "none":
            continue
        try:
            return decode(interpreter, part, value, call, strict=strict, path=path)
        except UndecodableError as error:
            problem = str(error)
    raise UndecodableError(problem or f"no type of the union fits {path}")


def _decode_dataclass(interpreter: Interpreter, kind: Kind, value: Value, call: Call, *, strict: bool, path: str) -> Value:
    if not isinstance(value, Container) or value.kind not in {"dict", "config"}:
        return unknown_from(value) if not (isinstance(value, Constant) and value.value is None) else value
    given = dict(interpreter.items(value))
    cls: Value | None = kind.cls
    choices = _choices(interpreter, cls)
    if choices:
        has_default = isinstance(cls, Class) and interpreter._find_method(cls, "default_choice_name") is not None
        if "type" not in given and not has_default and not interpreter.store.get(value, "open"):
            raise UndecodableError(f"Expected a dict with a 'type' key for {_name(cls)}, got {', '.join(map(str, given))}")
        chosen = constant_of(given.pop("type", None))
        if not isinstance(chosen, str):
            return Unknown()
        if chosen not in choices:
            if any(
                isinstance(each, Class) and isinstance(cls, Class) and each.source is not cls.source
                for each in choices.values()
            ):
                return Unknown()  # others may be registered in modules that are loaded in the program's own way
            raise UndecodableError(f"Couldn't find a choice class for {chosen!r} for {path}")
        cls = choices[chosen]
    if not isinstance(cls, (Class, Library)):
        return Unknown()
    fields = {field.name: field for field in fields_in(interpreter, cls)}
    extra = [str(name) for name in given if name not in fields]
    if extra:
        raise UndecodableError(f"The fields {', '.join(f'`{name}`' for name in extra)} are not valid for {_name(cls)}")
    values: dict[str, Value] = {}
    for name, field in fields.items():
        below = f"{path}.{name}" if path else name
        if name in given:
            values[name] = decode(interpreter, field.kind, given[name], call, strict=strict, path=below)
        elif field.default is not None and field.init:
            values[name] = defaulted(field, f"--{below}", call)
        elif field.init:
            raise UndecodableError(f"Missing required field(s) `{name}` for {_name(cls)}")
    return build_dataclass(interpreter, cls, values, call)


def _name(cls: Value | None) -> str:
    return cls.name if isinstance(cls, (Class, Library)) else ""


def _choices(interpreter: Interpreter, cls: Value | None) -> dict[str, Value]:
    """The classes that are registered under names below a class of choices."""
    found = interpreter.store.get(cls, "(choices)")
    return dict(interpreter.entries(found))


@models("@draccus.ChoiceRegistry.register_subclass", "@draccus.PluginRegistry.register_subclass")
def register_choice(interpreter: Interpreter, function: Value, decorator: Value, _node: ast.AST) -> Value | None:
    """``@Policy.register_subclass("act")``."""
    call = decorator.call if isinstance(decorator, Result) else None
    if call is None or not isinstance(call.receiver, Class):
        return None
    _register(interpreter, call.receiver, constant_of(call.argument(0, "name")), function)
    return function


def _register(interpreter: Interpreter, owner: Value, name: object, cls: Value) -> None:
    """Keep a class below a name of its class of choices."""
    if isinstance(name, str):
        known = interpreter.store.get(owner, "(choices)")
        if not isinstance(known, Container):
            known = interpreter.container("dict", {})
            interpreter.store.set(owner, "(choices)", known)
        interpreter.set_item(known, Constant(name), cls, None)
        interpreter.store.set(cls, "(choice)", Constant(name))


@models("draccus.ChoiceRegistry.register_subclass", "draccus.PluginRegistry.register_subclass")
def register_by_hand(interpreter: Interpreter, call: Call) -> Value | None:
    """``Policy.register_subclass("act", Act)``; with the name alone it makes a decorator."""
    cls = call.argument(1, "choice_type")
    if isinstance(call.receiver, Class) and isinstance(cls, Class):
        _register(interpreter, call.receiver, constant_of(call.argument(0, "name")), cls)
        return cls
    return None


@models("draccus.ChoiceRegistry.get_choice_class", "draccus.PluginRegistry.get_choice_class")
def choice_class(interpreter: Interpreter, call: Call) -> Value | None:
    """The class that is registered under a name."""
    return _choices(interpreter, call.receiver).get(str(constant_of(call.argument(0, "name"), "")))


@models("draccus.ChoiceRegistry.get_choice_name", "draccus.PluginRegistry.get_choice_name")
def choice_name(interpreter: Interpreter, call: Call) -> Value:
    """The name under which a class is registered."""
    value = call.argument(0)
    cls = value.cls if isinstance(value, Instance) else value
    found = interpreter.store.get(cls, "(choice)") if cls is not None else None
    return found if isinstance(found, Value) else Unknown()


def _paths(interpreter: Interpreter, kind: Kind, path: str, depth: int = 0) -> Iterator[tuple[str, Kind]]:
    """Every flag of a dataclass, those of dataclasses in it with dots."""
    classes: list[Value | None] = [*_choices(interpreter, kind.cls).values()] or [kind.cls]
    if _choices(interpreter, kind.cls):
        yield f"{path}.type".lstrip("."), Kind("str")
    elif isinstance(kind.cls, Class) and kind.cls.is_a("ChoiceRegistry", "PluginRegistry"):
        yield path, Kind("unread choices")  # registered in modules that the program loads in its own way
    seen: set[str] = set()
    for cls in classes:
        for field in fields_in(interpreter, cls) if isinstance(cls, (Class, Library)) else ():
            interpreter.tick()
            if field.name in seen:
                continue
            seen.add(field.name)
            below = f"{path}.{field.name}".lstrip(".")
            inner = field.kind.inner if field.kind.optional else field.kind
            yield below, field.kind
            if inner.name in {"class", "any"}:
                yield below, Kind("unread choices")  # a class from elsewhere, whose fields nobody knows here
            if inner.name == "dataclass" and depth < _DEEPEST:
                yield from _paths(interpreter, inner, below, depth + 1)


@models("draccus.parse", "pyrallis.parse")
def parse_config(interpreter: Interpreter, call: Call) -> Value:
    """``draccus.parse(Config)``."""
    cls = call.argument(0, "config_class")
    path = call.argument(1, "config_path")
    words = words_of(interpreter, call.argument(2, "args"))
    return read_config_class(interpreter, call, kind_of_value(cls or Unknown()), words, path)


def read_config_class(
    interpreter: Interpreter, call: Call, kind: Kind, words: list[tuple[str, Value]] | None, path: Value | None
) -> Value:
    """An object of a dataclass from a config file and the flags above it."""
    if kind.name != "dataclass":
        return Unknown()
    spec = ParserSpec()
    spec.settings = {"allow_abbrev": call.name.startswith("pyrallis")}
    for below, each in [("config_path", Kind("str")), *_paths(interpreter, kind, "")][:_MOST_FLAGS]:
        argument = Argument([f"--{below}"], Declaration(call, {"dest": Constant(below)}))
        argument.convert = str
        if each.name == "literal" and each.choices and call.name.startswith("draccus"):
            choices = [Constant(str(choice)) for choice in each.choices]
            argument.call.keywords["choices"] = interpreter.container("list", choices)
        if each.name == "unread choices":
            spec.known = False
            continue
        spec.arguments.append(argument)
    given, rest, refused = given_values(interpreter, spec, words, call)
    file = given.pop("config_path", path)
    tree: Value = interpreter.container("dict", {})
    if file is not None and not (isinstance(file, Constant) and file.value is None):
        name = path_text(file)
        tree = config_value(interpreter, name, numbers=False, attributes=False) if name is not None else Unknown()
    if refused or not isinstance(tree, Container):
        return _unread(interpreter, kind, call)
    above = interpreter.container("dict", {})
    for dest, value in given.items():
        plain = constant_of(value)
        fact = flag_fact(interpreter, [f"--{dest}"], dest, plain)
        word = Constant(plain, (fact,) if fact is not None else ()) if isinstance(plain, str) else value
        read = flag_word(interpreter, plain, word, f"--{dest}") if isinstance(plain, str) else value
        put(interpreter, above, dest.split("."), read)
    for word in rest:
        flag = constant_of(word)
        if isinstance(flag, str) and flag.startswith("--"):
            put(interpreter, above, [flag[2:].partition("=")[0].partition(".")[0]], Unknown(origins=word.origins))
    merged = overlay(interpreter, tree, above)
    try:
        return decode(interpreter, kind, merged, call, strict=call.name.startswith("draccus"))
    except UndecodableError as problem:
        refuse(interpreter, spec, call, str(problem), [])
        return _unread(interpreter, kind, call)


def _unread(interpreter: Interpreter, kind: Kind, call: Call) -> Value:
    """The object of a config that cannot be read."""
    return build_dataclass(interpreter, kind.cls or Unknown(), {}, call, complete=False)


@models("@draccus.wrap", "@pyrallis.wrap", "@lerobot.configs.parser.wrap")
def wrap_config(_interpreter: Interpreter, function: Value, decorator: Value, _node: ast.AST) -> Value | None:
    """``@draccus.wrap()``: the function reads the command line when it is called without its config."""
    call = decorator.call if isinstance(decorator, Result) else None
    name = call.name if call is not None else "draccus.wrap"
    return Result("(config function)", call, data=(function, name)) if isinstance(function, Function) else None


@models("(config function).__call__")
def call_wrapped(interpreter: Interpreter, call: Call) -> Value:
    """The function with its config."""
    receiver = call.receiver
    if not isinstance(receiver, Result) or not isinstance(receiver.data, tuple):
        return Unknown()
    function, name = receiver.data
    if call.arguments or call.keywords:
        return interpreter.call(function, call.arguments, call.keywords, call.node, complete=call.complete)
    parameters, _ = parameters_of(interpreter, function)
    reading = interpreter.record(type(call), call.node, f"{name.partition('.')[0]}.parse", [], {})
    path = receiver.argument(0, "config_path")
    config = read_config_class(
        interpreter, reading, parameters[0].kind if parameters else ANY, words_of(interpreter, None), path
    )
    return interpreter.call(function, [config], {}, call.node)


@models(
    "draccus.encode",
    "draccus.dump",
    "pyrallis.dump",
    "pyrallis.encode",
    "draccus.set_config_type",
    "pyrallis.set_config_type",
)
def written(_interpreter: Interpreter, _call: Call) -> Value:
    """Nothing that the program decides by."""
    return Unknown()


@models("draccus.load", "pyrallis.load")
def load_config(interpreter: Interpreter, call: Call) -> Value:
    """A dataclass from a config file alone."""
    file = call.argument(1, "stream")
    path = file.data if isinstance(file, Result) and file.name == "file" else file
    kind = kind_of_value(call.argument(0) or Unknown())
    return read_config_class(interpreter, call, kind, [], path if isinstance(path, Value) else None)


# ---- words as values of a type


def word_count(kind: Kind) -> int | str:
    """How many words a value of a type takes: 1, a number, or ``*``."""
    inner = kind.inner if kind.optional else kind
    if inner.name in {"list", "set", "dict"} or (inner.name == "tuple" and ("..." in inner.choices or not inner.parts)):
        return "*"
    return len(inner.parts) if inner.name == "tuple" else 1


def convert_word(interpreter: Interpreter, kind: Kind, text: str, *, none: str = "None") -> Any:  # noqa: ANN401 - one line for each kind of type
    """One word as a value of a type; raises ``ValueError`` where it is none."""
    if kind.name == "union":
        if kind.optional and text == none:
            return None
        for part in kind.parts:
            try:
                return convert_word(interpreter, part, text, none=none) if part.name != "none" else _nothing(text, none)
            except ValueError:  # noqa: PERF203 - the next type of the union may fit
                continue
        raise ValueError(f"invalid choice: {text!r}")
    if kind.name == "bool":
        if text in {"True", "False", "true", "false"}:
            return text in {"True", "true"}
        raise ValueError(f"invalid choice: {text!r} (choose from 'True', 'False')")
    if kind.name == "literal":
        for choice in kind.choices:
            if str(choice) == text:
                return choice
        raise ValueError(f"invalid choice: {text!r} (choose from {', '.join(map(repr, kind.choices))})")
    if kind.name == "enum":
        members = enum_members(interpreter, kind.cls)
        if text in members:
            return interpreter.libraries.member(interpreter, kind.cls, text, members[text])
        if members:
            raise ValueError(f"invalid choice: {text!r} (choose from {', '.join(map(repr, members))})")
        return Unknown()
    if kind.name == "path":
        return Result("pathlib.Path", None, data=text)
    if kind.name == "none":
        return _nothing(text, none)
    return _CONVERSIONS[kind.name](text) if kind.name in _CONVERSIONS else Unknown(kind="flag")


def _nothing(text: str, none: str) -> None:
    if text != none:
        raise ValueError(f"invalid choice: {text!r} (choose from {none!r})")


def _converter(interpreter: Interpreter, kind: Kind, **more: Any) -> Any:  # noqa: ANN401 - a function of a word
    def convert(text: str) -> Any:  # noqa: ANN401 - a value of any type
        try:
            return convert_word(interpreter, kind, text, **more)
        except ValueError as problem:
            raise argparse.ArgumentTypeError(str(problem)) from None

    return convert


def flag_of(
    interpreter: Interpreter,
    call: Call,
    names: list[str],
    dest: str,
    kind: Kind,
    **more: Any,  # noqa: ANN401 - options of the conversion
) -> Argument:
    """A flag for a typed value."""
    inner = kind.inner if kind.optional else kind
    count = word_count(kind)
    options: dict[str, Value] = {"dest": Constant(dest)} if names[0].startswith("-") else {}
    argument = Argument(names, Declaration(call, options))
    if count != 1 or inner.name in {"list", "set", "tuple", "dict"}:
        options["nargs"] = Constant(count)
        item = inner.parts[0] if inner.parts else Kind("str")
        argument.convert = _converter(interpreter, item, **more) if inner.name != "dict" else lambda _text: Unknown()
    else:
        argument.convert = _converter(interpreter, kind, **more)
    return argument


# ---- tyro


class _Tree:
    """The flags of one level of a tyro command line, and the unions below it that are sub-commands."""

    def __init__(self, *, avoids: bool = False) -> None:
        self.spec = ParserSpec()
        self.spec.settings = {"allow_abbrev": False}
        self.unions: list[tuple[str, Kind, Value | None]] = []
        self.avoids = avoids  # a union that has a default is that type, and no choice


@models("tyro.cli")
def tyro_cli(interpreter: Interpreter, call: Call) -> Value:
    """``tyro.cli(f)``: an object of a dataclass, or what a function gives."""
    subject = call.argument(0, "f") or Unknown()
    if isinstance(subject, Container):
        return Unknown()
    kind = _callable_kind(interpreter, subject, call)
    marks = _marks(interpreter, call, kind)
    if kind.name in {"any", "class"} or not marks <= {"AvoidSubcommands"}:
        return Unknown(kind="flag")
    return _tyro_parsed(interpreter, kind, call, avoids="AvoidSubcommands" in marks)


def _tyro_parsed(interpreter: Interpreter, kind: Kind, call: Call, *, avoids: bool) -> Value:
    words = words_of(interpreter, call.argument(None, "args"))
    default = call.argument(None, "default")
    rest_wanted = constant_of(call.argument(None, "return_unknown_args")) is True
    tree = _Tree(avoids=avoids)
    if kind.name == "union":
        tree.unions.append(("", kind, default))
    else:
        _tyro_fields(interpreter, tree, kind, "", default, call)
    _subcommands(interpreter, tree, list(tree.unions), call)
    given, rest, refused = given_values(interpreter, tree.spec, words, call, known_only=rest_wanted)
    if words is not None and not refused:
        _check_required(interpreter, tree.spec, given, call)
    made = _tyro_value(interpreter, kind, "", default, given, call, known=not refused and words is not None)
    return interpreter.container("tuple", [made, interpreter.container("list", rest)]) if rest_wanted else made


def _marks(interpreter: Interpreter, call: Call, kind: Kind) -> set[str]:
    """What ``config=(tyro.conf.X, ...)`` and ``tyro.conf.X[Args]`` change of a command line, by name."""
    given = call.argument(None, "config")
    items = (*interpreter.listed(given)[0], *kind.notes) if isinstance(given, Container) else kind.notes
    found = {item.name.rpartition(".")[2].strip("()") for item in items if isinstance(item, Library)}
    return found | ({"?"} if given is not None and not isinstance(given, Container) and constant_of(given, given) else set())


@models("tyro.extras.overridable_config_cli")
def tyro_configs(interpreter: Interpreter, call: Call) -> Value:
    """``overridable_config_cli({"small": ("what it is", Config(width=8)), ...})``: a name, then flags over that object."""
    configs = call.argument(0, "configs")
    defaults: dict[Any, Value] = {}
    for name, pair in interpreter.entries(configs).items() if isinstance(configs, Container) else ():
        parts = interpreter.listed(pair)[0] if isinstance(pair, Container) else []
        defaults[name] = parts[1] if len(parts) == 2 else Unknown()
    kind = _kind_of_defaults(defaults)
    if kind is None or not _marks(interpreter, call, ANY) <= {"AvoidSubcommands"}:
        return Unknown(kind="flag")
    return _tyro_parsed(interpreter, kind, call, avoids=True)


@models("tyro.extras.subcommand_type_from_defaults")
def tyro_union(interpreter: Interpreter, call: Call) -> Value:
    """The union of which each default is one sub-command."""
    given = call.argument(0, "defaults")
    is_plain = not {"prefix_names", "sort_subcommands"} & call.keywords.keys()
    kind = _kind_of_defaults(interpreter.entries(given)) if isinstance(given, Container) and is_plain else None
    return Result("tyro.(union)", call, data=kind) if kind is not None else Unknown()


def _kind_of_defaults(defaults: dict[Any, Value]) -> Kind | None:
    parts = []
    for name, default in defaults.items():
        kind = kind_of_value(default.cls) if isinstance(default, Instance) else ANY
        if kind.name != "dataclass" or not isinstance(name, str):
            return None
        parts.append(Kind("dataclass", cls=kind.cls, notes=(Result(_SUBCOMMAND, None, data=(name, default)),)))
    return Kind("union", tuple(parts)) if parts else None


def _callable_kind(interpreter: Interpreter, subject: Value, call: Call) -> Kind:
    if isinstance(subject, (Function, Partial, Bound)):
        return Kind("function", notes=(subject,))
    node = call.node.args[0] if getattr(call.node, "args", None) else None  # type: ignore[attr-defined]
    kind = kind_of_value(subject)
    if node is not None and (kind.name == "any" or (kind.name == "class" and isinstance(subject, Library))):
        owner = interpreter.frame.function
        kind = kind_of(interpreter, node, owner if owner is not None else _module_owner(interpreter))
    if kind.name == "class" and isinstance(subject, Class):
        return Kind("function", notes=(subject,))
    return kind


def _module_owner(interpreter: Interpreter) -> Function:
    import ast as trees

    empty = trees.Lambda(trees.arguments([], [], None, [], [], None, []), trees.Constant(None))
    return Function(empty, interpreter.frame.source, (None, interpreter.frame.module), {}, None, "")


def _kind_fields(interpreter: Interpreter, kind: Kind) -> list[Field]:
    if kind.name == "function":
        return parameters_of(interpreter, kind.notes[0])[0]
    return [field for field in fields_in(interpreter, kind.cls) if field.init] if kind.cls is not None else []


def _tyro_fields(  # noqa: PLR0913 - one level of a command line
    interpreter: Interpreter, tree: _Tree, kind: Kind, prefix: str, default: Value | None, call: Call, depth: int = 0
) -> None:
    for field in _kind_fields(interpreter, kind):
        path = f"{prefix}.{field.name}".lstrip(".")
        own = interpreter.peek(default, field.name) if isinstance(default, (Instance, Result)) else None
        value = own if own is not None else field.default
        inner = field.kind
        parts = [part for part in inner.parts if part.name != "none"] if inner.name == "union" else []
        if inner.name == "dataclass" and depth < _DEEPEST:
            _tyro_fields(interpreter, tree, inner, path, value if isinstance(value, Instance) else None, call, depth + 1)
        elif parts and all(part.name == "dataclass" for part in parts):
            if tree.avoids and isinstance(value, Instance):
                _tyro_fields(interpreter, tree, Kind("dataclass", cls=value.cls), path, value, call, depth + 1)
            else:
                tree.unions.append((path, inner, value))
        else:
            tree.spec.known &= not any(_is_opaque(part) for part in (inner, *inner.parts))
            tree.spec.arguments += _tyro_flags(interpreter, field, path, value, call)


def _is_opaque(kind: Kind) -> bool:
    """Whether a type is a class that was not read: what stands below it on the command line is not known."""
    return kind.name == "class" and isinstance(kind.cls, Library)


def _tyro_flags(interpreter: Interpreter, field: Field, path: str, value: Value | None, call: Call) -> list[Argument]:
    kind = field.kind if field.is_annotated else _kind_of_default(value)
    note = next((each for each in kind.notes if isinstance(each, Result) and each.name.endswith("conf.arg")), None)
    named = constant_of(note.argument(None, "name")) if note is not None else None
    head, dot, last = path.rpartition(".")
    shown = f"{head}{dot}{named}" if isinstance(named, str) else path
    names = list(dict.fromkeys([f"--{shown.replace('_', '-')}", f"--{shown}", f"--{shown.replace('-', '_')}"]))
    aliases = note.argument(None, "aliases") if note is not None else None
    names += [str(constant_of(alias)) for alias in (interpreter.listed(aliases)[0] if aliases is not None else ())]
    if any(isinstance(each, Library) and each.name == "(Positional)" for each in kind.notes):
        argument = flag_of(interpreter, call, [path], path, kind)
        argument.field = Field(field.name, kind, value, node=field.node)
        if value is not None:
            argument.call.keywords["nargs"] = Constant("?")
        return [argument]
    is_switch = kind.name == "bool" and value is not None
    if is_switch:
        on = Argument(names, Declaration(call, {"action": Constant("store_true"), "dest": Constant(path)}))
        off_names = [f"--{head}{dot}no-{last.replace('_', '-')}", f"--{head}{dot}no_{last}", f"--{head}{dot}no-{last}"]
        off_options: dict[str, Value] = {"action": Constant("store_false"), "dest": Constant(path)}
        off = Argument(list(dict.fromkeys(off_names)), Declaration(call, off_options))
        return [on, off]
    argument = flag_of(interpreter, call, names, path, kind)
    if value is None:
        argument.required = True
    return [argument]


def _kind_of_default(value: Value | None) -> Kind:
    plain = constant_of(value)
    return Kind(type(plain).__name__) if isinstance(plain, (bool, int, float, str)) else ANY


def _subcommand(prefix: str, part: Kind, default: Value | None) -> tuple[str, Value | None]:
    """The name of a part of a union on the command line, and the object whose values are its defaults."""
    note = next((each for each in part.notes if isinstance(each, Result) and each.name == _SUBCOMMAND), None)
    named: Any = None
    own: Value | None = default if isinstance(default, Instance) and default.cls is part.cls else None
    if note is not None:
        named, told = note.data or (constant_of(note.argument(0, "name")), note.argument(None, "default"))
        own = own if own is not None else told
        if constant_of(note.argument(None, "prefix_name")) is False:
            prefix = ""
    cls = part.cls if part.name == "dataclass" else None
    by_class = _CAMEL.sub("-", _name(cls)).lower().replace("_", "-") if cls is not None else "none"
    name = named if isinstance(named, str) else by_class
    return (f"{prefix.replace('_', '-')}:{name}" if prefix else name), own


def _subcommands(interpreter: Interpreter, above: _Tree, unions: list[tuple[str, Kind, Value | None]], call: Call) -> None:
    """Each union is a sub-command behind the flags; the next union comes behind that."""
    if not unions:
        return
    path, kind, default = unions[0]
    spec = above.spec
    spec.child_options = {"dest": Constant(f"(subcommand {path})"), "required": TRUE if default is None else FALSE}
    for part in kind.parts:
        tree = _Tree(avoids=above.avoids)
        name, own = _subcommand(path, part, default)
        if part.name == "dataclass":
            _tyro_fields(interpreter, tree, part, path, own, call)
        spec.children[name] = tree.spec
        _subcommands(interpreter, tree, [*tree.unions, *unions[1:]], call)


def _check_required(interpreter: Interpreter, spec: ParserSpec, given: dict[str, Value], call: Call) -> None:
    """Tyro names all missing flags at once."""
    missing = []
    level: ParserSpec | None = spec
    while level is not None:
        missing += [argument.names[0] for argument in level.arguments if argument.required and argument.dest not in given]
        command = constant_of(given.get(level.command_key))
        level = level.children.get(command) if isinstance(command, str) else None
    if missing and spec.known:
        refuse(interpreter, spec, call, f"the following arguments are required: {', '.join(missing)}", [])


def _tyro_value(  # noqa: PLR0913 - a type with everything around it
    interpreter: Interpreter,
    kind: Kind,
    prefix: str,
    default: Value | None,
    given: dict[str, Value],
    call: Call,
    *,
    known: bool,
) -> Value:
    """The object of a dataclass, or what a function gives, with what the words say."""
    if kind.name == "union":
        command = constant_of(given.get(f"(subcommand {prefix})"))
        for part in kind.parts:
            name, below = _subcommand(prefix, part, default)
            if command == name:
                return _tyro_value(interpreter, part, prefix, below, given, call, known=known) if part.cls else NONE
        if isinstance(default, Instance) and known:
            return _tyro_value(interpreter, Kind("dataclass", cls=default.cls), prefix, default, given, call, known=known)
        return default if default is not None and known else Unknown()
    values: dict[str, Value] = {}
    for field in _kind_fields(interpreter, kind):
        path = f"{prefix}.{field.name}".lstrip(".")
        own = interpreter.peek(default, field.name) if isinstance(default, (Instance, Result)) else None
        value = own if own is not None else field.default
        parts = [part for part in field.kind.parts if part.name != "none"] if field.kind.name == "union" else []
        if field.kind.name == "dataclass" or (parts and all(part.name == "dataclass" for part in parts)):
            below = value if isinstance(value, (Instance, Constant)) else None
            values[field.name] = _tyro_value(interpreter, field.kind, path, below, given, call, known=known)
        elif path in given:
            values[field.name] = _gathered(interpreter, field.kind, given[path])
        elif known and value is not None:
            spelling = f"--{path.replace('_', '-')}"
            values[field.name] = defaulted(Field(field.name, field.kind, value, node=field.node), spelling, call)
        else:
            values[field.name] = Unknown(kind="flag")
    if kind.name == "function":
        return interpreter.call(kind.notes[0], [], values, call.node)
    return build_dataclass(interpreter, kind.cls or Unknown(), values, call)


def _gathered(interpreter: Interpreter, kind: Kind, value: Value) -> Value:
    """The words of a flag as the container that its type names."""
    inner = kind.inner if kind.optional else kind
    if not isinstance(value, Container) or inner.name not in {"tuple", "set", "dict", "list"}:
        return value
    if inner.name == "dict":
        return Unknown()
    items = interpreter.items(value)
    if inner.name == "tuple" and inner.parts and "..." not in inner.choices:
        kinds: tuple[Kind, ...] = inner.parts
        if len({each.name for each in kinds}) > 1:
            return unknown_from(value)
    made = interpreter.container(inner.name, items)
    made.origins = value.origins
    return made


@models("tyro.extras.subcommand_cli_from_dict")
def cli_from_dict(interpreter: Interpreter, call: Call) -> Value:
    """A sub-command for each function of a dictionary."""
    subjects = call.argument(0, "subcommands")
    words = words_of(interpreter, call.argument(None, "args"))
    if not isinstance(subjects, Container) or not words:
        return Unknown()
    chosen = interpreter.entries(subjects).get(words[0][0])
    if chosen is None:
        refuse(interpreter, ParserSpec(), call, f"invalid choice: {words[0][0]!r}", [words[0][0]])
        return Unknown()
    rest = interpreter.container("list", [value for _, value in words[1:]])
    return interpreter.call_library("tyro.cli", [chosen], {"args": rest}, call.node)


# ---- tap


@models("tap.Tap.parse_args", "tap.Tap.parse_known_args")
def tap_parse(interpreter: Interpreter, call: Call) -> Value:
    """``Args().parse_args()``: the fields of the class are the flags."""
    instance = call.receiver
    if not isinstance(instance, Instance):
        return Unknown()
    spec = ParserSpec(instance.call)
    dashes = constant_of(instance.call.argument(None, "underscores_to_dashes")) is True if instance.call else False
    explicit = constant_of(instance.call.argument(None, "explicit_bool")) is True if instance.call else False
    interpreter.store.set(instance, "(parser)", spec)
    interpreter.call_method(instance, "configure", [], {}, call.node)
    own = {argument.spelling.lstrip("-").replace("-", "_"): argument for argument in spec.arguments}
    spec.arguments = []
    fields = fields_in(interpreter, instance.cls)
    for field in fields:
        name = field.name.replace("_", "-") if dashes else field.name
        spec.arguments.append(_tap_flag(interpreter, field, own.pop(field.name, None), f"--{name}", call, explicit=explicit))
    spec.arguments += own.values()
    words = words_of(interpreter, call.argument(0, "args"))
    known_only = constant_of(call.argument(1, "known_only")) is True
    namespace, rest = parse_words(interpreter, spec, words, call, known_only=known_only)
    for name, value in interpreter.entries(namespace).items():
        kind = next((field.kind for field in fields if field.name == name), ANY)
        interpreter.store.set(instance, name, _gathered(interpreter, kind, value))
    interpreter.store.set(instance, "extra_args", interpreter.container("list", rest))
    interpreter.call_method(instance, "process_args", [], {}, call.node)
    return instance


def _tap_flag(
    interpreter: Interpreter, field: Field, own: Argument | None, name: str, call: Call, *, explicit: bool
) -> Argument:
    options: dict[str, Value] = dict(own.call.keywords) if own is not None else {}
    names = own.names if own is not None else [name]
    options.pop("help", None)
    is_flag = names[0].startswith("-")
    if field.default is None and "default" not in options and is_flag:
        options.setdefault("required", TRUE)
    if is_flag:
        options.setdefault("dest", Constant(field.name))
    argument = Argument(names, Declaration(call, options))
    kind = field.kind
    if "type" not in options and "action" not in options:
        inner = kind.inner if kind.optional else kind
        if kind.name == "bool" and not explicit:
            options["action"] = Constant("store_false" if constant_of(field.default) else "store_true")
        elif inner.name == "literal":
            options["choices"] = interpreter.container("list", [Constant(choice) for choice in inner.choices])
            argument.convert = _converter(interpreter, inner)
        elif inner.name == "bool":
            argument.convert = _tap_bool
        else:
            flag = flag_of(interpreter, call, [name], field.name, kind.inner if kind.optional else kind)
            argument.convert = flag.convert
            if "nargs" in flag.call.keywords:
                options.setdefault("nargs", flag.call.keywords["nargs"])
    if field.default is not None or kind.name == "bool":
        argument.field = Field(field.name, kind, options.get("default") or field.default or FALSE, node=field.node)
    return argument


def _tap_bool(text: str) -> bool:
    if (text and "true".startswith(text.lower())) or text == "1":
        return True
    if (text and "false".startswith(text.lower())) or text == "0":
        return False
    raise argparse.ArgumentTypeError(f"invalid value: {text!r}")


@models("tap.Tap.add_argument")
def tap_add_argument(interpreter: Interpreter, call: Call) -> Value:
    """A flag that ``configure`` describes."""
    from crashcart.readers.interpreter.libraries.argparse_parser import add_argument

    return add_argument(interpreter, call)  # type: ignore[no-any-return]


@models("tap.Tap.as_dict")
def tap_dict(interpreter: Interpreter, call: Call) -> Value:
    """The arguments as a dictionary."""
    owner = call.receiver
    names = [field.name for field in fields_in(interpreter, owner.cls)] if isinstance(owner, Instance) else []
    return interpreter.container("dict", {name: interpreter.peek(owner, name) or Unknown() for name in names if owner})


@models("tap.tapify")
def tapify(interpreter: Interpreter, call: Call) -> Value:
    """A function or class with its parameters from the command line."""
    return interpreter.call_library("jsonargparse.CLI", call.arguments, call.keywords, call.node)


# ---- simple_parsing


@models("simple_parsing.ArgumentParser.add_arguments", "argparse.ArgumentParser.add_arguments")
def add_dataclass(interpreter: Interpreter, call: Call) -> Value:
    """``parser.add_arguments(Options, dest="options")``."""
    spec = spec_of(interpreter, call.receiver)
    dest = constant_of(call.argument(1, "dest"))
    kind = kind_of_value(call.argument(0, "dataclass") or Unknown())
    if spec is None or not isinstance(dest, str) or kind.name != "dataclass":
        if spec is not None:
            spec.known = False
        return NONE
    prefix = constant_of(call.argument(2, "prefix"), "")
    spec.dataclasses.append((dest, kind, str(prefix or ""), call.argument(3, "default")))
    return NONE


@models("simple_parsing.parse", "simple_parsing.parse_known_args")
def simple_parse(interpreter: Interpreter, call: Call) -> Value:
    """``simple_parsing.parse(Options)``."""
    kind = kind_of_value(call.argument(0, "config_class") or Unknown())
    spec = ParserSpec()
    spec.dataclasses.append(("config", kind, "", call.argument(None, "default")))
    words = words_of(interpreter, call.argument(None, "args"))
    made = read_dataclasses(interpreter, spec, words, call)
    return made.get("config", Unknown())


def read_dataclasses(
    interpreter: Interpreter, spec: ParserSpec, words: list[tuple[str, Value]] | None, call: Call
) -> dict[str, Value]:
    """The objects of the dataclasses of a simple_parsing parser, by their ``dest``."""
    leaves: list[tuple[str, str, Field, Value | None]] = []
    plain = list(spec.arguments)
    for dest, kind, prefix, default in spec.dataclasses:
        _leaves(interpreter, kind, dest, prefix, default, leaves)
    names: dict[str, int] = {}
    for _, prefix, field, _ in leaves:
        names[prefix + field.name] = names.get(prefix + field.name, 0) + 1
    for path, prefix, field, value in leaves:
        shown = prefix + field.name if names[prefix + field.name] == 1 else path.partition(".")[2] or path
        spec.arguments += _simple_flags(interpreter, field, shown, path, value, call)
    given, _, refused = given_values(interpreter, spec, words, call)
    known = not refused and words is not None
    made = {}
    for dest, kind, _, default in spec.dataclasses:
        made[dest] = _tyro_value(interpreter, kind, dest, default, given, call, known=known)
    for argument in plain:
        made[argument.dest] = given.get(argument.dest) or default_value(interpreter, spec, argument, call)
    return made


def _leaves(
    interpreter: Interpreter,
    kind: Kind,
    path: str,
    prefix: str,
    default: Value | None,
    found: list[tuple[str, str, Field, Value | None]],
) -> None:
    for field in _kind_fields(interpreter, kind):
        own = interpreter.peek(default, field.name) if isinstance(default, Instance) else None
        value = own if own is not None else field.default
        below = f"{path}.{field.name}"
        if field.kind.name == "dataclass" and below.count(".") < _DEEPEST:
            _leaves(interpreter, field.kind, below, prefix, value if isinstance(value, Instance) else None, found)
        else:
            found.append((below, prefix, field, value))


def _simple_flags(
    interpreter: Interpreter, field: Field, shown: str, path: str, value: Value | None, call: Call
) -> list[Argument]:
    names = [f"--{shown}"]
    aliases = field.declared.argument(None, "alias") if field.declared is not None else None
    listed = interpreter.listed(aliases)[0] if isinstance(aliases, Container) else [aliases]
    texts = [text for alias in listed if isinstance(text := constant_of(alias), str)]
    names += [text if text.startswith("-") else f"-{text}" if len(text) == 1 else f"--{text}" for text in texts]
    kind = field.kind
    if field.declared is not None and field.declared.name.endswith(".choice"):
        items = [constant_of(item, ANY) for item in (field.declared.call.arguments if field.declared.call else [])]
        kind = Kind("literal", choices=tuple(items)) if ANY not in items else ANY
    if kind.name == "bool":
        argument = Argument(names, Declaration(call, {"nargs": Constant("?"), "const": TRUE, "dest": Constant(path)}))
        argument.convert = _simple_bool
        off: dict[str, Value] = {"action": Constant("store_false"), "dest": Constant(path)}
        return [argument, Argument([f"--no{shown}"], Declaration(call, off))]
    argument = flag_of(interpreter, call, names, path, kind)
    if value is None:
        argument.call.keywords["required"] = TRUE
    return [argument]


def _simple_bool(text: str) -> bool:
    if text.strip().lower() in {"yes", "true", "t", "y", "1", "on"}:
        return True
    if text.strip().lower() in {"no", "false", "f", "n", "0", "off"}:
        return False
    raise argparse.ArgumentTypeError(f"Boolean value expected for argument, received {text!r}")
