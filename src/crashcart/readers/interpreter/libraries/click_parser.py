"""click and typer: commands made of decorators or annotations, read as click reads words.

    @click.command()                                app = typer.Typer()
    @click.option("--lr", default=1e-3)             @app.command()
    def main(lr): ...                               def main(lr: float = 1e-3, amp: bool = False): ...

click knows no abbreviations, takes the word behind an option whatever it is, and lets options and arguments mix.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from crashcart.numbers import to_int
from crashcart.readers.interpreter.libraries import models
from crashcart.readers.interpreter.libraries.argparse_parser import (
    Argument,
    Declaration,
    ParserSpec,
    default_fact,
    flag_fact,
    refuse,
    words_of,
)
from crashcart.readers.interpreter.libraries.config_files import config_value
from crashcart.readers.interpreter.libraries.field_types import ANY, Field, Kind, parameters_of
from crashcart.readers.interpreter.libraries.hf_parser import enum_members, enum_values
from crashcart.readers.interpreter.libraries.standard import variable
from crashcart.readers.interpreter.store import FALSE, NONE, TRUE
from crashcart.readers.interpreter.values import (
    Constant,
    Container,
    Function,
    Library,
    Result,
    Unknown,
    Value,
    constant_of,
)

if TYPE_CHECKING:
    import ast
    from collections.abc import Callable

    from crashcart.readers.interpreter.interpreter import Interpreter
    from crashcart.readers.interpreter.trace import Call

__all__ = ["Command"]

_YES, _NO = {"1", "true", "t", "yes", "y", "on"}, {"0", "false", "f", "no", "n", "off"}
_NUMBERS: dict[str, Any] = {"int": int, "float": float}
_PLAIN_DECORATORS = frozenset(
    {"typer", "click", "torch", "functools", "contextlib", "typing", "beartype", "typeguard", "memory_profiler"}
)


class Parameter:
    """An option or argument: its names, how a word becomes a value, what it is without one."""

    def __init__(self, name: str, spellings: list[str], *, is_option: bool) -> None:
        self.name, self.spellings, self.is_option = name, spellings, is_option
        self.off: list[str] = []  # ``--no-amp``
        self.is_flag = self.is_count = self.multiple = self.required = False
        self.flag_value: Value = TRUE
        self.count = 1  # words of one value; -1: all that are left
        self.convert: Callable[[str], Any] = str
        self.default: Value = NONE
        self.variables: list[str] = []
        self.callback: Value | None = None
        self.hidden = False
        self.is_config = False  # names the file of ``command.config``
        self.none_stays = False  # typer: a list that nobody gives is None
        self.call: Call | Declaration | None = None


class Command:
    """A command with its parameters, or a group with commands."""

    def __init__(self, function: Value | None, name: str = "") -> None:
        self.function, self.name = function, name
        self.parameters: list[Parameter] = []
        self.commands: dict[str, Command] = {}
        self.is_group = False
        self.alone = False  # without a command the group itself runs
        self.passes_context = False
        self.lenient = False  # unknown words are left
        self.known = True
        self.config: dict[str, Value] = {}  # what a config file puts in the place of the defaults


class RefusedWordsError(Exception):
    """What click would print before it ends the program with exit code 2."""


class _UnreadConfigError(Exception):
    """The defaults are in a file that is not known."""


# ---- click's decorators


@models(
    "click.option",
    "click.argument",
    "click.pass_context",
    "click.version_option",
    "click.help_option",
    "click.password_option",
)
def describe(_interpreter: Interpreter, call: Call) -> Value:
    """A decorator that describes a parameter."""
    if call.method == "pass_context":
        function = call.argument(0)
        return function if function is not None else Unknown()
    return Result(call.name, call)


@models("@click.option", "@click.argument", "@click.pass_context", "@click.pass_obj")
def described(interpreter: Interpreter, function: Value, decorator: Value, _node: ast.AST) -> Value | None:
    """A function with one parameter more."""
    _describe(interpreter, function, decorator)
    return function


def _describe(interpreter: Interpreter, function: Value, decorator: Value) -> None:
    known = interpreter.store.get(function, "(click)") or ()
    if isinstance(function, Result) and isinstance(function.data, Command):
        if (
            isinstance(decorator, Result)
            and decorator.call is not None
            and (made := _parameter(interpreter, decorator.call))
        ):
            function.data.parameters.insert(0, made)
        return
    interpreter.store.set(function, "(click)", (decorator, *known))


@models("click.option.__call__", "click.argument.__call__")
def apply_description(interpreter: Interpreter, call: Call) -> Value:
    """``click.option("--lr")(function)``."""
    function = call.argument(0) or Unknown()
    if call.receiver is not None:
        _describe(interpreter, function, call.receiver)
    return function


def _command(interpreter: Interpreter, function: Value, call: Call | None, *, is_group: bool) -> Result:
    given = call.argument(0, "name") if call is not None else None
    name = constant_of(given)
    if not isinstance(name, str):
        name = function.name.lower().replace("_", "-") if isinstance(function, Function) else ""
    command = Command(function, name)
    command.is_group = is_group
    if call is not None:
        command.alone = constant_of(call.argument(None, "invoke_without_command")) is True
        settings = call.argument(None, "context_settings")
        content = interpreter.entries(settings)
        command.lenient = (
            constant_of(content.get("ignore_unknown_options")) is True
            or constant_of(content.get("allow_extra_args")) is True
        )
    for decorator in interpreter.store.get(function, "(click)") or ():
        if isinstance(decorator, Result) and decorator.call is not None:
            made = _parameter(interpreter, decorator.call)
            if made is not None:
                command.parameters.append(made)
            else:
                command.known = False
        elif isinstance(decorator, Library) and decorator.name.endswith(("pass_context", "pass_obj")):
            command.passes_context = True
    return Result("click.Command", call, data=command)


@models("@click.command", "@click.group", "@rich_click.command", "@rich_click.group")
def make_command(interpreter: Interpreter, function: Value, decorator: Value, _node: ast.AST) -> Value | None:
    """``@click.command()``."""
    call = decorator.call if isinstance(decorator, Result) else None
    name = decorator.name if isinstance(decorator, (Result, Library)) else ""
    return _command(interpreter, function, call, is_group=name.endswith("group"))


@models("@click.Command.command", "@click.Command.group")
def add_to_group(interpreter: Interpreter, function: Value, decorator: Value, _node: ast.AST) -> Value | None:
    """``@cli.command()``."""
    call = decorator.call if isinstance(decorator, Result) else None
    owner = call.receiver if call is not None else None
    made = _command(interpreter, function, call, is_group=isinstance(decorator, Result) and decorator.name.endswith("group"))
    if isinstance(owner, Result) and isinstance(owner.data, Command):
        owner.data.commands[made.data.name] = made.data
    return made


@models("click.Command.add_command")
def add_command(_interpreter: Interpreter, call: Call) -> Value:
    """``cli.add_command(train)``."""
    owner, made = call.receiver, call.argument(0)
    if isinstance(owner, Result) and isinstance(made, Result) and isinstance(made.data, Command):
        name = constant_of(call.argument(1, "name"))
        owner.data.commands[name if isinstance(name, str) else made.data.name] = made.data
    return NONE


def _parameter(interpreter: Interpreter, call: Call) -> Parameter | None:
    texts = [constant_of(value) for value in call.arguments]
    if not texts or not all(isinstance(text, str) for text in texts) or not call.complete:
        return None
    is_option = call.method == "option"
    on: list[str] = []
    off: list[str] = []
    name = ""
    for text in map(str, texts):
        first, slash, second = text.partition("/")
        if not is_option or not text.startswith("-"):
            name = text
            on += [text] if not is_option else []
            continue
        on.append(first.strip())
        off += [second.strip()] if slash else []
    if not name and on:
        name = max(on, key=lambda text: (len(text) - len(text.lstrip("-")), 0)).lstrip("-")
        name = next((text.lstrip("-") for text in on if text.startswith("--")), name)
    made = Parameter(name.replace("-", "_").lower(), on, is_option=is_option)
    made.off, made.call = off, call
    _configure(interpreter, made, call)
    return made


def _configure(interpreter: Interpreter, made: Parameter, call: Call) -> None:
    option = call.keywords.get
    default, kind = option("default"), option("type")
    made.default = default if default is not None else NONE
    made.multiple = constant_of(option("multiple")) is True
    made.is_count = constant_of(option("count")) is True
    flag = constant_of(option("is_flag"))
    made.flag_value = option("flag_value") or TRUE
    made.is_flag = flag is True or bool(made.off) or (flag is None and "flag_value" in call.keywords)
    made.callback = option("callback")
    nargs = constant_of(option("nargs"))
    made.count = nargs if isinstance(nargs, int) else 1
    required = constant_of(option("required"))
    made.required = required is True or (not made.is_option and required is None and default is None and made.count != -1)
    variables = option("envvar")
    listed = interpreter.listed(variables)[0] if isinstance(variables, Container) else [variables]
    made.variables = [text for value in listed if isinstance(text := constant_of(value), str)]
    if made.is_flag and default is None and made.flag_value is TRUE:
        made.default = FALSE
    if made.is_count and default is None:
        made.default = Constant(0)
    items = interpreter.listed(kind)[0] if isinstance(kind, Container) and kind.kind == "tuple" else None
    if items:
        made.count = len(items)
        made.convert = _converter(interpreter, items[0])
        if len({repr(item) for item in items}) > 1:
            made.convert = lambda _text: Unknown()
    elif kind is not None:
        made.convert = _converter(interpreter, kind)
    elif isinstance(default, Constant) and not made.is_flag and default.value is not None:
        made.convert = _converter(interpreter, Library(type(default.value).__name__))
    elif isinstance(default, Container):
        made.convert = _converter_of_items(interpreter, default)


def _converter_of_items(interpreter: Interpreter, default: Container) -> Callable[[str], Any]:
    items, _ = interpreter.listed(default)
    first = constant_of(items[0]) if items else ""
    return _converter(interpreter, Library(type(first).__name__)) if isinstance(first, (int, float, str)) else str


def _converter(interpreter: Interpreter, kind: Value) -> Callable[[str], Any]:
    name = kind.name if isinstance(kind, (Library, Result)) else ""
    last = name.rpartition(".")[2]
    if last in {"int", "INT", "IntRange", "float", "FLOAT", "FloatRange"}:
        number = "int" if last.lower().startswith("int") else "float"
        return _number(number, kind if isinstance(kind, Result) else None)
    if last in {"bool", "BOOL"}:
        return _bool
    if last == "Choice" and isinstance(kind, Result):
        return _choice(interpreter, kind)
    if last == "Path" and name.startswith("pathlib"):
        return lambda text: Result("pathlib.Path", None, data=text)
    if last == "Path" and isinstance(kind, Result):
        made = kind.argument(None, "path_type")
        is_path = isinstance(made, Library) and made.name.endswith("Path")
        return (lambda text: Result("pathlib.Path", None, data=text)) if is_path else str
    if last in {"str", "STRING", "UNPROCESSED"}:
        return str
    if isinstance(kind, Function):
        return lambda text: interpreter.call(kind, [Constant(text)], {}, kind.node)
    return lambda _text: Unknown()


def _number(name: str, bounds: Result | None) -> Callable[[str], Any]:
    low = constant_of(bounds.argument(0, "min")) if bounds is not None else None
    high = constant_of(bounds.argument(1, "max")) if bounds is not None else None
    clamps = constant_of(bounds.argument(None, "clamp")) is True if bounds is not None else False
    below = constant_of(bounds.argument(None, "min_open")) is True if bounds is not None else False
    above = constant_of(bounds.argument(None, "max_open")) is True if bounds is not None else False

    def convert(text: str) -> Any:  # noqa: ANN401 - a number
        try:
            number = _NUMBERS[name](text)
        except ValueError:
            raise RefusedWordsError(f"{text!r} is not a valid {'integer' if name == 'int' else 'float'}.") from None
        too_low = low is not None and (number < low or (below and number == low))
        too_high = high is not None and (number > high or (above and number == high))
        if clamps:
            return low if too_low else high if too_high else number
        if too_low or too_high:
            raise RefusedWordsError(f"{text} is not in the range.")
        return number

    return convert


def _bool(text: str) -> bool:
    if text.strip().lower() in _YES:
        return True
    if text.strip().lower() in _NO:
        return False
    raise RefusedWordsError(f"{text!r} is not a valid boolean.")


def _choice(interpreter: Interpreter, kind: Result) -> Callable[[str], Any]:
    given = kind.argument(0, "choices")
    items, complete = interpreter.listed(given) if given is not None else ([], False)
    choices = [constant_of(item, ANY) for item in items]
    folds = constant_of(kind.argument(1, "case_sensitive")) is False
    if not complete or ANY in choices:
        return lambda _text: Unknown()

    def convert(text: str) -> Any:  # noqa: ANN401 - a choice
        for choice in choices:
            if str(choice) == text or (folds and str(choice).lower() == text.lower()):
                return choice
        raise RefusedWordsError(f"{text!r} is not one of {', '.join(map(repr, choices))}.")

    return convert


# ---- reading words


@models("click.Command.__call__", "click.Command.main")
def call_command(interpreter: Interpreter, call: Call) -> Value:
    """``main()``: read the words and call the function."""
    receiver = call.receiver
    if not isinstance(receiver, Result) or not isinstance(receiver.data, Command):
        return Unknown()
    words = words_of(interpreter, call.argument(0, "args"))
    return run_command(interpreter, receiver.data, words, call)


@models("click.Context.invoke", "click.Command.callback")
def invoke(interpreter: Interpreter, call: Call) -> Value:
    """``ctx.invoke(command, x=1)``: the function itself."""
    target = call.receiver if call.method == "callback" else call.argument(0)
    if isinstance(target, Result) and isinstance(target.data, Command) and target.data.function is not None:
        given = call.arguments if call.method == "callback" else call.arguments[1:]
        return interpreter.call(target.data.function, given, call.keywords, call.node, complete=call.complete)
    return Unknown()


def run_command(interpreter: Interpreter, command: Command, words: list[tuple[str, Value]] | None, call: Call) -> Value:
    """Read the words of a command, call its function, then the sub-command that follows."""
    values: dict[str, Value] = {}
    rest: list[tuple[str, Value]] = []
    if words is None or not command.known:
        values = {parameter.name: Unknown(kind="flag") for parameter in command.parameters if not parameter.hidden}
    else:
        try:
            found, rest = _split(command, words)
            _read_config(interpreter, command, found)
            for parameter in command.parameters:
                value = _value(interpreter, parameter, found.get(parameter.name), call, command.config.get(parameter.name))
                if not parameter.hidden:
                    values[parameter.name] = value
            _check_rest(interpreter, command, rest)
            if command.is_group and not rest and not command.alone and command.commands:
                return NONE  # the help is shown
        except _UnreadConfigError:
            values = {parameter.name: Unknown(kind="flag") for parameter in command.parameters if not parameter.hidden}
        except RefusedWordsError as problem:
            refuse(interpreter, _spec(command), call, str(problem), [])
            values = {parameter.name: Unknown(kind="flag") for parameter in command.parameters if not parameter.hidden}
            rest = []
    context = [Result("click.Context", call)] if command.passes_context else []
    result: Value = NONE
    if command.function is not None:
        result = interpreter.call(command.function, list(context), values, call.node)
    if rest and rest[0][0] in command.commands:
        return run_command(interpreter, command.commands[rest[0][0]], rest[1:], call)
    return result


def _check_rest(interpreter: Interpreter, command: Command, rest: list[tuple[str, Value]]) -> None:
    if rest and not command.is_group and not command.lenient:
        raise RefusedWordsError(f"Got unexpected extra argument ({' '.join(text for text, _ in rest)})")
    # A command whose decorators are not understood is not in the table, though the program has it.
    registered = len(interpreter.trace.methods("command", "add_command", "group", "add_typer"))
    if (
        command.is_group
        and rest
        and rest[0][0] not in command.commands
        and rest[0][0] != "\0"
        and registered <= len(command.commands) + 1
    ):
        raise RefusedWordsError(f"No such command {rest[0][0]!r}.")


def _spec(command: Command) -> ParserSpec:
    """The options for those who suggest what was meant."""
    spec = ParserSpec()
    for parameter in command.parameters:
        if parameter.is_option and parameter.spellings and parameter.call is not None:
            argument = Argument(parameter.spellings, parameter.call)
            argument.dest = parameter.name
            spec.arguments.append(argument)
    return spec


def _split(command: Command, words: list[tuple[str, Value]]) -> tuple[dict[str, list[Any]], list[tuple[str, Value]]]:
    """What the words give each parameter; the words that are left."""
    options = {spelling: (each, True) for each in command.parameters if each.is_option for spelling in each.spellings}
    options.update({spelling: (each, False) for each in command.parameters for spelling in each.off})
    found: dict[str, list[Any]] = {}
    plain: list[tuple[str, Value]] = []
    waiting = list(words)
    while waiting:
        text, value = waiting.pop(0)
        if text == "--":
            plain += waiting
            break
        if not text.startswith("-") or text == "-":
            if command.is_group:
                waiting.insert(0, (text, value))
                plain = waiting
                break
            plain.append((text, value))
            continue
        name, equals, written = text.partition("=")
        if name not in options and not text.startswith("--") and text[:2] in options:
            name, equals, written = text[:2], "=" if text[2:] else "", text[2:]
            if options[name][0].is_flag or options[name][0].is_count:  # ``-vv`` is ``-v -v``
                if written:
                    waiting.insert(0, (f"-{written}", Constant(f"-{written}")))
                equals = written = ""
        if name not in options:
            if command.lenient:
                plain.append((text, value))
                continue
            raise RefusedWordsError(f"No such option: {name}")
        parameter, is_on = options[name]
        if parameter.is_flag or parameter.is_count:
            if equals:
                raise RefusedWordsError(f"Option {name!r} does not take a value.")
            found.setdefault(parameter.name, []).append(is_on)
            continue
        given = [(written, value)] if equals else []
        while len(given) < max(parameter.count, 1):
            if not waiting:
                raise RefusedWordsError(
                    f"Option {name!r} requires {'an argument' if parameter.count == 1 else f'{parameter.count} arguments'}."
                )
            given.append(waiting.pop(0))
        found.setdefault(parameter.name, []).append([word for word, _ in given])
    return found, _arguments(command, plain, found)


def _arguments(command: Command, plain: list[tuple[str, Value]], found: dict[str, list[Any]]) -> list[tuple[str, Value]]:
    """Hand the words that are no options to the arguments; the rest."""
    arguments = [each for each in command.parameters if not each.is_option]
    for number, parameter in enumerate(arguments):
        behind = sum(max(each.count, 0) for each in arguments[number + 1 :])
        count = parameter.count if parameter.count != -1 else max(len(plain) - behind, 0)
        taken, plain = plain[:count], plain[count:]
        if taken and (len(taken) == count or parameter.count == -1):
            found.setdefault(parameter.name, []).append([text for text, _ in taken])
        elif taken:
            raise RefusedWordsError(f"Argument {parameter.name.upper()!r} takes {count} values.")
    return plain


def _read_config(interpreter: Interpreter, command: Command, given: dict[str, list[Any]]) -> None:
    for parameter in command.parameters:
        words = given.get(parameter.name)
        path = words[-1][0] if parameter.is_config and words else ""
        content = config_value(interpreter, path, numbers=False, attributes=False) if path else None
        if isinstance(content, Container) and content.kind == "dict":
            command.config = {str(name): value for name, value in interpreter.entries(content).items()}
        elif path:
            command.known = False
            raise _UnreadConfigError


def _from_config(parameter: Parameter, value: Value, spelling: str) -> Value:
    """A value of a config file as the type of the parameter, which reads its text."""
    plain = constant_of(value, value)
    if plain is value or parameter.multiple or parameter.count != 1 or parameter.is_count:
        return Unknown(origins=value.origins)
    if parameter.is_flag and isinstance(plain, bool):
        return value
    try:
        made = _converted(parameter, str(plain), spelling)
    except RefusedWordsError:
        whole = to_int(plain) if isinstance(plain, float) else None
        if whole is None:
            raise
        made = _converted(parameter, str(whole), spelling)  # int(7.5) is no error
    return made if isinstance(made, Value) else Constant(made, value.origins, direct=True)


def _value(
    interpreter: Interpreter, parameter: Parameter, given: list[Any] | None, call: Call, written: Value | None = None
) -> Value:
    spelling = max(parameter.spellings, key=len, default=parameter.name)
    if given is None and written is not None and constant_of(written, written) is not None:
        return _from_config(parameter, written, spelling)
    if given is None:
        return _without_words(interpreter, parameter, spelling, call)
    fact = flag_fact(interpreter, [*parameter.spellings, *parameter.off] or [parameter.name], parameter.name, given[-1])
    origins = (fact,) if fact is not None else ()

    def made(text: str) -> Value:
        if "\0" in text:
            return Unknown(origins=origins)
        value = _converted(parameter, text, spelling)
        if isinstance(value, Value):
            return value
        return Constant(value, origins, direct=True)

    if parameter.is_count:
        return Constant(len(given), origins, direct=True)
    if parameter.is_flag:
        if not given[-1]:
            return Constant(False, origins, direct=True)
        return Constant(constant_of(parameter.flag_value, True), origins, direct=True)
    if parameter.count != 1:
        rows: list[Value] = [interpreter.container("tuple", [made(text) for text in row]) for row in given]
    else:
        rows = [made(row[0]) for row in given]
    value = interpreter.container("tuple", rows) if parameter.multiple else rows[-1]
    if isinstance(value, Container):
        value.origins = origins
    return _called_back(interpreter, parameter, value, call)


def _converted(parameter: Parameter, text: str, spelling: str) -> Any:  # noqa: ANN401 - a value of any type
    try:
        return parameter.convert(text)
    except RefusedWordsError as problem:
        raise RefusedWordsError(f"Invalid value for {spelling!r}: {problem}") from None


def _called_back(interpreter: Interpreter, parameter: Parameter, value: Value, call: Call) -> Value:
    if isinstance(parameter.callback, Function):
        return interpreter.call(parameter.callback, [Result("click.Context", call), Unknown(), value], {}, call.node)
    return value


def _without_words(interpreter: Interpreter, parameter: Parameter, spelling: str, call: Call) -> Value:
    for name in parameter.variables:
        value = variable(interpreter, name, None)
        plain = constant_of(value)
        if isinstance(plain, str):
            made = _converted(parameter, plain, spelling)
            return made if isinstance(made, Value) else Constant(made, value.origins, direct=True)
        if name not in os.environ and interpreter.launch.program is None:
            return Unknown()
    if parameter.required:
        kind = "option" if parameter.is_option else "argument"
        raise RefusedWordsError(f"Missing {kind} {spelling!r}.")
    value = parameter.default
    if isinstance(value, Function):
        value = interpreter.call(value, [], {}, call.node)
    if parameter.multiple or parameter.count != 1:
        if isinstance(value, Container):
            return interpreter.container("tuple", interpreter.items(value))
        if constant_of(value, call) is None:
            empty = (parameter.multiple or parameter.count == -1) and not parameter.none_stays
            return interpreter.container("tuple", ()) if empty else NONE
    if isinstance(value, Constant) and isinstance(value.value, str) and not parameter.is_flag:
        made = _converted(parameter, value.value, spelling)
        if isinstance(made, Value):
            return made
        value = Constant(made, value.origins, source=value.source, node=value.node)
    if isinstance(value, Constant) and type(value.value) is int and parameter.convert.__name__ == "float":
        value = Constant(float(value.value), value.origins)
    if isinstance(value, Constant):
        fact = default_fact(parameter.name, spelling, value, parameter.call if parameter.call is not None else call)
        value = Constant(value.value, (*value.origins, fact), direct=True, source=value.source, node=value.node)
    return _called_back(interpreter, parameter, value, call)


# ---- typer


@models("typer.Typer", "typer.main.Typer")
def make_app(_interpreter: Interpreter, call: Call) -> Value:
    """An app: a group of commands, or the one command that it has."""
    command = Command(None)
    command.is_group = True
    command.alone = constant_of(call.argument(None, "invoke_without_command")) is True
    return Result("typer.Typer", call, data=command)


@models("@typer.Typer.command", "@typer.Typer.callback")
def add_typer_command(interpreter: Interpreter, function: Value, decorator: Value, _node: ast.AST) -> Value | None:
    """``@app.command()``."""
    call = decorator.call if isinstance(decorator, Result) else None
    owner = call.receiver if call is not None else None
    if call is None or not isinstance(owner, Result) or not isinstance(owner.data, Command):
        return None
    name = constant_of(call.argument(0, "name")) if call.method == "command" else None
    made = typer_command(interpreter, function, call)
    made.known = _is_known(interpreter, function)
    if call.method == "callback":
        owner.data.function, owner.data.parameters = function, made.parameters
        owner.data.alone |= constant_of(call.argument(None, "invoke_without_command")) is True
        owner.data.name = "(callback)"
    else:
        owner.data.commands[name if isinstance(name, str) else made.name] = made
    return function


def _is_known(interpreter: Interpreter, function: Value) -> bool:
    """Whether nothing that decorates a command gives it options that are not known."""
    if not isinstance(function, Function):
        return True
    names = [name.partition(".")[0] for name in function.decorators]
    understood = _PLAIN_DECORATORS | ({"typer_config"} if interpreter.store.get(function, "(config)") else frozenset())
    return all(name in understood for name in names)


@models(*(f"@typer_config.{place}use_{kind}_config" for place in ("", "decorators.") for kind in ("yaml", "json", "toml")))
def with_config(interpreter: Interpreter, function: Value, decorator: Value, _node: ast.AST) -> Value | None:
    """``@use_yaml_config()``: an option ``--config`` more, and its file has the defaults of the others."""
    call = decorator.call if isinstance(decorator, Result) else None
    if call is not None and call.complete and not {"section", "default_value"} & call.keywords.keys():
        name = constant_of(call.argument(1, "param_name", Constant("config")))
        if isinstance(name, str) and call.argument(0, "section") is None:
            interpreter.store.set(function, "(config)", name)
    return function


@models("typer.Typer.add_typer")
def add_typer(_interpreter: Interpreter, call: Call) -> Value:
    """``app.add_typer(other, name="other")``."""
    owner, other, name = call.receiver, call.argument(0), constant_of(call.argument(None, "name"))
    if isinstance(owner, Result) and isinstance(other, Result) and isinstance(name, str):
        owner.data.commands[name] = other.data
    return NONE


@models("typer.Typer.__call__")
def call_app(interpreter: Interpreter, call: Call) -> Value:
    """``app()``."""
    command = call.receiver.data if isinstance(call.receiver, Result) else None
    if not isinstance(command, Command):
        return Unknown()
    if len(command.commands) == 1 and command.name != "(callback)":
        command = next(iter(command.commands.values()))
    return run_command(interpreter, command, words_of(interpreter, call.argument(0, "args")), call)


@models("typer.run")
def run_function(interpreter: Interpreter, call: Call) -> Value:
    """``typer.run(main)``."""
    function = call.argument(0, "function") or Unknown()
    return run_command(interpreter, typer_command(interpreter, function, call), words_of(interpreter, None), call)


def typer_command(interpreter: Interpreter, function: Value, call: Call) -> Command:
    """A command with an option or argument for each parameter of a function."""
    name = function.name.lower().replace("_", "-") if isinstance(function, Function) else ""
    command = Command(function, name)
    settings = call.argument(None, "context_settings")
    content = interpreter.entries(settings)
    command.lenient = constant_of(content.get("allow_extra_args")) is True
    fields, _ = parameters_of(interpreter, function)
    for field in fields:
        if field.kind.name == "class" and str(getattr(field.kind.cls, "name", "")).endswith("Context"):
            command.passes_context = True
            continue
        command.parameters.append(_typer_parameter(interpreter, field, call))
    config = interpreter.store.get(function, "(config)")
    if isinstance(config, str):
        made = Parameter(config, [f"--{config.replace('_', '-')}"], is_option=True)
        made.hidden = made.is_config = True
        made.call = call
        command.parameters.append(made)
    return command


def _typer_parameter(interpreter: Interpreter, field: Field, call: Call) -> Parameter:
    note = next((each for each in field.kind.notes if _is_typer(each)), None)
    default = field.default
    in_default = isinstance(default, Result) and _is_typer(default)
    if isinstance(default, Result) and in_default:
        note = default
        default = note.argument(0, "default") or Constant(...)
    if isinstance(default, Constant) and default.value is ...:
        default = None
    is_option = note.name.endswith("Option") if isinstance(note, Result) else default is not None
    declared = note.call.arguments[1 if in_default else 0 :] if isinstance(note, Result) and note.call is not None else []
    texts = [text for value in declared if isinstance(text := constant_of(value), str)]
    dashed = f"--{field.name.replace('_', '-')}"
    made = Parameter(field.name, [], is_option=is_option)
    made.call = note.call if isinstance(note, Result) and note.call is not None else call
    kind = field.kind.inner if field.kind.optional else field.kind
    if not field.is_annotated and isinstance(default, Constant):
        kind = Kind(type(default.value).__name__)
    for text in texts or ([dashed] if is_option else []):
        first, slash, second = text.partition("/")
        made.spellings += [first.strip()] if first.strip() else []
        made.off += [second.strip()] if slash else []
    if kind.name == "bool" and is_option:
        made.is_flag = True
        if not texts:
            made.off = [f"--no-{field.name.replace('_', '-')}"]
    elif kind.name in {"list", "set", "tuple"}:
        if kind.name == "tuple" and "..." not in kind.choices:
            made.count = len(kind.parts)
        elif is_option:
            made.multiple = True
        else:
            made.count = -1
        kind = kind.parts[0] if kind.parts else Kind("str")
    made.convert = _typed_converter(interpreter, kind, note)
    made.none_stays = True
    made.required = default is None
    made.default = default if default is not None else NONE
    if isinstance(note, Result):
        variables = note.argument(None, "envvar")
        listed = interpreter.listed(variables)[0] if isinstance(variables, Container) else [variables]
        made.variables = [text for value in listed if isinstance(text := constant_of(value), str)]
        made.is_count = constant_of(note.argument(None, "count")) is True
    return made


def _is_typer(value: Value) -> bool:
    return isinstance(value, Result) and value.name in {
        "typer.Option",
        "typer.Argument",
        "typer.params.Option",
        "typer.params.Argument",
    }


def _typed_converter(interpreter: Interpreter, kind: Kind, note: Value | None) -> Callable[[str], Any]:
    if kind.name in _NUMBERS:
        return _number(kind.name, _with_bounds(note))
    if kind.name == "bool":
        return _bool
    if kind.name == "path":
        return lambda text: Result("pathlib.Path", None, data=text)
    if kind.name == "literal":
        return _one_of({str(choice): Constant(choice) for choice in kind.choices})
    if kind.name == "enum":
        members = enum_members(interpreter, kind.cls)
        values = enum_values(interpreter, kind.cls)
        if values is None:
            return lambda _text: Unknown()
        named = zip(values, members.items(), strict=True)
        return _one_of(
            {
                str(value): interpreter.libraries.member(interpreter, kind.cls, name, member)
                for value, (name, member) in named
            }
        )
    return str if kind.name in {"str", "any"} else lambda _text: Unknown()


def _with_bounds(note: Value | None) -> Result | None:
    if not isinstance(note, Result) or note.call is None or not {"min", "max"} & set(note.call.keywords):
        return None
    from crashcart.readers.interpreter.trace import Call as CallEvent

    kept = {name: value for name, value in note.call.keywords.items() if name in {"min", "max", "clamp"}}
    bare = CallEvent.__new__(CallEvent)
    bare.arguments, bare.keywords, bare.complete = [], kept, True
    return Result("bounds", bare)


def _one_of(choices: dict[str, Value]) -> Callable[[str], Any]:
    def convert(text: str) -> Value:
        if text not in choices:
            raise RefusedWordsError(f"{text!r} is not one of {', '.join(map(repr, choices))}.")
        return choices[text]

    return convert


@models("click.echo", "typer.echo", "click.secho", "typer.secho", "rich.print")
def say(_interpreter: Interpreter, _call: Call) -> Value:
    """Nothing comes of it."""
    return NONE
