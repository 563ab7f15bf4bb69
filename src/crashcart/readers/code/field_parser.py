"""The flags of a parser that is made of a config class: tyro, draccus, pyrallis, simple_parsing, HfArgumentParser.

    @dataclass class Args: lr: float = 1e-4; optim: Optim = field(...)      tyro.cli(Args)      --lr, --optim.momentum

All of them end the program on a flag that they do not know. The list is complete only where every class is the program's own,
down to its bases, and nothing renames a flag; below a field of a type that is not known any name is allowed.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from crashcart.readers.code.source import keyword, name_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.model import Fact
    from crashcart.readers.code.program import Program
    from crashcart.readers.code.source import Source

CALLS = ("tyro.cli", "draccus.parse", "pyrallis.parse", "simple_parsing.parse", "transformers.HfArgumentParser")
WRAPPERS = {"draccus.wrap", "pyrallis.wrap"}
PLAIN = {"int", "float", "str", "bool", "Path", "pathlib.Path", "Literal", "None"}
RENAMES = (
    "tyro.conf",
    "tyro.extras",
    "parse_known_args",
    "return_remaining_strings",
    "return_unknown_args",
    "sys.argv",
    "add_arguments",
)
OWN = {"draccus": ["--config_path"], "pyrallis": ["--config_path", "--CONFIG"], "simple_parsing": ["--config_path"]}
_DEEPEST = 5
Classes = dict[str, list[tuple["Source", ast.ClassDef]]]


def look(program: Program) -> Iterator[Fact]:
    """``code.field_parser``: flags, and ``*`` behind those below which any name may stand."""
    made = list(_made(program))
    if len(made) != 1:
        return
    source, node, kind, given = made[0]
    if any(word in one.text for one in program.sources for word in RENAMES):
        return
    classes: Classes = {}
    for one in program.sources:
        for owner in one.nodes(ast.ClassDef):
            classes.setdefault(owner.name, []).append((one, owner))
    flags: list[str] = []
    for name in given:
        if not _fields(classes, name, "", flags, _DEEPEST, flat=kind in {"transformers", "simple_parsing"}):
            return
    if flags:
        flags += OWN.get(kind, [])
        yield source.fact("code.field_parser", {"flags": flags, "kind": kind}, node)


def _made(program: Program) -> Iterator[tuple[Source, ast.Call | ast.FunctionDef, str, list[str]]]:
    """Each parser: where, of which library, and the classes that it is given."""
    for source in program.sources:
        for call in source.calls(*CALLS):
            first = call.args[0] if call.args else keyword(call, "config_class") or keyword(call, "dataclass_types")
            inner = first.elts if isinstance(first, (ast.Tuple, ast.List)) else [first] if first is not None else []
            plain = all(isinstance(one, ast.Name) for one in inner)
            odd = len(call.args) > 1 or any(one.arg in {"args", "prog", "config"} for one in call.keywords)
            yield (
                source,
                call,
                source.called(call.func).split(".")[0],
                [name_of(one) for one in inner] if plain and not odd else [],
            )
        for function in source.nodes(ast.FunctionDef):
            for one in function.decorator_list:
                called = source.called(one.func if isinstance(one, ast.Call) else one)
                if called in WRAPPERS:
                    kinds = [name_of(arg.annotation) for arg in function.args.args if arg.annotation is not None]
                    yield source, function, called.split(".")[0], kinds


def _fields(classes: Classes, name: str, above: str, flags: list[str], depth: int, *, flat: bool) -> bool:
    """Put the flags of a class into the list; whether they are all."""
    found = classes.get(name, [])
    if len(found) != 1 or not depth:
        return False
    _, owner = found[0]
    for base in owner.bases:
        if name_of(base).rpartition(".")[2] not in {"Generic", "object"} and not _fields(
            classes, name_of(base), above, flags, depth - 1, flat=flat
        ):
            return False
    if not any("dataclass" in name_of(one) or "define" in name_of(one) for one in owner.decorator_list):
        return False
    for one in owner.body:
        if isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name):
            kind = _kind(one.annotation, classes)
            full = f"{above}{one.target.id}"
            if kind in classes:
                below = "" if flat else f"{full}."
                flags += [f"--{full}"]
                if not _fields(classes, kind, below, flags, depth - 1, flat=flat):
                    flags += [f"--{full}.*"]
            else:
                flags += [f"--{full}", f"--no-{full}", f"--{above}no-{one.target.id}"]
                flags += [] if kind in PLAIN else [f"--{full}.*"]
        elif not isinstance(one, (ast.Expr, ast.FunctionDef, ast.Assign, ast.Pass)):
            return False
    return True


def _kind(node: ast.expr, classes: Classes) -> str:
    """The one type of a field; empty for a choice between several classes, which become commands of their own."""
    text = node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""
    if text:
        return text if text.isidentifier() else ""
    names = {name_of(one) for one in ast.walk(node) if isinstance(one, (ast.Name, ast.Attribute))} - {
        "Optional",
        "typing.Optional",
    }
    if names & set(classes) and len(names) > 1:
        return ""
    return names.pop() if len(names) == 1 else next((one for one in names if one in PLAIN), "")
