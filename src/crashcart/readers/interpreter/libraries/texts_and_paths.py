"""Texts and paths: what can be worked out from known parts is worked out as Python does."""

from __future__ import annotations

import os
import re
from string import Formatter
from typing import TYPE_CHECKING, Any

from crashcart.numbers import to_count
from crashcart.readers.interpreter.libraries import attributes, models
from crashcart.readers.interpreter.values import (
    LONGEST_TEXT,
    RAISED,
    Choice,
    Constant,
    Container,
    Result,
    Unknown,
    Value,
    constant_of,
    join,
    made_text,
    origins_of,
    tags_of,
    unknown_from,
)
from crashcart.regular_files import names_in

if TYPE_CHECKING:
    import ast
    from collections.abc import Sequence

    from crashcart.readers.interpreter.interpreter import Interpreter
    from crashcart.readers.interpreter.trace import Call

_PLAIN_PERCENT = re.compile(r"(?:[^%]|%[sdifrg%])*")
_PURE = [
    "split",
    "rsplit",
    "strip",
    "lstrip",
    "rstrip",
    "lower",
    "upper",
    "replace",
    "startswith",
    "endswith",
    "partition",
    "rpartition",
    "title",
    "capitalize",
    "isdigit",
    "isnumeric",
    "isalpha",
    "isalnum",
    "isdecimal",
    "isidentifier",
    "splitlines",
    "find",
    "rfind",
    "count",
    "removeprefix",
    "removesuffix",
    "swapcase",
    "casefold",
    "isupper",
    "islower",
    "isspace",
    "index",
]


@models(*(f"str.{name}" for name in _PURE))
def pure(interpreter: Interpreter, call: Call) -> Value:
    """A method of a text that gives the same for the same."""
    owner = call.receiver
    values = (*call.arguments, *call.keywords.values())
    plain = [_plain(interpreter, value) for value in call.arguments]
    if (
        not isinstance(owner, Constant)
        or len(owner.value) > LONGEST_TEXT
        or any(isinstance(value, Value) for value in plain)
    ):
        return unknown_from(owner, *values)
    named = {name: constant_of(value) for name, value in call.keywords.items()}
    if call.method == "replace" and _is_long(len(owner.value), *call.arguments[1:2]):
        return unknown_from(owner, *values)
    try:
        result = getattr(owner.value, call.method)(*plain, **named)
    except RAISED as problem:
        return interpreter.fail(call.node, type(problem).__name__, str(problem), owner)
    return _wrapped(interpreter, result, origins_of(owner, *values), call)


def _plain(interpreter: Interpreter, value: Value) -> Any:  # noqa: ANN401 - a constant of any type
    if isinstance(value, Constant):
        return value.value
    if isinstance(value, Container) and value.kind == "tuple" and not interpreter.store.get(value, "open"):
        parts = [constant_of(item, item) for item in interpreter.items(value)]
        return value if any(isinstance(part, Value) for part in parts) else tuple(parts)
    return value


def _wrapped(interpreter: Interpreter, result: Any, origins: Any, call: Call) -> Value:  # noqa: ANN401 - a constant
    if isinstance(result, (list, tuple)):
        items = [Constant(item, origins) for item in result]
        return interpreter.container("list" if isinstance(result, list) else "tuple", items, call.node)
    return Constant(result, origins)


@models("str.join")
def join_texts(interpreter: Interpreter, call: Call) -> Value:
    """Texts with another between them."""
    owner, value = call.receiver, call.argument(0)
    items, complete = interpreter.listed(value) if value is not None else ([], False)
    if (
        isinstance(owner, Constant)
        and complete
        and all(isinstance(item, Constant) and isinstance(item.value, str) for item in items)
    ):
        between: list[str] = [owner.value] * len(items)
        pieces = [piece for pair in zip(between, items, strict=True) for piece in (pair[0], constant_of(pair[1]))]
        return made_text(pieces[1:], owner, *items)
    return Result("text", None, tags_of(*items), origins_of(owner, *items), data=items)


@models("str.format")
def format_text(_interpreter: Interpreter, call: Call) -> Value:
    """A text with values put in, where they are known and no width can fill the memory."""
    owner = call.receiver
    values = (*call.arguments, *call.keywords.values())
    known = all(isinstance(value, Constant) for value in values) and call.complete
    if isinstance(owner, Constant) and known and _is_plain_format(owner.value):
        named = {name: constant_of(value) for name, value in call.keywords.items()}
        try:
            if _is_long(owner.value.count("{"), *values):
                return unknown_from(owner, *values)
            return made_text(
                [owner.value.format(*(constant_of(value) for value in call.arguments), **named)], owner, *values
            )
        except RAISED:
            return unknown_from(owner, *values)
    return Result("text", None, tags_of(*values), origins_of(owner, *values), data=_format_parts(owner, call))


def _format_parts(owner: Value | None, call: Call) -> list[Value]:
    """The pieces of a format as an f-string has them: text, value, text."""
    text = constant_of(owner)
    if not isinstance(text, str) or not _is_plain_format(text):
        return [owner or Unknown(), *call.arguments, *call.keywords.values()]
    parts: list[Value] = []
    number = 0
    for before, name, _, _ in Formatter().parse(text):
        parts += [Constant(before)] if before else []
        if name is not None:
            position = to_count(name) if name else number
            number += not name
            parts.append(call.argument(position, "" if position is not None else name) or Unknown())
    return parts


def _is_plain_format(text: str) -> bool:
    """Whether the fields of a format are names or numbers alone: no attribute, no item, no width."""
    try:
        fields = [(name, spec, conversion) for _, name, spec, conversion in Formatter().parse(text) if name is not None]
    except ValueError:
        return False
    return len(text) < LONGEST_TEXT and all(
        (not name or name.isidentifier() or name.isdigit()) and not spec and not conversion
        for name, spec, conversion in fields
    )


def percent_format(interpreter: Interpreter, text: Constant, given: Value) -> Value:
    """``"%s-%d" % (name, number)``, where all is known and nothing is padded."""
    values = list(interpreter.items(given)) if isinstance(given, Container) and given.kind == "tuple" else [given]
    tags, origins = tags_of(*values), origins_of(text, *values)
    if (
        len(text.value) < LONGEST_TEXT
        and _PLAIN_PERCENT.fullmatch(text.value)
        and all(isinstance(value, Constant) for value in values)
    ):
        try:
            if _is_long(1, *values):
                return Unknown(tags, origins)
            return made_text([text.value % tuple(constant_of(value) for value in values)], text, *values)
        except RAISED:
            return Unknown(tags, origins)
    pieces = re.split(r"%[sdifrg]", text.value)
    if len(pieces) != len(values) + 1:
        return Result("text", None, tags, origins, data=[text, *values])
    parts = [part for piece, value in zip(pieces, [*values, None], strict=True) for part in (Constant(piece), value)]
    return Result("text", None, tags, origins, data=[part for part in parts if part is not None and constant_of(part) != ""])


def _is_long(times: int, *values: Value) -> bool:
    """Whether texts that are put in so many times are too long to be worked with."""
    texts = [value.value for value in values if isinstance(value, Constant) and isinstance(value.value, (str, bytes))]
    return times * sum(map(len, texts)) > LONGEST_TEXT


@models("str.encode", "bytes.decode")
def encode(_interpreter: Interpreter, call: Call) -> Value:
    """Bytes of a text and back."""
    return unknown_from(call.receiver)


@models("str.zfill", "str.ljust", "str.rjust", "str.center", "str.isascii", "str.translate", "str.expandtabs")
def padded(_interpreter: Interpreter, call: Call) -> Value:
    """Not worked out."""
    return unknown_from(call.receiver)


def path_text(value: Value | None) -> str | None:
    """A path as text: a text itself or a ``Path``."""
    if isinstance(value, Result) and value.name == "pathlib.Path" and isinstance(value.data, str):
        return value.data
    plain = constant_of(value)
    return plain if isinstance(plain, str) else None


def join_paths(parts: list[Value]) -> Value:
    """Parts of a path put together; a ``Path`` where one of them is."""
    texts = [path_text(part) for part in parts]
    is_path = any(isinstance(part, Result) and part.name == "pathlib.Path" for part in parts)
    origins, tags = origins_of(*parts), tags_of(*parts)
    if all(text is not None for text in texts) and sum(len(text or "") for text in texts) < LONGEST_TEXT:
        joined = os.path.join(*(text or "" for text in texts)) if texts else ""
        return Result("pathlib.Path", None, tags, origins, data=joined) if is_path else Constant(joined, origins)
    if is_path:
        return Result("pathlib.Path", None, tags, origins, data=parts)
    pieces = [piece for part in parts for piece in (Constant("/"), part)][1:]
    return Result("text", None, tags, origins, data=pieces)


@models("os.path.join")
def os_join(interpreter: Interpreter, call: Call) -> Value:
    """``os.path.join``."""
    for number, argument in enumerate(call.arguments):
        if isinstance(argument, Choice):
            result: Value | None = None
            for option in argument.options:
                made = join_paths([*call.arguments[:number], option, *call.arguments[number + 1 :]])
                result = made if result is None else join(result, made)
            return result if result is not None else Unknown()
    return join_paths(list(call.arguments))


@models(
    "os.path.abspath",
    "os.path.realpath",
    "os.path.normpath",
    "os.path.expanduser",
    "os.path.expandvars",
    "os.fspath",
    "os.path.dirname",
    "os.path.basename",
)
def os_path(interpreter: Interpreter, call: Call) -> Value:
    """A path in another form; what depends on the machine is the path itself."""
    value = call.argument(0)
    text = path_text(value)
    if text is None:
        return Result("text", None, tags_of(value), origins_of(value), data=[value]) if value is not None else Unknown()
    if call.method in {"dirname", "basename", "normpath"}:
        text = getattr(os.path, call.method)(text)
    elif call.method in {"abspath", "realpath"}:
        text = os.path.normpath(text)
    elif call.method == "expanduser" and text.startswith("~"):
        return unknown_from(value)
    return Constant(text, origins_of(value))


@models("os.path.splitext")
def split_extension(interpreter: Interpreter, call: Call) -> Value:
    """A path without its ending, and the ending."""
    text = path_text(call.argument(0))
    if text is None:
        return interpreter.container("tuple", [unknown_from(call.argument(0))] * 2)
    origins = origins_of(call.argument(0))
    return interpreter.container("tuple", [Constant(part, origins) for part in os.path.splitext(text)])


@models("pathlib.Path", "pathlib.PosixPath", "pathlib.PurePath")
def make_path(_interpreter: Interpreter, call: Call) -> Value:
    """A path."""
    made = join_paths(list(call.arguments) or [Constant(".")])
    if isinstance(made, Result):
        return Result("pathlib.Path", call, made.tags, made.origins, data=made.data)
    return Result("pathlib.Path", call, made.tags, made.origins, data=constant_of(made))


@models("pathlib.Path.joinpath")
def join_to_path(_interpreter: Interpreter, call: Call) -> Value:
    """``Path.joinpath``."""
    return join_paths([call.receiver or Unknown(), *call.arguments])


@models("pathlib.Path.with_suffix", "pathlib.Path.with_name", "pathlib.Path.with_stem")
def renamed_path(_interpreter: Interpreter, call: Call) -> Value:
    """The path with another last part."""
    text, new = path_text(call.receiver), path_text(call.argument(0))
    tags, origins = tags_of(call.receiver, call.argument(0)), origins_of(call.receiver, call.argument(0))
    if text is None or new is None:
        return Result(
            "pathlib.Path", call, tags, origins, data=[call.receiver, Constant(f".{call.method}("), call.argument(0)]
        )
    folder, name = os.path.split(text)
    stem, suffix = os.path.splitext(name)
    name = {"with_suffix": stem + new, "with_name": new, "with_stem": new + suffix}[call.method]
    return Result("pathlib.Path", call, tags, origins, data=os.path.join(folder, name))


@models("pathlib.Path.resolve", "pathlib.Path.absolute", "pathlib.Path.expanduser")
def same_path(_interpreter: Interpreter, call: Call) -> Value:
    """The same place."""
    return call.receiver if call.receiver is not None else Unknown()


@models("?.startswith")
def starts(_interpreter: Interpreter, call: Call) -> Value | None:
    """A test whether a text that is not known is an address."""
    values = [call.argument(0)]
    if isinstance(values[0], Container):
        values = list(_interpreter.items(values[0]))
    if values and all(str(constant_of(value, "")).startswith(("http", "s3:", "gs:", "hf:")) for value in values):
        return unknown_from(call.receiver, add=("address",))
    return None


@models("pathlib.Path.as_posix", "pathlib.Path.__str__")
def path_as_text(_interpreter: Interpreter, call: Call) -> Value:
    """A path as text."""
    text = path_text(call.receiver)
    return Constant(text, origins_of(call.receiver)) if text is not None else unknown_from(call.receiver)


def _part(name: str) -> Any:  # noqa: ANN401 - a model
    def part(_interpreter: Interpreter, owner: Value) -> Value:
        text = path_text(owner)
        if text is None:
            return (
                Result("pathlib.Path", None, owner.tags, owner.origins)
                if name == "parent"
                else Unknown(owner.tags, owner.origins)
            )
        if name == "parent":
            return Result("pathlib.Path", None, owner.tags, owner.origins, data=_above(text))
        base = os.path.basename(text)
        stem, suffix = os.path.splitext(base)
        return Constant({"name": base, "stem": stem, "suffix": suffix}[name], owner.origins)

    return part


def _above(path: str) -> str:
    """The folder of a path; above the working folder it is ``..``."""
    path = os.path.normpath(path)
    return os.path.join(path, "..") if path == "." or os.path.basename(path) == ".." else os.path.dirname(path) or "."


@attributes("pathlib.Path.parents")
def parents(_interpreter: Interpreter, owner: Value) -> Value:
    """The folders above a path, from the nearest."""
    return Result("pathlib.Path.parents", None, owner.tags, owner.origins, data=owner)


@models("pathlib.Path.parents[]")
def parent_by_number(_interpreter: Interpreter, owner: Result, key: Value, _node: ast.AST) -> Value:
    """``path.parents[1]`` is the folder of the folder."""
    text, number = path_text(owner.data), constant_of(key)
    if text is None or type(number) is not int or not 0 <= number < _HIGHEST:
        return Result("pathlib.Path", None, owner.tags, owner.origins)
    for _ in range(number + 1):
        text = _above(text)
    return Result("pathlib.Path", None, owner.tags, owner.origins, data=text)


@models("os.path.relpath")
def relative_path(_interpreter: Interpreter, call: Call) -> Value | None:
    """A path as seen from the working folder."""
    text, start = path_text(call.argument(0)), path_text(call.argument(1, "start", Constant(".")))
    if text is None or start is None or os.path.isabs(text) != os.path.isabs(start):
        return None
    return Constant(os.path.relpath(text, start), origins_of(call.argument(0)))


for _name in ("parent", "name", "stem", "suffix"):
    attributes(f"pathlib.Path.{_name}")(_part(_name))


_HIGHEST, _MOST_NAMES = 12, 200
_CONFIGS = (".yaml", ".yml", ".toml", ".py")
_OF_PROJECTS = (".yaml", ".yml", ".json", ".toml", ".py", ".cfg", ".ini", ".txt")


@models(
    "pathlib.Path.exists",
    "pathlib.Path.is_file",
    "pathlib.Path.is_dir",
    "os.path.exists",
    "os.path.isfile",
    "os.path.isdir",
    "os.path.islink",
    "?.exists",
    "?.is_file",
    "?.is_dir",
)
def exists(interpreter: Interpreter, call: Call) -> Value:
    """Whether something is there: a file of the project is; of anything else that is a matter of the machine and the hour."""
    asked = call.receiver if call.receiver is not None else call.argument(0)
    path = path_text(asked) if asked is not None else None
    if path and call.method in {"exists", "isfile", "is_file"} and path.endswith(_OF_PROJECTS):
        folders = [*interpreter.launch.folders, "."]
        if any(os.path.isfile(os.path.join(folder, path)) for folder in folders):
            return Constant(True, origins_of(asked))
        if _names_no_file(asked, path, folders):
            return Constant(False, origins_of(asked))
    return Unknown(frozenset({"exists"}), kind="exists", bound=asked)


def _names_no_file(asked: Value | None, path: str, folders: Sequence[str]) -> bool:
    """Whether a flag names a config, as it is, that is not in its folder, which is here."""
    is_named = any(fact.origin == "flag" and fact.value == path for fact in asked.origins) if asked is not None else False
    above = os.path.dirname(path)
    is_config = path.endswith(_CONFIGS) and bool(above) and not os.path.isabs(path)
    return is_named and is_config and any(names_in(os.path.join(folder, above)) for folder in folders)


@models("open", "pathlib.Path.open", "io.open", "gzip.open", "codecs.open", "fsspec.open", "smart_open.open")
def open_file(_interpreter: Interpreter, call: Call) -> Value:
    """A file; which one is kept with it."""
    path = call.receiver if call.receiver is not None else call.argument(0, "file")
    return Result("file", call, tags_of(path), origins_of(path), data=path)


@models("file.read", "pathlib.Path.read_text", "file.readlines", "pathlib.Path.read_bytes")
def read_file(_interpreter: Interpreter, call: Call) -> Value:
    """What a file says; known to those who parse it, and to ``exec`` of a Python file of the program."""
    receiver = call.receiver
    path = receiver.data if isinstance(receiver, Result) and receiver.name == "file" else receiver
    text = path_text(path) if isinstance(path, Value) else None
    return Result("file text", call, tags_of(receiver), origins_of(receiver), data=text)


@models(
    "glob.glob",
    "glob.iglob",
    "os.listdir",
    "os.walk",
    "pathlib.Path.glob",
    "pathlib.Path.rglob",
    "pathlib.Path.iterdir",
    "os.scandir",
)
def list_files(interpreter: Interpreter, call: Call) -> Value:
    """Names of files: those of the program's own code are known, as programs import all modules of a folder; others are not."""
    if call.name in {"os.listdir", "os.scandir"}:
        names = _code_in(interpreter, path_text(call.argument(0, "path", Constant("."))))
        if names:
            origins = origins_of(call.argument(0))
            if call.method == "listdir":
                return interpreter.container("list", [Constant(name, origins) for name in names], call.node)
            entries = [
                Result("os.DirEntry", call, origins=origins, data=(path_text(call.argument(0)), name)) for name in names
            ]
            return interpreter.container("list", entries, call.node)
    return interpreter.container(
        "list", [Unknown(frozenset({"file"}), origins_of(call.receiver, *call.arguments))], call.node, is_open=True
    )


def _code_in(interpreter: Interpreter, folder: str | None) -> list[str]:
    """The names in a folder of the program that holds code."""
    if folder is None or interpreter.modules.find("", 1, os.path.join(folder, "x")) is None:
        return []
    names = names_in(folder)
    is_short = len(names) <= _MOST_NAMES and any(name.endswith(".py") for name in names)
    return [name for name in names if not name.startswith(("__pycache__", "."))] if is_short else []


@attributes("os.DirEntry.name")
def entry_part(_interpreter: Interpreter, owner: Value) -> Value:
    """The name of a file in a folder."""
    data = owner.data if isinstance(owner, Result) else None
    return Constant(data[1], owner.origins) if isinstance(data, tuple) else Unknown()


@attributes("os.DirEntry.path")
def entry_path(_interpreter: Interpreter, owner: Value) -> Value:
    """The path of a file in a folder."""
    data = owner.data if isinstance(owner, Result) else None
    return Constant(os.path.join(*data), owner.origins) if isinstance(data, tuple) else Unknown()


@models("os.DirEntry.is_file", "os.DirEntry.is_dir")
def entry_kind(_interpreter: Interpreter, call: Call) -> Value:
    """Whether it is a file, by its ending."""
    data = call.receiver.data if isinstance(call.receiver, Result) else None
    return Constant(("." in data[1]) == (call.method == "is_file")) if isinstance(data, tuple) else Unknown()


@models("os.getcwd", "pathlib.Path.cwd", "os.curdir")
def here(_interpreter: Interpreter, call: Call) -> Value:
    """The working folder."""
    return Constant(".") if call.method == "getcwd" else Result("pathlib.Path", call, data=".")


@models("file.__enter__")
def entered(_interpreter: Interpreter, call: Call) -> Value:
    """The file itself."""
    return call.receiver if call.receiver is not None else Unknown()
