"""What the program takes where the user says nothing: defaults of parsers, of config classes, and constants at the top.

    parser.add_argument("--batch_size", type=int, default=8)      @click.option("--lr", default=1e-4)
    @dataclass class TrainArgs: batch_size: int = 8               HfArgumentParser(TrainArgs), tyro.cli, draccus, simple_parsing
    BATCH_SIZE = 8                                                config = {"batch_size": 8, "lr": 1e-4}

A dataclass counts only where a parser of settings is given it, or where it is called a config and made with nothing but what a
file says (``Config()``, ``Config(**values)``): most dataclasses of a program are no settings.
"""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING, Any

from crashcart.model import Fact
from crashcart.names import canonical, is_secret
from crashcart.readers.code.source import keyword, name_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.readers.code.program import Program
    from crashcart.readers.code.source import Source

PARSERS = (
    "HfArgumentParser",
    "TrlParser",
    "tyro.cli",
    "draccus.parse",
    "pyrallis.parse",
    "simple_parsing.parse",
    "add_arguments",
    "cli",
)
WRAPPERS = {"draccus.wrap", "pyrallis.wrap", "parser.wrap", "simple_parsing.wrap"}
NUMBERS = {"int": int, "float": float}
SETTINGS = re.compile(r"(?i)(?:\w*_)?(?:cfg|config|conf|hparams|params|settings|hyperparameters)")
OWN_CONFIG = re.compile(r"\w*(?:Config|Cfg|Args|Arguments|Settings?|H?Params|Hyper\w{0,40}|Options?)")
RECORDS = {"dataclass", "BaseModel", "BaseSettings", "define", "Struct"}
UNKNOWN = object()
DEEPEST = 4


def look(program: Program) -> Iterator[Fact]:
    """Settings with the origin ``default``, at the value."""
    classes = {node.name: (source, node) for source in program.sources for node in source.nodes(ast.ClassDef)}
    for source in program.sources:
        yield from _argparse(source)
        yield from _click(source)
        if source.path == program.entry:
            yield from _constants(source)
    for name in dict.fromkeys((*_config_classes(program), *_made_as_they_are(program, classes))):
        if name in classes:
            yield from _fields(*classes[name], classes, "")


def _fact(source: Source, name: str, value: Any, node: ast.expr, spelling: str) -> Iterator[Fact]:  # noqa: ANN401 - any value
    found = canonical(name)
    if value is UNKNOWN or value is None or is_secret(name):
        return
    yield Fact(found or f"default.{name}", value, source.evidence(node), "default", spelling, source.span(node))


def _argparse(source: Source) -> Iterator[Fact]:
    for call in source.calls("add_argument"):
        names = [one.value for one in call.args if isinstance(one, ast.Constant) and isinstance(one.value, str)]
        default = keyword(call, "default")
        if not names or default is None:
            continue
        flag = next((name for name in names if name.startswith("--")), names[0])
        dest = keyword(call, "dest")
        name = (
            dest.value
            if isinstance(dest, ast.Constant) and isinstance(dest.value, str)
            else flag.lstrip("-").replace("-", "_")
        )
        value = _converted(_constant(default), keyword(call, "type"))
        yield from _fact(source, name, value, default, flag)


def _click(source: Source) -> Iterator[Fact]:
    for call in source.calls("click.option"):
        flag = next(
            (one.value for one in call.args if isinstance(one, ast.Constant) and str(one.value).startswith("--")), None
        )
        default = keyword(call, "default")
        if isinstance(flag, str) and default is not None:
            yield from _fact(source, flag.lstrip("-").replace("-", "_"), _constant(default), default, flag)


def _constants(source: Source) -> Iterator[Fact]:
    """Constants at the top of the entry file in capitals, all where a configurator may change them, and dicts of settings."""
    everything = "configurator" in source.text
    for node in source.tree.body:
        if not isinstance(node, ast.Assign) or len(node.targets) != 1 or not isinstance(node.targets[0], ast.Name):
            continue
        name = node.targets[0].id
        if isinstance(node.value, ast.Dict) and SETTINGS.fullmatch(name):
            for key, value in zip(node.value.keys, node.value.values, strict=True):
                if isinstance(key, ast.Constant) and isinstance(key.value, str):
                    yield from _fact(source, key.value, _constant(value), value, key.value)
        elif (everything or name.isupper()) and canonical(name):
            yield from _fact(source, name, _constant(node.value), node.value, f"--{name}" if everything else name)


def _config_classes(program: Program) -> Iterator[str]:
    """The classes that a parser of settings is given."""
    for source in program.sources:
        for call in source.calls(*PARSERS):
            for given in (*call.args, *(one.value for one in call.keywords)):
                inner = given.elts if isinstance(given, (ast.Tuple, ast.List)) else [given]
                yield from (name_of(one).rpartition(".")[2] for one in inner)
        for function in source.nodes(ast.FunctionDef):
            if any(source.called(one) in WRAPPERS for one in function.decorator_list):
                yield from (name_of(one.annotation) for one in function.args.args if one.annotation is not None)


def _made_as_they_are(program: Program, classes: dict[str, tuple[Source, ast.ClassDef]]) -> Iterator[str]:
    """Config classes of which the program makes one, with no value of its own; not those that are fields of another."""
    made: dict[str, list[ast.Call]] = {}
    names = [name for name in classes if OWN_CONFIG.fullmatch(name)]
    for call in (call for source in program.sources for call in source.calls(*names)):
        made.setdefault(name_of(call.func).rpartition(".")[2], []).append(call)
    inner = {name_of(one.annotation) for _, node in classes.values() for one in node.body if isinstance(one, ast.AnnAssign)}
    for name, calls in made.items():
        node = classes[name][1]
        said = [name_of(one.func if isinstance(one, ast.Call) else one) for one in (*node.decorator_list, *node.bases)]
        plain = all(not call.args and all(word.arg is None for word in call.keywords) for call in calls)
        if plain and name not in inner and any(one.rpartition(".")[2] in RECORDS for one in said):
            yield name


def _fields(
    source: Source, node: ast.ClassDef, classes: dict[str, tuple[Source, ast.ClassDef]], above: str, deep: int = 0
) -> Iterator[Fact]:
    """The fields of a config class, those of the classes within it below their names."""
    for one in node.body:
        if not isinstance(one, ast.AnnAssign) or not isinstance(one.target, ast.Name):
            continue
        name = f"{above}.{one.target.id}" if above else one.target.id
        inner = name_of(one.annotation)
        if inner in classes and deep < DEEPEST:
            yield from _fields(*classes[inner], classes, name, deep + 1)
            continue
        value = one.value
        if isinstance(value, ast.Call) and name_of(value.func).endswith("field"):
            value = keyword(value, "default")
        if value is not None:
            yield from _fact(source, name, _constant(value), value, f"--{name}")


def _constant(node: ast.expr) -> Any:  # noqa: ANN401 - a value of any type
    try:
        return ast.literal_eval(node)
    except (ValueError, TypeError):
        return UNKNOWN


def _converted(value: Any, kind: ast.expr | None) -> Any:  # noqa: ANN401 - a value of any type
    """Argparse puts a default that is text through ``type``."""
    if isinstance(value, str) and isinstance(kind, ast.Name) and kind.id in NUMBERS:
        try:
            return NUMBERS[kind.id](value)
        except ValueError:
            return UNKNOWN
    return value
