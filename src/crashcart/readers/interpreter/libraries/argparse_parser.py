"""argparse, asked itself: the parser is rebuilt from the values with which the program builds it, and reads the words of the launch.

Types of the program's own (``str2bool``) are followed in thought, with the word as their argument. Words that are not known stand for
any text. Where the parser refuses the words, its message is a failure of the program at the call of ``parse_args``.
"""

from __future__ import annotations

import argparse
import os
import re
from typing import TYPE_CHECKING, Any, NoReturn

from crashcart.errors import CommandError
from crashcart.model import Evidence, Fact
from crashcart.names import canonical, is_secret
from crashcart.numbers import to_float, to_int
from crashcart.readers.interpreter.libraries import attributes, models
from crashcart.readers.interpreter.libraries.builtin_functions import converted
from crashcart.readers.interpreter.libraries.field_types import defaulted
from crashcart.readers.interpreter.libraries.standard import from_plain
from crashcart.readers.interpreter.store import FALSE, NONE, TRUE
from crashcart.readers.interpreter.trace import Failure
from crashcart.readers.interpreter.values import (
    Bound,
    Class,
    Constant,
    Container,
    Function,
    Instance,
    Library,
    Partial,
    PerRank,
    Result,
    Unknown,
    Value,
    constant_of,
    unknown_from,
)
from crashcart.readers.job.shell import text_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from crashcart.readers.interpreter.interpreter import Interpreter
    from crashcart.readers.interpreter.libraries.field_types import Field, Kind
    from crashcart.readers.interpreter.trace import Call

__all__ = [
    "ACTIONS",
    "Argument",
    "Declaration",
    "ParserSpec",
    "default_fact",
    "default_value",
    "flag_fact",
    "given_values",
    "parse_words",
    "refuse",
    "words_of",
]

_UNKNOWN_WORD = "\0"
_OF_REGISTRIES = (
    "invalid choice",
    "Could not find",
    "Could not override",
)  # what is refused because no module that was followed registers it
_GIVING_RANKS = {"torch.distributed.launch", "deepspeed"}
_LOCAL_RANK = {"--local-rank", "--local_rank"}
_TYPES: dict[str, Any] = {"int": int, "float": float, "str": str, "bool": bool, "pathlib.Path": str, "ascii": ascii}
_LONGEST = 400
_MOST_ARGUMENTS, _MOST_WORDS = 5000, 10_000
_SHORTEST = 3  # "--x"
_LONGEST_WORD = 4000
_PLAIN_OPTIONS = ("nargs", "required", "dest", "const", "metavar")
_SWITCHES = {"store_true": (TRUE, FALSE), "store_false": (FALSE, TRUE)}


class _Sentinel:
    """A value of a word that is not known: converted and chosen as anything."""

    def __repr__(self) -> str:
        return "?"


_ANYTHING = _Sentinel()


class RefusedError(Exception):
    """What argparse would print before it ends the program with exit code 2."""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise RefusedError(message)

    def exit(self, status: int = 0, message: str | None = None) -> NoReturn:
        raise RefusedError(message or "")

    def _print_message(self, message: str, file: object = None) -> None:
        """Help and version are not ours to print."""


class _Choices(list[Any]):
    def __contains__(self, value: object) -> bool:
        return value is _ANYTHING or super().__contains__(value)


class _Noted(argparse.Action):
    """Keeps what an action of the program would be called with; it is called once the namespace is there."""

    def __call__(
        self, _parser: object, namespace: argparse.Namespace, values: object, option_string: str | None = None
    ) -> None:
        calls = getattr(namespace, self.dest, None)
        setattr(namespace, self.dest, _Calls([*(calls if isinstance(calls, _Calls) else ()), (values, option_string)]))


class _Calls(list[Any]):
    """The calls of an action of the program."""


class Declaration:
    """What stands where a call of ``add_argument`` would, for a flag that a library makes of a field or a parameter."""

    def __init__(self, call: Call, keywords: dict[str, Value]) -> None:
        self.node, self.source, self.evidence, self.keywords = call.node, call.source, call.evidence, keywords


class Argument:
    """One ``add_argument``; ``convert`` makes a value of a word where a library does that in its own way, ``field`` is what it fills."""

    def __init__(self, names: list[str], call: Call | Declaration, *, certain: bool = True) -> None:
        self.names, self.call, self.certain = names, call, certain
        self.dest = ""
        self.required = False  # by a library that checks it itself
        self.exclusive: Value | None = None  # the group of which one argument may be given
        self.convert: Callable[[str], Any] | None = None
        self.field: Field | None = None

    def option(self, name: str) -> Value | None:
        """An option of ``add_argument``."""
        return self.call.keywords.get(name)

    @property
    def spelling(self) -> str:
        """The longest way to write it."""
        return max(self.names, key=len)


class ParserSpec:
    """A parser as the program builds it; ``known`` says that nothing of it escaped."""

    def __init__(self, call: Call | None = None) -> None:
        self.call = call
        self.arguments: list[Argument] = []
        self.defaults: dict[str, Value] = {}
        self.children: dict[str, ParserSpec] = {}
        self.child_options: dict[str, Value] = {}
        self.command_key = ""
        self.dataclasses: list[tuple[str, Kind, str, Value | None]] = []  # of simple_parsing: dest, type, prefix, default
        self.reads_files = False  # configargparse
        self.settings: dict[str, Any] = {}  # of the parser, where a library makes it
        self.known = call is None or call.complete

    def every(self) -> Iterator[Argument]:
        """Its arguments and those of its sub-commands."""
        yield from self.arguments
        for child in self.children.values():
            yield from child.every()

    def chosen(self, given: dict[str, Any]) -> list[ParserSpec]:
        """This parser and those of the sub-commands that the words name; all of them where nothing was parsed."""
        if not self.children:
            return [self]
        command = given.get(self.command_key)
        if not given and not self.command_key:
            return [self, *(inner for child in self.children.values() for inner in child.chosen(given))]
        return [self, *(self.children[command].chosen(given) if command in self.children else ())]


def spec_of(interpreter: Interpreter, parser: Value | None) -> ParserSpec | None:
    """The parser that a value stands for."""
    if isinstance(parser, Result) and isinstance(parser.data, ParserSpec):
        return parser.data
    if isinstance(parser, Instance):
        found: ParserSpec | None = interpreter.store.get(parser, "(parser)")
        if found is None and parser.cls.is_a("ArgumentParser"):
            found = ParserSpec(parser.call)
            interpreter.store.set(parser, "(parser)", found)
        return found
    return None


@models(
    "argparse.ArgumentParser",
    "jsonargparse.ArgumentParser",
    "simple_parsing.ArgumentParser",
    "configargparse.ArgumentParser",
    "configargparse.ArgParser",
)
def make_parser(interpreter: Interpreter, call: Call) -> Value:
    """A parser, with the arguments of its parents."""
    spec = ParserSpec(call)
    parents = call.argument(None, "parents")
    for parent in interpreter.listed(parents)[0] if parents is not None else ():
        inherited = spec_of(interpreter, parent)
        if inherited is None:
            spec.known = False
        else:
            room = _MOST_ARGUMENTS - len(spec.arguments)
            spec.arguments += inherited.arguments[:room]
            spec.known &= inherited.known and len(inherited.arguments) <= room
    spec.reads_files = call.name.startswith("configargparse")
    return Result("argparse.ArgumentParser", call, data=spec)


@models("argparse.ArgumentParser.add_argument_group", "argument_group.add_argument_group")
def add_group(interpreter: Interpreter, call: Call) -> Value:
    """A group is the same parser under another heading."""
    return Result("argument_group", call, data=spec_of(interpreter, call.receiver) or ParserSpec())


@models("argparse.ArgumentParser.add_mutually_exclusive_group", "argument_group.add_mutually_exclusive_group")
def add_exclusive(interpreter: Interpreter, call: Call) -> Value:
    """A group of which one may be given."""
    return Result("exclusive_group", call, data=spec_of(interpreter, call.receiver) or ParserSpec())


@models("argparse.ArgumentParser.add_argument", "argument_group.add_argument", "exclusive_group.add_argument")
def add_argument(interpreter: Interpreter, call: Call) -> Value:
    """One more argument."""
    spec = spec_of(interpreter, call.receiver)
    if spec is None:
        return Unknown()
    names = [constant_of(value) for value in call.arguments]
    if not names or not all(isinstance(name, str) for name in names) or not call.complete:
        spec.known = False
        return Unknown()
    if not interpreter.quiet:
        argument = Argument([str(name) for name in names], call, certain=call.region.is_certain())
        is_exclusive = isinstance(call.receiver, Result) and call.receiver.name == "exclusive_group"
        argument.exclusive = call.receiver if is_exclusive else None
        spec.arguments.append(argument)
    return Unknown()


@models("deepspeed.add_config_arguments")
def add_deepspeed_arguments(interpreter: Interpreter, call: Call) -> Value | None:
    """DeepSpeed's own flags."""
    parser = call.argument(0, "parser")
    spec = spec_of(interpreter, parser) if parser is not None else None
    if spec is None or interpreter.quiet:
        return parser
    switch = {"action": Constant("store_true"), "default": Constant(False)}
    for name, options in (
        ("--deepspeed", switch),
        ("--deepspeed_config", {"type": Library("str")}),
        ("--deepscale", switch),
        ("--deepscale_config", {"type": Library("str")}),
    ):
        spec.arguments.append(Argument([name], Declaration(call, dict(options))))
    return parser


@models("argparse.ArgumentParser.set_defaults")
def set_defaults(interpreter: Interpreter, call: Call) -> Value:
    """Defaults from elsewhere, a config mostly."""
    spec = spec_of(interpreter, call.receiver)
    if spec is not None:
        spec.defaults.update(call.keywords)
        spec.known &= call.complete
    return NONE


@models("argparse.ArgumentParser._add_action", "argparse.ArgumentParser._add_container_actions")
def add_made_action(interpreter: Interpreter, call: Call) -> Value:
    """Options of another parser, by a way of argparse's own: which they are is not known here."""
    spec = spec_of(interpreter, call.receiver)
    if spec is not None:
        spec.known = False
    return NONE


@models("argparse.ArgumentParser.add_subparsers")
def add_children(interpreter: Interpreter, call: Call) -> Value:
    """Sub-commands."""
    spec = spec_of(interpreter, call.receiver)
    if spec is not None:
        spec.child_options = dict(call.keywords)
    return Result("argparse.subparsers", call, data=spec)


@models("argparse.subparsers.add_parser")
def add_child(interpreter: Interpreter, call: Call) -> Value:
    """One sub-command."""
    made: Value = make_parser(interpreter, call)
    owner = call.receiver.data if isinstance(call.receiver, Result) else None
    name = constant_of(call.argument(0))
    if isinstance(owner, ParserSpec) and isinstance(made, Result):
        if isinstance(name, str):
            owner.children[name] = made.data
        else:
            owner.known = False
    return made


@models("argparse.ArgumentParser.print_help", "argparse.ArgumentParser.print_usage", "argparse.ArgumentParser.format_help")
def show_help(_interpreter: Interpreter, _call: Call) -> Value:
    """Nothing comes of it."""
    return NONE


@models(
    "argparse.ArgumentParser.parse_args",
    "argparse.ArgumentParser.parse_known_args",
    "argparse.ArgumentParser.parse_intermixed_args",
)
def parse_args(interpreter: Interpreter, call: Call) -> Value:
    """What the program gets for the words of the launch."""
    spec = spec_of(interpreter, call.receiver) or ParserSpec()
    words = words_of(interpreter, call.argument(0, "args"))
    known_only = call.method == "parse_known_args"
    if spec.dataclasses:
        from crashcart.readers.interpreter.libraries.typed_parsers import read_dataclasses

        own = ParserSpec(spec.call)
        own.arguments, own.dataclasses = list(spec.arguments), spec.dataclasses
        namespace = interpreter.container("namespace", read_dataclasses(interpreter, own, words, call), call.node)
        return interpreter.container("tuple", [namespace, Unknown()]) if known_only else namespace
    namespace, rest = parse_words(interpreter, spec, words, call, known_only=known_only)
    if known_only:
        return interpreter.container("tuple", [namespace, interpreter.container("list", rest, is_open=words is None)])
    return namespace


def words_of(interpreter: Interpreter, given: Value | None) -> list[tuple[str, Value]] | None:
    """The words that a parser reads, each with its value; None where nobody said how the program is called."""
    if given is None or (isinstance(given, Constant) and given.value is None):
        given = interpreter.attribute(Library("sys"), "argv", interpreter.frame.source.tree)
        items, _ = interpreter.listed(given)
        if interpreter.launch.arguments is None and len(items) <= 1:
            return None
        items = items[1:]
    else:
        items, complete = interpreter.listed(given)
        if not complete:
            return None
    return [(str(item.value) if isinstance(item, Constant) else f"{_head_of(item)}{_UNKNOWN_WORD}", item) for item in items]


def _head_of(word: Value) -> str:
    """``--data=`` of a word of which only that is known."""
    first = word.data[0] if isinstance(word, Result) and word.name == "text" and isinstance(word.data, list) else None
    return str(constant_of(first, ""))


def _of_launcher(interpreter: Interpreter, spec: ParserSpec, words: list[tuple[str, Value]]) -> list[tuple[str, Value]]:
    """``--local-rank 0``, which some launchers give every process, where the parser takes it."""
    if interpreter.launch.kind not in _GIVING_RANKS or spec.call is None:
        return []
    known = next((name for argument in spec.every() for name in argument.names if name in _LOCAL_RANK), None)
    if known is None or any(text.partition("=")[0] in _LOCAL_RANK for text, _ in words):
        return []
    rank = "0" if interpreter.launch.ranks == 1 else _UNKNOWN_WORD
    return [(known, Constant(known)), (rank, Constant(rank) if rank == "0" else Unknown(frozenset({"rank"})))]


def _with_files(interpreter: Interpreter, spec: ParserSpec, words: list[tuple[str, Value]]) -> list[tuple[str, Value]]:
    """``@flags.txt`` stands for the words in the file, one a line."""
    prefix = constant_of(spec.call.argument(None, "fromfile_prefix_chars")) if spec.call is not None else None
    if not isinstance(prefix, str):
        return words
    found: list[tuple[str, Value]] = []
    for text, value in words:
        if text[:1] and text[:1] in prefix:
            path = find_file(interpreter, text[1:])
            try:
                lines = text_of(path).splitlines() if path is not None else None
            except CommandError:
                lines = None
            if lines is None:
                raise RefusedError(f"[Errno 2] No such file or directory: {text[1:]!r}")
            found += [(line, Constant(line)) for line in lines[:_LONGEST_WORD]]
        else:
            found.append((text, value))
    return found


def _words_of_config(interpreter: Interpreter, spec: ParserSpec, words: list[tuple[str, Value]]) -> list[tuple[str, Value]]:
    """The lines ``key = value`` of configargparse's config files as flags before those of the launch."""
    defaults = spec.call.argument(None, "default_config_files") if spec.call is not None else None
    paths = [
        path
        for item in (interpreter.listed(defaults)[0] if defaults is not None else ())
        if isinstance(path := constant_of(item), str) and find_file(interpreter, path) is not None
    ]
    texts = [text for text, _ in words]
    for argument in spec.arguments:
        if (
            constant_of(argument.option("is_config_file")) is True
            or constant_of(argument.option("is_config_file_arg")) is True
        ):
            for number, text in enumerate(texts):
                name, equals, written = text.partition("=")
                if name in argument.names:
                    paths += [written] if equals else texts[number + 1 : number + 2]
    given = {text.partition("=")[0] for text in texts if text.startswith("-")}
    found: list[tuple[str, Value]] = []
    for path in paths:
        place = find_file(interpreter, path)
        if place is None:
            raise RefusedError(f"Unable to open config file: {path}. Error: No such file or directory")
        try:
            lines = text_of(place).splitlines()
        except CommandError:
            spec.known = False
            continue
        for number, raw in enumerate(lines[:_LONGEST_WORD], 1):
            found += _words_of_line(spec, raw, f"{place}:{number}", given)
    return found


def _words_of_line(spec: ParserSpec, raw: str, where: str, given: set[str]) -> list[tuple[str, Value]]:
    line = raw.strip()
    if not line or line[0] in "#;[" or line.startswith("---"):
        return []
    signs = [position for sign in ("=", ":") if (position := line.find(sign)) > 0]
    key, value = (
        (line[: min(signs)].strip(), line[min(signs) + 1 :].strip())
        if signs
        else (line.partition(" ")[0], line.partition(" ")[2].strip())
    )
    flag = f"--{key.lstrip('-')}"
    argument = next((each for each in spec.arguments if flag in each.names or key in each.names), None)
    if given & set(argument.names if argument is not None else [flag]):
        return []
    fact = Fact(
        canonical(key) or f"config.{key}",
        None if is_secret(key) else value,
        Evidence("config", line[:200], where),
        "file",
        key,
    )
    origins = (fact,)
    action = constant_of(argument.option("action")) if argument is not None else None
    if action in {"store_true", "store_false"} or not value:
        return [(flag, Constant(flag, origins))] if value.lower() in {"", "true", "yes", "on", "1"} else []
    if value.startswith("[") and value.endswith("]"):
        items = [part.strip().strip("'\"") for part in value[1:-1].split(",") if part.strip()]
        return [(flag, Constant(flag, origins)), *((item, Constant(item, origins)) for item in items)]
    if len(value) > 1 and value[0] in "'\"" and value[-1] == value[0]:
        value = value[1:-1]
    return [(f"{flag}={value}", Constant(f"{flag}={value}", origins))]


def find_file(interpreter: Interpreter, path: str) -> str | None:
    """The file that a path names, from the folders in which the program may be started."""
    for folder in [*interpreter.launch.folders, "."]:
        full = os.path.normpath(os.path.join(folder, path))
        if os.path.isfile(full):
            return full
    return None


def parse_words(
    interpreter: Interpreter,
    spec: ParserSpec,
    words: list[tuple[str, Value]] | None,
    call: Call,
    *,
    known_only: bool = False,
) -> tuple[Container, list[Value]]:
    """The namespace that the parser makes, and the words that it leaves."""
    given, rest, refused = _ask(interpreter, spec, words, call, known_only=known_only)
    is_known = all(part.known for part in spec.chosen(given))
    is_open = not is_known or refused or (words is None and not spec.arguments)
    namespace = _namespace(interpreter, spec, given, call, is_open=is_open)
    if not is_known and not refused and not known_only:
        _take_flags_of_library(interpreter, namespace, rest)
    return namespace, rest


def _take_flags_of_library(interpreter: Interpreter, namespace: Container, rest: list[Value]) -> None:
    """Flags of a parser to which a library added some: ``--gpus=4`` is ``args.gpus``, a number where it is written as one."""
    words = [constant_of(word) for word in rest]
    for place, word in enumerate(words):
        if not isinstance(word, str) or not word.startswith("--"):
            continue
        spelling, has_value, text = word.partition("=")
        behind = words[place + 1] if place + 1 < len(words) else None
        if not has_value and isinstance(behind, str) and not behind.startswith("--"):
            has_value, text = "=", behind
        fact = interpreter.launch.flags.get(spelling)
        name = spelling.removeprefix("--").replace("-", "_")
        if has_value and fact is not None and name.isidentifier() and name not in interpreter.items(namespace):
            interpreter.set_item(namespace, Constant(name), Constant(plain_of(text), (fact,), direct=True), None)


def plain_of(text: str) -> int | float | bool | str | None:
    """A word as the value that it is written as."""
    if text in _WRITTEN:
        return _WRITTEN[text]
    return to_int(text, to_float(text, text))


_WRITTEN = {"True": True, "true": True, "False": False, "false": False, "None": None}


def _ask(
    interpreter: Interpreter, spec: ParserSpec, words: list[tuple[str, Value]] | None, call: Call, *, known_only: bool
) -> tuple[dict[str, Any], list[Value], bool]:
    """What argparse makes of the words, what it leaves, and whether it refused them."""
    if words is None:
        _name(interpreter, spec)
        return {}, [], False
    may_hold_any = any(text == _UNKNOWN_WORD for text, _ in words)  # a word of which nothing is known may be any flag
    try:
        words = [*_of_launcher(interpreter, spec, words), *_with_files(interpreter, spec, words)]
        if spec.reads_files:
            words = [*_words_of_config(interpreter, spec, words), *words]
        parser = _build(interpreter, spec)
        if may_hold_any:
            _ask_for_nothing(parser)
        parsed, left = parser.parse_known_args([text for text, _ in words])
    except RefusedError as problem:
        if str(problem):
            refuse(interpreter, spec, call, str(problem), [])
        return {}, [], True
    except (argparse.ArgumentError, ValueError, TypeError, LookupError, AttributeError, SystemExit):
        spec.known = False
        return {}, [], True
    rest: list[Value] = [Constant(text) if text != _UNKNOWN_WORD else Unknown() for text in left]
    stray = [text for text in left if _UNKNOWN_WORD not in text]
    if stray and not known_only and all(part.known for part in spec.chosen(vars(parsed))):
        bad = [text for text in stray if text.startswith("-") and text != "--"]
        refuse(interpreter, spec, call, f"unrecognized arguments: {' '.join(stray)}", bad or stray)
    return dict(vars(parsed)), rest, False


def given_values(
    interpreter: Interpreter,
    spec: ParserSpec,
    words: list[tuple[str, Value]] | None,
    call: Call,
    *,
    known_only: bool = False,
) -> tuple[dict[str, Value], list[Value], bool]:
    """Only what the words give, by ``dest``; the words that are left; whether they were refused."""
    given, rest, refused = _ask(interpreter, spec, words, call, known_only=known_only)
    found = {
        argument.dest: _given(interpreter, argument, given[argument.dest], call)
        for argument in spec.every()
        if argument.dest in given
    }
    commands = {name: Constant(value, direct=True) for name, value in given.items() if name not in found}
    return {**commands, **found}, rest, refused


def refuse(interpreter: Interpreter, spec: ParserSpec, call: Call, message: str, words: list[str]) -> None:
    """The words of the launch are not accepted: the program ends with this message."""
    if interpreter.quiet or (interpreter.imports_unseen and any(part in message for part in _OF_REGISTRIES)):
        return
    flag = re.match(r"argument (\S{1,200}):", message)
    if flag is not None and is_secret(flag[1]):
        message = message.partition(" (choose from")[0]  # the choices are secrets
    failure = interpreter.record(Failure, call.node, "SystemExit", message, ())
    failure.values = (Result("refused words", call, data=(spec, words)),)


def _build(interpreter: Interpreter, spec: ParserSpec) -> _Parser:
    options = {
        name: constant_of(value)
        for name, value in (spec.call.keywords if spec.call else {}).items()
        if name in {"prefix_chars", "allow_abbrev", "fromfile_prefix_chars", "add_help", "conflict_handler"}
        and isinstance(value, Constant)
    }
    options.pop("fromfile_prefix_chars", None)  # it would read files
    options.update(spec.settings)
    parser = _Parser(prog="", argument_default=argparse.SUPPRESS, **options)
    _fill(interpreter, spec, parser)
    return parser


def _ask_for_nothing(parser: argparse.ArgumentParser) -> None:
    """Let a parser go without its required flags."""
    for action in parser._actions:
        if action.option_strings:
            action.required = False
    for group in parser._mutually_exclusive_groups:
        group.required = False


def _fill(interpreter: Interpreter, spec: ParserSpec, parser: argparse.ArgumentParser, depth: int = 0) -> None:
    groups: dict[Value, Any] = {}
    for argument in spec.arguments:
        group = argument.exclusive
        if group is not None and group not in groups:
            required = constant_of(group.argument(None, "required")) is True if isinstance(group, Result) else False
            groups[group] = parser.add_mutually_exclusive_group(required=required)
        _add(interpreter, argument, groups[group] if group is not None else parser)
    if spec.children:
        named = {
            name: constant_of(spec.child_options.get(name)) for name in ("dest", "required") if name in spec.child_options
        }
        spec.command_key = named.get("dest") or f"(command {depth})"
        children = parser.add_subparsers(parser_class=_Parser, **{**named, "dest": spec.command_key})
        for name, child in spec.children.items():
            inner = children.add_parser(name, argument_default=argparse.SUPPRESS)
            _fill(interpreter, child, inner, depth + 1)


def _add(interpreter: Interpreter, argument: Argument, parser: argparse.ArgumentParser) -> None:
    options: dict[str, Any] = {}
    for name in _PLAIN_OPTIONS:
        value = argument.option(name)
        if isinstance(value, Constant):
            options[name] = value.value
        elif name == "nargs" and value is not None:
            options[name] = "*"
    if type(options.get("nargs")) is int and not 0 < options["nargs"] < _MOST_WORDS:
        options["nargs"] = "*"
    action = argument.option("action")
    plain = constant_of(action)
    if isinstance(action, (Library, Bound)) and "BooleanOptionalAction" in repr(getattr(action, "name", "")):
        options["action"] = argparse.BooleanOptionalAction
        options.pop("nargs", None)
    elif isinstance(action, (Class, Library, Function)):
        own = isinstance(action, Class) and interpreter._find_method(action, "__init__") is None
        options["action"] = _Noted
        if not own and "nargs" not in options:
            options["nargs"] = "*"
    elif action is not None and not isinstance(plain, str):
        options = {"nargs": options.get("nargs", "*"), **({"dest": options["dest"]} if "dest" in options else {})}
    elif isinstance(plain, str):
        options["action"] = plain
    if plain == "version":
        options["version"] = ""
    if not argument.certain:
        options.pop("required", None)
    takes_value = options.get("action") in {None, "store", "append", "extend", _Noted}
    if takes_value:
        options["type"] = _known_words(argument.convert) if argument.convert is not None else _type(argument.option("type"))
        choices = argument.option("choices")
        if choices is not None:
            items, complete = interpreter.listed(choices)
            plain_items = [constant_of(item, _ANYTHING) for item in items]
            if complete and _ANYTHING not in plain_items and options["type"].__name__ != "any_text":
                options["choices"] = _Choices(plain_items)
    elif not isinstance(options.get("action"), str) or options["action"] not in {"store_const", "append_const"}:
        options.pop("const", None)
    if not argument.names[0].startswith("-"):
        options.pop("required", None)
        options.pop("dest", None)
    if options.get("action") in {"store_true", "store_false", "count", "help", "version"}:
        for name in ("nargs", "const", "type", "metavar"):
            options.pop(name, None)
    if options.get("nargs") in {"?", "*"} and not argument.names[0].startswith("-"):
        options["default"] = argparse.SUPPRESS
    made = parser.add_argument(*argument.names, **options)
    argument.dest = made.dest


def _known_words(convert: Callable[[str], Any]) -> Callable[[str], Any]:
    """A converter of a library, asked only for words that are known."""

    def known(text: str) -> Any:  # noqa: ANN401 - a converter
        return _ANYTHING if _UNKNOWN_WORD in text or len(text) > _LONGEST_WORD else convert(text)

    known.__name__ = getattr(convert, "__name__", "value")
    return known


def _type(kind: Value | None) -> Any:  # noqa: ANN401 - a converter
    name = (
        kind.name
        if isinstance(kind, Library)
        else "str"
        if kind is None or (isinstance(kind, Constant) and kind.value is None)
        else ""
    )
    if name not in _TYPES:

        def any_text(text: str) -> Any:  # noqa: ANN401 - a converter
            return _ANYTHING if _UNKNOWN_WORD in text else text

        return any_text

    def convert(text: str) -> Any:  # noqa: ANN401 - a converter
        if _UNKNOWN_WORD in text or len(text) > _LONGEST:
            return _ANYTHING
        return _TYPES[name](text)

    convert.__name__ = name
    return convert


def _name(interpreter: Interpreter, spec: ParserSpec) -> None:
    """Give every argument its ``dest`` where nothing is parsed."""
    try:
        _build(interpreter, spec)
    except (RefusedError, argparse.ArgumentError, ValueError, TypeError, LookupError, AttributeError, SystemExit):
        for argument in spec.every():
            dest = constant_of(argument.option("dest"))
            argument.dest = dest if isinstance(dest, str) else argument.spelling.lstrip("-").replace("-", "_")


def _namespace(interpreter: Interpreter, spec: ParserSpec, given: dict[str, Any], call: Call, *, is_open: bool) -> Container:
    values: dict[str, Value] = {}
    parsers = spec.chosen(given)
    arguments = [(each, argument) for each in parsers for argument in each.arguments]
    for owner, argument in arguments:
        if not argument.dest:
            dest = constant_of(argument.option("dest"))
            argument.dest = dest if isinstance(dest, str) else argument.spelling.lstrip("-").replace("-", "_")
        if isinstance(given.get(argument.dest), _Calls):
            values[argument.dest] = default_value(interpreter, owner, argument, call)
        elif argument.dest in given:
            values[argument.dest] = _given(interpreter, argument, given[argument.dest], call)
        elif argument.dest not in values:
            values[argument.dest] = default_value(interpreter, owner, argument, call)
    for each in parsers:
        for name, value in each.defaults.items():
            values.setdefault(name, value)
        dest = constant_of(each.child_options.get("dest"))
        if isinstance(dest, str):
            values[dest] = Constant(given.get(dest), direct=True) if given or not is_open else Unknown()
    made = interpreter.container("namespace", values, call.node, is_open=is_open)
    made.call = call
    for _, argument in arguments:
        if isinstance(calls := given.get(argument.dest), _Calls):
            _act(interpreter, argument, calls, made, call)
    return made


def _act(interpreter: Interpreter, argument: Argument, calls: _Calls, namespace: Container, call: Call) -> None:
    """Call an action of the program, or of a library, as argparse does: once for each time that its flag is given."""
    action = argument.option("action")
    for words, spelling in calls:
        value = _given(interpreter, argument, words, call)
        if isinstance(action, Class):
            made = interpreter.instantiate(action, [], {}, call.node, complete=False)
            if isinstance(made, Instance):
                interpreter.store.set(made, "dest", Constant(argument.dest))
                interpreter.store.set(made, "option_strings", interpreter.container("list", map(Constant, argument.names)))
                interpreter.store.set(made, "const", argument.option("const") or NONE)
                interpreter.store.set(made, "default", argument.option("default") or NONE)
                given = [call.receiver or Unknown(), namespace, value, Constant(spelling, value.origins)]
                if interpreter.call_method(made, "__call__", given, {}, call.node) is not None:
                    continue
        model = ACTIONS.get(action.name.rpartition(".")[2]) if isinstance(action, Library) else None
        if model is not None:
            model(interpreter, argument, value, namespace)
        else:
            interpreter.set_item(namespace, Constant(argument.dest), unknown_from(value), None)


ACTIONS: dict[str, Callable[[Interpreter, Argument, Value, Container], None]] = {}


def _given(interpreter: Interpreter, argument: Argument, value: Any, call: Call) -> Value:  # noqa: ANN401 - what argparse made
    is_of_launcher = interpreter.launch.kind in _GIVING_RANKS and not _LOCAL_RANK & interpreter.launch.flags.keys()
    if value is _ANYTHING and is_of_launcher and _LOCAL_RANK & {*argument.names}:
        kind = argument.option("type")
        is_number = isinstance(kind, Library) and kind.name == "int"
        return PerRank(Constant(0), Constant(1)) if is_number else PerRank(Constant("0"), Constant("1"))
    fact = flag_fact(interpreter, argument.names, argument.dest, value)
    if argument.convert is not None and not isinstance(value, list):
        return _made(interpreter, value, fact)
    if isinstance(value, list):
        items = [
            _made(interpreter, item, fact)
            if argument.convert is not None
            else _typed(interpreter, argument, _plain(interpreter, item, fact), call)
            for item in value
        ]
        made = interpreter.container("list", items, call.node)
        made.origins = (fact,) if fact is not None else ()
        return made
    return _typed(interpreter, argument, _plain(interpreter, value, fact), call)


def _plain(interpreter: Interpreter, value: Any, fact: Fact | None) -> Value:  # noqa: ANN401 - what argparse made
    key, equals, _ = value.partition("=") if isinstance(value, str) else ("", "", "")
    if equals and key in interpreter.launch.flags:  # ``--set optim.lr=1e-4``: a setting of its own
        fact = interpreter.launch.flags[key]
    origins = (fact,) if fact is not None else ()
    return Unknown(origins=origins, kind="flag") if value is _ANYTHING else Constant(value, origins, direct=True)


def _made(interpreter: Interpreter, value: Any, fact: Fact | None) -> Value:  # noqa: ANN401 - what a library's converter made
    if isinstance(value, Constant):
        return Constant(value.value, (fact,) if fact is not None else (), direct=True)
    if isinstance(value, Value):
        return value
    if value is _ANYTHING:
        return _plain(interpreter, value, fact)
    return from_plain(interpreter, value, Constant(None, (fact,) if fact is not None else (), direct=True))


def flag_fact(interpreter: Interpreter, names: list[str], dest: str, value: Any) -> Fact | None:  # noqa: ANN401 - data
    """Where a flag of the launch stands; also one that is written in a shorter way."""
    flags = interpreter.launch.flags
    found = next((flags[name] for name in names if name in flags), None)
    if found is None:
        found = next(
            (
                fact
                for spelling, fact in flags.items()
                if len(spelling) > _SHORTEST and any(name.startswith(spelling) for name in names)
            ),
            None,
        )
    if found is None and interpreter.launch.program is not None:
        program = interpreter.launch.program
        found = Fact(
            canonical(dest) or f"flag.{dest}", None if is_secret(dest) else value, program.evidence, "flag", names[-1]
        )
    return found


def _typed(interpreter: Interpreter, argument: Argument, value: Value, call: Call) -> Value:
    """A word as a type of the program's own makes it."""
    kind = argument.option("type")
    plain = constant_of(value)
    if isinstance(kind, Library) and kind.name == "pathlib.Path" and isinstance(plain, str):
        return Result("pathlib.Path", call, (frozenset()), value.origins, data=plain)
    if isinstance(kind, (Function, Partial)) or (isinstance(kind, Bound) and isinstance(kind.function, Function)):
        if not isinstance(plain, str):
            return value
        made = interpreter.call(kind, [value], {}, call.node)
        if isinstance(made, Constant):
            return Constant(made.value, value.origins, direct=True)
        if isinstance(made, Result) and made.name == "never":
            if not interpreter.quiet:
                refuse(
                    interpreter,
                    ParserSpec(),
                    call,
                    f"argument {'/'.join(argument.names)}: invalid value: {plain!r}",
                    [argument.spelling],
                )
            return Unknown(origins=value.origins)
        return made if not isinstance(made, Unknown) else Unknown(made.tags, value.origins, kind="flag")
    if kind is None or (isinstance(kind, Library) and kind.name in _TYPES) or not isinstance(plain, str):
        return value
    return interpreter.call(kind, [value], {}, call.node) if isinstance(kind, Library) else unknown_from(value)


def default_value(interpreter: Interpreter, spec: ParserSpec, argument: Argument, call: Call) -> Value:
    """What an argument is where no word gives it."""
    if argument.field is not None:
        return _default_of_field(interpreter, spec, argument, argument.field, call)
    action = constant_of(argument.option("action"))
    if interpreter.launch.config and canonical(argument.dest) == "config.path":
        return Constant(interpreter.launch.config)
    value = spec.defaults.get(argument.dest) or argument.option("default")
    if value is None and action in _SWITCHES:
        value = _SWITCHES[action][1]
    if value is None:
        required = constant_of(argument.option("required")) or (
            not argument.names[0].startswith("-") and constant_of(argument.option("nargs")) not in {"?", "*"}
        )
        if required:
            return Unknown(kind="flag")
        is_many = not argument.names[0].startswith("-") and constant_of(argument.option("nargs")) == "*"
        value = interpreter.container("list", (), call.node) if is_many else NONE
    kind = argument.option("type")
    if isinstance(value, Constant) and isinstance(value.value, str) and kind is not None:
        if isinstance(kind, Library) and kind.name in {"int", "float", "bool"}:
            value = converted(interpreter, kind.name, value, argument.call.node)
        elif isinstance(kind, (Function, Partial, Class)) or (isinstance(kind, Library) and kind.name != "str"):
            value = interpreter.call(kind, [value], {}, call.node)
    if isinstance(value, Constant):
        return Constant(
            value.value,
            (*value.origins, default_fact(argument.dest, argument.spelling, value, argument.call)),
            direct=True,
            source=value.source,
            node=value.node,
        )
    return value


def _default_of_field(interpreter: Interpreter, spec: ParserSpec, argument: Argument, field: Field, call: Call) -> Value:
    value = spec.defaults.get(argument.dest)
    if value is None:
        return defaulted(field, argument.spelling, call)
    plain = constant_of(value)
    if isinstance(plain, str) and argument.convert is not None:  # argparse converts a default that is a text
        try:
            return _with_origins(_made(interpreter, _known_words(argument.convert)(plain), None), value)
        except (ValueError, TypeError, argparse.ArgumentTypeError):
            refuse(interpreter, spec, call, f"argument {argument.spelling}: invalid value: {plain!r}", [])
            return Unknown(origins=value.origins)
    return value


def _with_origins(made: Value, value: Value) -> Value:
    return Constant(made.value, value.origins, direct=True) if isinstance(made, Constant) else made


def default_fact(dest: str, spelling: str, value: Constant, call: Call | Declaration) -> Fact:
    """The default of a flag as a setting, at its own place where it is written as a literal."""
    span = value.source.span(value.node) if value.node is not None and value.source is call.source else None
    return Fact(
        canonical(dest) or f"flag.{dest}", None if is_secret(dest) else value.value, call.evidence, "default", spelling, span
    )


_CONSTANTS = {
    "REMAINDER": "...",
    "SUPPRESS": "==SUPPRESS==",
    "ZERO_OR_MORE": "*",
    "ONE_OR_MORE": "+",
    "OPTIONAL": "?",
    "PARSER": "A...",
}


def _constant(text: str) -> Any:  # noqa: ANN401 - a model
    return lambda _interpreter, _owner: Constant(text)


for _name_of_constant, _text in _CONSTANTS.items():
    attributes(f"argparse.{_name_of_constant}")(_constant(_text))
