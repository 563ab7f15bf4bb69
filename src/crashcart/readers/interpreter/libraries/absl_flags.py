"""absl's flags and ml_collections' config flags.

    flags.DEFINE_float("lr", 1e-3, "learning rate")          --lr=0.1, --lr 0.1, --noamp
    config_flags.DEFINE_config_file("config")                --config=configs/base.py:arg --config.optim.lr=0.1

Flags are read when ``app.run`` is called; a config file is a Python file whose ``get_config`` is followed in thought.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from crashcart.readers.interpreter.libraries import attributes, models
from crashcart.readers.interpreter.libraries.argparse_parser import ParserSpec, default_fact, flag_fact, refuse, words_of
from crashcart.readers.interpreter.libraries.config_files import find_config
from crashcart.readers.interpreter.libraries.field_types import ANY
from crashcart.readers.interpreter.store import NONE
from crashcart.readers.interpreter.values import (
    Bound,
    Constant,
    Container,
    Library,
    Module,
    Result,
    Unknown,
    Value,
    constant_of,
    hashable,
)

if TYPE_CHECKING:
    from crashcart.readers.interpreter.interpreter import Interpreter
    from crashcart.readers.interpreter.trace import Call

_KINDS = (
    "integer",
    "float",
    "string",
    "bool",
    "boolean",
    "enum",
    "list",
    "multi_integer",
    "multi_float",
    "multi_string",
    "multi_enum",
    "spaceseplist",
    "enum_class",
)
_NUMBERS: dict[str, Any] = {"integer": int, "float": float}
_OWN = {"help", "helpfull", "helpshort", "flagfile", "undefok", "v", "verbosity", "logtostderr", "alsologtostderr", "log_dir", "stderrthreshold",
        "only_check_args", "run_with_pdb", "pdb", "pdb_post_mortem", "showprefixforinfo", "logger_levels", "profile_file", "run_with_profiling"}  # fmt: skip


class RefusedFlagError(Exception):
    """What absl would print before it ends the program."""


def _flags(interpreter: Interpreter) -> dict[str, Call]:
    found: dict[str, Call] | None = interpreter.store.get("absl", "(flags)")
    return found or {}


@models(*(f"absl.flags.DEFINE_{kind}" for kind in _KINDS))
def define(interpreter: Interpreter, call: Call) -> Value:
    """``flags.DEFINE_float("lr", 1e-3, "...")``."""
    name = constant_of(call.argument(0, "name"))
    if isinstance(name, str):
        interpreter.store.set("absl", "(flags)", {**_flags(interpreter), name: call})
        interpreter.store.set("absl", ("value", name), _default(interpreter, call, name))
    return Result("absl.flags.FlagHolder", call, data=name)


@models("ml_collections.config_flags.DEFINE_config_file", "ml_collections.config_flags.DEFINE_config_dict")
def define_config(interpreter: Interpreter, call: Call) -> Value:
    """A flag that names a Python file with ``get_config``."""
    name = constant_of(call.argument(0, "name"))
    if isinstance(name, str):
        interpreter.store.set("absl", "(flags)", {**_flags(interpreter), name: call})
        interpreter.store.set("absl", ("value", name), Unknown())
    return Result("absl.flags.FlagHolder", call, data=name)


def _default(interpreter: Interpreter, call: Call, name: str) -> Value:
    value = call.argument(1, "default") or NONE
    kind = call.method.removeprefix("DEFINE_")
    plain = constant_of(value)
    if isinstance(plain, str) and kind in {"list", "spaceseplist"}:
        return interpreter.container(
            "list", [Constant(part.strip()) for part in (plain.split(",") if kind == "list" else plain.split())]
        )
    if (isinstance(plain, str) and kind in _NUMBERS) or (kind == "float" and isinstance(plain, int)):
        try:
            value = Constant(_NUMBERS[kind](plain), value.origins)
        except ValueError:
            return Unknown()
    if isinstance(value, Constant):
        fact = default_fact(name, f"--{name}", value, call)
        return Constant(value.value, (*value.origins, fact), direct=True, source=value.source, node=value.node)
    return value


@models("absl.flags.mark_flag_as_required", "absl.flags.mark_flags_as_required")
def require(interpreter: Interpreter, call: Call) -> Value:
    """Flags that must be given."""
    given = call.argument(0)
    names = (
        [constant_of(item) for item in interpreter.listed(given)[0]]
        if isinstance(given, Container)
        else [constant_of(given)]
    )
    known: tuple[str, ...] = interpreter.store.get("absl", "(required)") or ()
    interpreter.store.set("absl", "(required)", (*known, *(name for name in names if isinstance(name, str))))
    return NONE


@attributes("absl.flags.FlagHolder.value")
def holder_value(interpreter: Interpreter, owner: Value) -> Value:
    """``_LR.value``."""
    name = owner.data if isinstance(owner, Result) else None
    found = interpreter.store.get("absl", ("value", name))
    return found if isinstance(found, Value) else Unknown()


@attributes("absl.flags.FLAGS")
def all_flags(_interpreter: Interpreter, _owner: Value) -> Value:
    """``flags.FLAGS``."""
    return Result("absl.flags.FlagValues")


@models("absl.flags.FlagValues[]")
def flag_item(_interpreter: Interpreter, _owner: Value, key: Value, _node: object) -> Value:
    """``FLAGS["lr"]``: the flag, whose ``value`` is asked for."""
    return Result("absl.flags.FlagHolder", None, data=constant_of(hashable(key)))


def flag_attribute(interpreter: Interpreter, name: str) -> Value:
    """``FLAGS.lr``."""
    found = interpreter.store.get("absl", ("value", name))
    return (
        found
        if isinstance(found, Value)
        else Bound(Library(f"absl.flags.FlagValues.{name}"), Result("absl.flags.FlagValues"))
    )


@models("absl.app.run")
def run(interpreter: Interpreter, call: Call) -> Value:
    """Read the flags, then call ``main`` with the words that are left."""
    main = call.argument(0, "main") or Unknown()
    words = words_of(interpreter, call.argument(1, "argv"))
    rest = parse(interpreter, words, call)
    argv = interpreter.container("list", [Constant(interpreter.modules.entry), *rest], is_open=words is None)
    return interpreter.call(main, [argv], {}, call.node)


@models("absl.flags.FlagValues.__call__")
def parse_flags(interpreter: Interpreter, call: Call) -> Value:
    """``FLAGS(sys.argv)``."""
    given = call.argument(0)
    items, complete = interpreter.listed(given) if given is not None else ([], False)
    words = [(str(constant_of(item, "\0")), item) for item in items[1:]]
    rest = parse(interpreter, words if complete else None, call)
    return interpreter.container("list", [*items[:1], *rest])


def parse(interpreter: Interpreter, words: list[tuple[str, Value]] | None, call: Call) -> list[Value]:
    """Give every flag its value; the words that are no flags."""
    flags = _flags(interpreter)
    if words is None:
        for name in flags:
            interpreter.store.set("absl", ("value", name), Unknown(kind="flag"))
        return []
    try:
        given, rest = _split(flags, words)
        configs = {name: made for name, made in flags.items() if "config_flags" in made.name}
        for name, made in configs.items():
            _read_config(interpreter, name, made, given, call)
        for name, texts in given.items():
            if name in flags and name not in configs:
                interpreter.store.set("absl", ("value", name), _value(interpreter, flags[name], name, texts))
        _check_required(interpreter, call)
    except RefusedFlagError as problem:
        refuse(interpreter, ParserSpec(), call, f"FATAL Flags parsing error: {problem}", [])
        return []
    return rest


def _check_required(interpreter: Interpreter, call: Call) -> None:
    for name in interpreter.store.get("absl", "(required)") or ():
        if constant_of(interpreter.store.get("absl", ("value", name)), call) is None:
            raise RefusedFlagError(f"flag --{name}=None: Flag --{name} must have a value other than None.")


def _split(flags: dict[str, Call], words: list[tuple[str, Value]]) -> tuple[dict[str, list[str]], list[Value]]:
    found: dict[str, list[str]] = {}
    rest: list[Value] = []
    waiting = list(words)
    while waiting:
        text, value = waiting.pop(0)
        if text == "--":
            rest += [word for _, word in waiting]
            break
        if not text.startswith("-") or text == "-":
            rest.append(value)
            continue
        name, equals, written = text.lstrip("-").partition("=")
        base = name.partition(".")[0] if name.partition(".")[0] in flags and "." in name else name
        kind = flags[base].method.removeprefix("DEFINE_") if base in flags else ""
        if base not in flags:
            if name.startswith("no") and name[2:] in flags and flags[name[2:]].method.startswith("DEFINE_bool"):
                found.setdefault(name[2:], []).append("false")
                continue
            if name in _OWN:
                if not equals and waiting and not waiting[0][0].startswith("-"):
                    waiting.pop(0)
                continue
            raise RefusedFlagError(f"Unknown command line flag '{name}'")
        if kind in {"bool", "boolean"}:
            found.setdefault(name, []).append(written if equals else "true")
        elif equals:
            found.setdefault(name, []).append(written)
        elif waiting:
            found.setdefault(name, []).append(waiting.pop(0)[0])
        else:
            raise RefusedFlagError(f"Missing value for flag {text}")
    return found, rest


def _value(interpreter: Interpreter, made: Call, name: str, texts: list[str]) -> Value:
    kind = made.method.removeprefix("DEFINE_")
    fact = flag_fact(interpreter, [f"--{name}", f"-{name}"], name, texts[-1])
    origins = (fact,) if fact is not None else ()

    def one(text: str) -> Value:
        return _one(interpreter, made, kind.removeprefix("multi_"), name, text, origins)

    if kind.startswith("multi_"):
        return interpreter.container("list", [one(text) for text in texts])
    if kind in {"list", "spaceseplist"}:
        parts = [part.strip() for part in texts[-1].split(",")] if kind == "list" else texts[-1].split()
        return interpreter.container(
            "list", [Constant(part, origins) for part in parts if part or (kind == "list" and texts[-1])]
        )
    return one(texts[-1])


def _one(interpreter: Interpreter, made: Call, kind: str, name: str, text: str, origins: tuple[Any, ...]) -> Value:
    if "\0" in text:
        return Unknown(origins=origins)
    if kind in {"bool", "boolean"}:
        if text.lower() not in {"true", "t", "1", "false", "f", "0"}:
            raise RefusedFlagError(f"flag --{name}={text}: ('Non-boolean argument to boolean flag', {text!r})")
        return Constant(text.lower() in {"true", "t", "1"}, origins, direct=True)
    if kind in _NUMBERS:
        try:
            number = _NUMBERS[kind](text)
        except ValueError as problem:
            raise RefusedFlagError(f"flag --{name}={text}: {problem}") from None
        low, high = constant_of(made.argument(None, "lower_bound")), constant_of(made.argument(None, "upper_bound"))
        if (isinstance(low, (int, float)) and number < low) or (isinstance(high, (int, float)) and number > high):
            raise RefusedFlagError(f"flag --{name}={text}: {text} is out of its bounds")
        return Constant(number, origins, direct=True)
    if kind == "enum":
        given = made.argument(2, "enum_values")
        items, complete = interpreter.listed(given) if given is not None else ([], False)
        choices = [constant_of(item, ANY) for item in items]
        if complete and ANY not in choices and text not in choices:
            raise RefusedFlagError(f"flag --{name}={text}: value should be one of <{'|'.join(map(str, choices))}>")
    return Constant(text, origins, direct=True) if kind != "enum_class" else Unknown(origins=origins)


# ---- ml_collections


def _read_config(interpreter: Interpreter, name: str, made: Call, given: dict[str, list[str]], call: Call) -> None:
    default = constant_of(made.argument(1, "default"))
    order = list(given)
    early = [key for key in order[: order.index(name)] if key.startswith(f"{name}.")] if name in given else []
    if early:
        raise RefusedFlagError(f"Found --{early[0]}={given[early[0]][-1]} in argv before a value for --{name} was specified")
    text = given[name][-1] if name in given else default
    config: Value = Unknown()
    if made.method == "DEFINE_config_dict":
        config = made.argument(1, "config") or Unknown()
    elif isinstance(text, str):
        config = _load(interpreter, text, call)
    interpreter.store.set("absl", ("value", name), config)
    for key, texts in given.items():
        if key.startswith(f"{name}.") and isinstance(config, Container):
            _override(interpreter, config, key, texts[-1])


def _load(interpreter: Interpreter, text: str, call: Call) -> Value:
    path, colon, argument = text.partition(":")
    found = find_config(interpreter, path)
    if found is None or not path.endswith(".py"):
        return Unknown()
    module = interpreter.import_file(os.path.normpath(found), os.path.basename(path).removesuffix(".py"))
    function = interpreter.store.get(module, "get_config") if isinstance(module, Module) else None
    if not isinstance(function, Value):
        return Unknown()
    return interpreter.call(function, [Constant(argument)] if colon else [], {}, call.node)


def _override(interpreter: Interpreter, config: Container, key: str, text: str) -> None:
    owner: Value | None = config
    parts = key.split(".")[1:]
    for part in parts[:-1]:
        owner = interpreter.items(owner).get(part) if isinstance(owner, Container) and owner.kind == "config" else None
    if not isinstance(owner, Container) or owner.kind != "config":
        return
    before = interpreter.items(owner).get(parts[-1])
    if before is None:
        if interpreter.store.get(owner, "open"):
            return
        raise RefusedFlagError(f"Unknown command line flag '{key}'")
    fact = flag_fact(interpreter, [f"--{key}"], parts[-1], text)
    origins = (fact,) if fact is not None else ()
    plain = constant_of(before)
    value: Value = Unknown(origins=origins)
    if isinstance(plain, bool):
        value = Constant(text.lower() in {"true", "1", "t"}, origins, direct=True)
    elif isinstance(plain, (int, float)):
        try:
            value = Constant(_NUMBERS["integer" if isinstance(plain, int) else "float"](text), origins, direct=True)
        except ValueError:
            raise RefusedFlagError(f"flag --{key}={text}: invalid literal") from None
    elif isinstance(plain, str):
        value = Constant(text, origins, direct=True)
    interpreter.set_item(owner, Constant(parts[-1]), value, None)


@models("ml_collections.ConfigDict.lock", "ml_collections.ConfigDict.unlock", "dict.lock", "dict.unlock")
def lock(_interpreter: Interpreter, call: Call) -> Value:
    """Nothing that the program decides by."""
    return call.receiver if call.receiver is not None else NONE
