"""jsonargparse and LightningCLI: functions and classes as command lines, with nested keys and config files.

    CLI(train)                                 --optim.lr 1e-3 --config run.yaml
    LightningCLI(Model, Data)                  fit --config run.yaml --trainer.max_epochs 3 --model.lr=1e-3
    model: {class_path: nets.Unet, init_args: {width: 64}}

A value is read as YAML and must fit the type of its parameter. A dictionary with ``class_path`` is an object of that class.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from crashcart.readers.interpreter.libraries import models
from crashcart.readers.interpreter.libraries.argparse_parser import (
    Argument,
    Declaration,
    ParserSpec,
    given_values,
    refuse,
    words_of,
)
from crashcart.readers.interpreter.libraries.config_files import config_value, flag_word, overlay, put
from crashcart.readers.interpreter.libraries.field_types import ANY, Field, Kind, defaulted, fields_in, parameters_of
from crashcart.readers.interpreter.libraries.hf_parser import build_dataclass
from crashcart.readers.interpreter.libraries.hydra_config import resolve_target
from crashcart.readers.interpreter.libraries.typed_parsers import UndecodableError, decode
from crashcart.readers.interpreter.store import NONE
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
)

if TYPE_CHECKING:
    from crashcart.readers.interpreter.interpreter import Interpreter
    from crashcart.readers.interpreter.trace import Call

_DEEPEST = 8
_SUBCOMMANDS = ("fit", "validate", "test", "predict")


# ---- CLI(function)


@models("jsonargparse.CLI", "jsonargparse.auto_cli")
def cli(interpreter: Interpreter, call: Call) -> Value:
    """``CLI(function)``, ``CLI(Class)``, ``CLI([one, two])``."""
    subject = call.argument(0, "components")
    words = words_of(interpreter, call.argument(1, "args"))
    if isinstance(subject, Container):
        return _choose(interpreter, subject, words, call)
    if words is None or not isinstance(subject, (Function, Class, Partial, Bound)):
        return Unknown()
    positional = constant_of(call.argument(None, "as_positional"), True) is not False
    return _run(interpreter, subject, words, call, positional=positional)


def _choose(interpreter: Interpreter, subjects: Container, words: list[tuple[str, Value]] | None, call: Call) -> Value:
    items, _ = interpreter.listed(subjects)
    content = interpreter.items(subjects)
    named = (
        {str(key): value for key, value in content.items()}
        if isinstance(content, dict)
        else {item.name: item for item in items if isinstance(item, (Function, Class))}
    )
    if not words:
        return Unknown()
    chosen = named.get(words[0][0])
    if chosen is None:
        refuse(interpreter, ParserSpec(), call, f"expected 'subcommand' to be one of {list(named)}", [words[0][0]])
        return Unknown()
    return _run(interpreter, chosen, words[1:], call, positional=True)


def _run(interpreter: Interpreter, subject: Value, words: list[tuple[str, Value]], call: Call, *, positional: bool) -> Value:
    fields, _ = parameters_of(interpreter, subject)
    method = ""
    rest: list[tuple[str, Value]] = []
    if isinstance(subject, Class):
        names = {
            name
            for each in subject.lineage()
            if isinstance(each, Class)
            for name in interpreter.store.names(each)
            if isinstance(name, str) and not name.startswith("_") and isinstance(interpreter.store.get(each, name), Function)
        }
        position = next((number for number, (text, _) in enumerate(words) if text in names), None)
        if position is not None:
            method, rest, words = words[position][0], words[position + 1 :], words[:position]
    values = _values(interpreter, fields, words, call, positional=positional)
    if values is None:
        values = {field.name: Unknown(kind="flag") for field in fields}
    made = interpreter.call(subject, [], values, call.node)
    if method and isinstance(made, Instance):
        bound = interpreter.attribute(made, method, call.node)
        return _run(interpreter, bound, rest, call, positional=positional)
    return made


def _values(
    interpreter: Interpreter, fields: list[Field], words: list[tuple[str, Value]], call: Call, *, positional: bool
) -> dict[str, Value] | None:
    """What the words and the config files below them give each parameter; None where they are refused."""
    spec = ParserSpec()
    spec.settings = {"allow_abbrev": False}
    kinds: dict[str, Kind] = {"config": Kind("str")}
    config = Argument(["--config"], Declaration(call, {"action": Constant("append"), "dest": Constant("config")}))
    config.convert = str
    spec.arguments.append(config)
    for field in fields:
        for path, kind in _paths(interpreter, field, field.name):
            is_positional = positional and field.default is None and path == field.name and kind.name != "dataclass"
            names = [path] if is_positional else [f"--{path}"]
            options: dict[str, Value] = {"nargs": Constant("?")} if is_positional else {"dest": Constant(path)}
            argument = Argument(names, Declaration(call, options))
            argument.convert = str
            kinds[path] = kind
            spec.arguments.append(argument)
    classes = {path for path, kind in kinds.items() if _takes_object(kind)}
    rest, nested = _without_nested(words, kinds, classes)
    given, _, refused = given_values(interpreter, spec, rest, call)
    if refused:
        return None
    files = given.pop("config", None)
    tree: Value = interpreter.container("dict", {})
    for file in interpreter.listed(files)[0] if isinstance(files, Container) else ():
        read = config_value(interpreter, str(constant_of(file)), numbers=True, attributes=False)
        tree = overlay(interpreter, tree, read) if isinstance(read, Container) else tree
    for path, word in given.items():
        if isinstance(tree, Container):
            read = _read(interpreter, kinds.get(path, ANY), word, path)
            put(interpreter, tree, path.split("."), _named_class(interpreter, read) if path in classes else read)
    for path, below, word in nested:
        if isinstance(tree, Container):
            put(
                interpreter,
                tree,
                [*path.split("."), "init_args", *below],
                _read(interpreter, ANY, word, ".".join([path, *below])),
            )
    try:
        return _decoded(interpreter, fields, tree, call)
    except UndecodableError as problem:
        refuse(interpreter, spec, call, str(problem), [])
        return None


def _takes_object(kind: Kind) -> bool:
    """Whether a parameter takes an object of a class, which the words name."""
    return kind.name == "class" or any(part.name == "class" for part in kind.parts if kind.name == "union")


def _without_nested(
    words: list[tuple[str, Value]], kinds: dict[str, Kind], classes: set[str]
) -> tuple[list[tuple[str, Value]], list[tuple[str, list[str], Value]]]:
    """The words without the arguments of objects (``--data.path x`` for ``data: Dataset``), and these."""
    rest: list[tuple[str, Value]] = []
    nested: list[tuple[str, list[str], Value]] = []
    waiting = list(words)
    while waiting:
        text, value = waiting.pop(0)
        name, equals, written = text.partition("=")
        parts = name.removeprefix("--").split(".")
        owner = next((".".join(parts[:count]) for count in range(1, len(parts)) if ".".join(parts[:count]) in classes), "")
        if not owner or not name.startswith("--") or ".".join(parts) in kinds:
            rest.append((text, value))
            continue
        if equals:
            given: Value = Constant(written, value.origins)
        else:
            given = waiting.pop(0)[1] if waiting else Constant("true")
        below = parts[owner.count(".") + 1 :]
        nested.append((owner, below[1:] if below[:1] == ["init_args"] else below, given))
    return rest, nested


def _named_class(interpreter: Interpreter, value: Value) -> Value:
    """``JSON`` where an object is wanted names its class."""
    plain = constant_of(value)
    if not isinstance(plain, str) or not all(part.isidentifier() for part in plain.split(".")):
        return value
    return interpreter.container("dict", {"class_path": value})


def _class_of(interpreter: Interpreter, path: Value) -> Value:
    """The class that a path names, or a name without its module."""
    plain = constant_of(path)
    if isinstance(plain, str) and "." not in plain:
        for module in list(interpreter.loaded.values()):
            found = interpreter.store.get(module, plain)
            known = interpreter.force(found) if isinstance(found, Value) else None
            if isinstance(known, Class):
                return known
    return resolve_target(interpreter, path)


def _read(interpreter: Interpreter, kind: Kind, word: Value, path: str) -> Value:
    text = constant_of(word)
    inner = kind.inner if kind.optional else kind
    if not isinstance(text, str) or (inner.name in {"str", "path", "enum"} and text != "null"):
        return word
    made = flag_word(interpreter, text, word, f"--{path}")
    return Constant(made.value, word.origins, direct=True) if isinstance(made, Constant) else made


def _paths(interpreter: Interpreter, field: Field, path: str, depth: int = 0) -> list[tuple[str, Kind]]:
    kind = field.kind if field.is_annotated else ANY
    inner = kind.inner if kind.optional else kind
    found = [(path, kind)]
    if inner.name == "dataclass" and depth < _DEEPEST and isinstance(inner.cls, (Class, Library)):
        for each in fields_in(interpreter, inner.cls):
            found += _paths(interpreter, each, f"{path}.{each.name}", depth + 1)
    return found


def _decoded(interpreter: Interpreter, fields: list[Field], tree: Value, call: Call) -> dict[str, Value]:
    content = dict(interpreter.entries(tree))
    values: dict[str, Value] = {}
    for field in fields:
        given = content.pop(field.name, None)
        if given is not None:
            values[field.name] = _typed(interpreter, field, given, call)
        elif field.default is not None:
            values[field.name] = defaulted(field, f"--{field.name}", call)
        else:
            raise UndecodableError(f'Key "{field.name}" is required but not included in config object or its value is None.')
    if content:
        raise UndecodableError(f"Key '{next(iter(content))}' is not expected")
    return values


def _typed(interpreter: Interpreter, field: Field, given: Value, call: Call) -> Value:
    kind = field.kind
    if kind.name == "dataclass" and isinstance(given, Container) and isinstance(field.default, Instance):
        below = {each.name: interpreter.peek(field.default, each.name) for each in fields_in(interpreter, field.default.cls)}
        base = interpreter.container("dict", {name: value for name, value in below.items() if value is not None})
        given = overlay(interpreter, base, given)
    if isinstance(given, Constant) and type(given.value) is int and kind.name == "float":
        return Constant(float(given.value), given.origins, direct=True)
    if isinstance(given, Constant) and kind.name == "int" and isinstance(given.value, (str, bool)):
        raise UndecodableError(f"Parser key \"{field.name}\": Expected a <class 'int'>. Got value: {given.value}")
    if _takes_object(kind):
        given = _named_class(interpreter, given)
    if isinstance(given, Container) and "class_path" in (
        interpreter.items(given) if given.kind in {"dict", "config"} else ()
    ):
        return build_class(interpreter, given, call)
    return decode(interpreter, kind, given, call, strict=True, path=field.name)


def build_class(interpreter: Interpreter, value: Value, call: Call, depth: int = 0) -> Value:
    """``{class_path, init_args}`` as an object; lists are gone through."""
    if not isinstance(value, Container) or depth > _DEEPEST:
        return value
    content = interpreter.items(value)
    if not isinstance(content, dict):
        return interpreter.container("list", [build_class(interpreter, item, call, depth + 1) for item in content])
    if "class_path" not in content:
        return value
    given = content.get("init_args")
    arguments = interpreter.items(given) if isinstance(given, Container) and given.kind in {"dict", "config"} else {}
    target = _class_of(interpreter, content["class_path"])
    fields, takes_more = parameters_of(interpreter, target)
    known = {field.name: field for field in fields}
    named: dict[str, Value] = {}
    for name, item in arguments.items():
        field = known.get(str(name))
        if field is None and not takes_more and isinstance(target, Class):
            raise UndecodableError(f"Key '{name}' is not expected by {target.name}")
        named[str(name)] = (
            _typed(interpreter, field, item, call) if field is not None else build_class(interpreter, item, call, depth + 1)
        )
    return interpreter.call(target, [], named, call.node)


def _object(interpreter: Interpreter, value: Value, call: Call) -> Value:
    """A value with the objects in it; the program ends where one cannot be made."""
    try:
        return build_class(interpreter, value, call)
    except UndecodableError as problem:
        refuse(interpreter, ParserSpec(), call, str(problem), [])
        return Unknown()


# ---- LightningCLI


@models("lightning.cli.LightningCLI()", "lightning.LightningCLI()")
def own_lightning_cli(
    interpreter: Interpreter, cls: Class, _arguments: list[Value], _keywords: dict[str, Value], call: Call
) -> Value:
    """A class of the program that inherits from LightningCLI."""
    return _build_cli(interpreter, Instance(cls, call), call)


@models("lightning.cli.LightningCLI", "lightning.LightningCLI")
def lightning_cli(interpreter: Interpreter, call: Call) -> Value:
    """Build model, data and trainer from configs and flags, and run the sub-command."""
    return _build_cli(interpreter, Result("lightning.LightningCLI", call), call)


def _build_cli(interpreter: Interpreter, owner: Value, call: Call) -> Value:
    model_class, data_class = call.argument(0, "model_class"), call.argument(1, "datamodule_class")
    runs = constant_of(call.argument(None, "run"), True) is not False
    words = words_of(interpreter, call.argument(None, "args"))
    tree, command = _tree(interpreter, owner, words, call, runs=runs)
    model = _part(interpreter, tree, "model", model_class, call, known=words is not None)
    data = _part(interpreter, tree, "data", data_class, call, known=words is not None)
    settings = interpreter.entries(tree).get("trainer")
    given = (
        dict(interpreter.items(settings)) if isinstance(settings, Container) and settings.kind in {"dict", "config"} else {}
    )
    defaults = call.argument(None, "trainer_defaults")
    below = dict(interpreter.items(defaults)) if isinstance(defaults, Container) and defaults.kind == "dict" else {}
    named = {str(name): _object(interpreter, value, call) for name, value in {**below, **given}.items()}
    trainer = interpreter.call_library("lightning.Trainer", [], named, call.node, complete=words is not None)
    for name, value in (("model", model), ("datamodule", data), ("trainer", trainer), ("config", tree)):
        interpreter.store.set(owner, name, value if value is not None else NONE)
    if runs and isinstance(model, (Instance, Result)):
        keywords = {"datamodule": data} if data is not None else {}
        name = f"lightning.Trainer.{command or 'fit'}"
        interpreter.call_library(name, [model], keywords, call.node, receiver=trainer)
    return owner


def _tree(
    interpreter: Interpreter, owner: Value, words: list[tuple[str, Value]] | None, call: Call, *, runs: bool
) -> tuple[Container, str]:
    """The config of the sub-command: defaults of the class, then files, then flags in their order."""
    tree: Value = interpreter.container("dict", {}, is_open=words is None)
    if isinstance(owner, Instance):
        parser = Result("lightning.LightningArgumentParser", call, data=tree)
        interpreter.call_method(owner, "add_arguments_to_parser", [parser], {}, call.node)
    command = ""
    waiting = list(words or ())
    while waiting:
        text, value = waiting.pop(0)
        if not text.startswith("-"):
            command = text if runs and not command and text in _SUBCOMMANDS else command
            continue
        name, equals, written = text.lstrip("-").partition("=")
        if not equals:
            if not waiting:
                break
            written, value = waiting.pop(0)
        if name in {"config", "c"}:
            read = config_value(interpreter, written, numbers=True, attributes=False)
            if isinstance(read, Container) and read.kind == "dict":
                inner = interpreter.items(read).get(command) if command else None
                tree = overlay(interpreter, tree, inner if isinstance(inner, Container) else read)
            else:
                interpreter.libraries.open_up(interpreter, tree)
            continue
        parts = name.split(".")
        if len(parts) == 2 and parts[1] and parts[0] in {"optimizer", "lr_scheduler"}:
            parts = [parts[0], "init_args", parts[1]]
        if len(parts) == 1 and parts[0] in {"model", "data", "optimizer", "lr_scheduler"}:
            parts = [parts[0], "class_path"]
        word = flag_word(interpreter, written, Constant(written, value.origins), f"--{name}")
        put(interpreter, tree, parts, word)  # type: ignore[arg-type]
    for source, target in interpreter.store.get(owner, "(links)") or ():
        found: Value | None = tree
        for part in source.split("."):
            found = (
                interpreter.items(found).get(part)
                if isinstance(found, Container) and found.kind in {"dict", "config"}
                else None
            )
        if found is not None:
            put(interpreter, tree, target.split("."), found)  # type: ignore[arg-type]
    return tree if isinstance(tree, Container) else interpreter.container("dict", {}, is_open=True), command


def _part(
    interpreter: Interpreter, tree: Container, name: str, cls: Value | None, call: Call, *, known: bool
) -> Value | None:
    given = interpreter.entries(tree).get(name)
    content = dict(interpreter.items(given)) if isinstance(given, Container) and given.kind in {"dict", "config"} else {}
    if "class_path" in content:
        inner = content.get("init_args")
        values = dict(interpreter.items(inner)) if isinstance(inner, Container) and inner.kind in {"dict", "config"} else {}
        values.update(
            {key: value for key, value in content.items() if key not in {"class_path", "init_args", "dict_kwargs"}}
        )
        target: Value = _class_of(interpreter, content["class_path"])
    elif isinstance(cls, (Class, Function, Library)):
        target, values = cls, content
    else:
        return None
    fields = {field.name: field for field in parameters_of(interpreter, target)[0]}
    named: dict[str, Value] = {}
    for key, value in values.items():
        field = fields.get(str(key))
        try:
            named[str(key)] = (
                _typed(interpreter, field, value, call) if field is not None else _object(interpreter, value, call)
            )
        except UndecodableError as problem:
            refuse(interpreter, ParserSpec(), call, str(problem), [])
            named[str(key)] = Unknown()
    complete = known and not interpreter.store.get(tree, "open")
    return (
        build_dataclass(interpreter, target, named, call, complete=complete)
        if not isinstance(target, Function)
        else interpreter.call(target, [], named, call.node)
    )


@models("lightning.LightningArgumentParser.set_defaults")
def set_defaults(interpreter: Interpreter, call: Call) -> Value:
    """``parser.set_defaults({"trainer.max_epochs": 3})``."""
    tree = call.receiver.data if isinstance(call.receiver, Result) else None
    given = call.argument(0)
    pairs = dict(interpreter.entries(given))
    for name, value in {**pairs, **call.keywords}.items():
        if isinstance(tree, Container):
            put(interpreter, tree, str(name).split("."), value)
    return NONE


@models(
    "lightning.LightningArgumentParser.add_argument",
    "lightning.LightningArgumentParser.add_class_arguments",
    "lightning.LightningArgumentParser.add_optimizer_args",
    "lightning.LightningArgumentParser.add_lr_scheduler_args",
    "lightning.LightningArgumentParser.link_arguments",
    "lightning.LightningArgumentParser.add_lightning_class_args",
)
def extend_parser(_interpreter: Interpreter, _call: Call) -> Value:
    """More that the command line takes."""
    return NONE
