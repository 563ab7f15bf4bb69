"""The flags that a program's own argparse parser knows, and whether they are all that it knows.

Only the parser of the entry file counts, or the single one of the program: a module that is imported may hold a command line
of its own. The list is complete only where nothing can add to it unseen: no ``parse_known_args``, no sub-commands, no parent
parsers, no flags made in a loop, the parser given to no function but the program's own, ``sys.argv`` touched by nobody else.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any

from crashcart.readers.code.source import FUNCTIONS, inside, keyword, name_of, parent

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.model import Fact
    from crashcart.readers.code.program import Program
    from crashcart.readers.code.source import Source

HARMLESS = {
    "add_argument", "parse_args", "add_argument_group", "add_mutually_exclusive_group", "set_defaults", "print_help", "error",
    "description", "epilog", "format_help", "print_usage", "get_default", "exit", "usage", "prog",
}  # fmt: skip
GROUPS = {"add_argument_group", "add_mutually_exclusive_group"}
UNKNOWN = object()
DEEPEST = 4


def look(program: Program) -> Iterator[Fact]:
    """``code.parser``: its flags, each with names, type, choices, nargs, action, required; and whether that is all."""
    found = [
        (source, call) for source in program.sources for call in source.calls("argparse.ArgumentParser", "ArgumentParser")
    ]
    own = [(source, call) for source, call in found if source.path == program.entry] or found
    if len(own) != 1:
        return
    source, call = own[0]
    if source.called(call.func).startswith(("jsonargparse", "configargparse", "simple_parsing", "tap")):
        return
    value = _Parser(program, source, call).described()
    if value is not None:
        yield source.fact("code.parser", value, call)


class _Parser:
    def __init__(self, program: Program, source: Source, call: ast.Call) -> None:
        self.program, self.source, self.call = program, source, call
        self.complete = not (
            call.args
            or any(
                one.arg in {None, "parents", "fromfile_prefix_chars", "prefix_chars", "allow_abbrev"}
                for one in call.keywords
            )
        )
        self.flags: list[dict[str, Any]] = []

    def described(self) -> dict[str, Any] | None:
        above = parent(self.call)
        if not (isinstance(above, ast.Assign) and len(above.targets) == 1 and isinstance(above.targets[0], ast.Name)):
            return None
        scope = inside(self.call, *FUNCTIONS) or self.source.tree
        name = above.targets[0].id
        shared = any(one.endswith(f".{name}") for source in self.program.sources for one in source.names.values())
        if scope is self.source.tree and shared:
            self.complete = False  # other files import it, and may add to it
        self.uses(name, scope, self.source, certain=True)
        self.outside()
        return {"complete": self.complete, "flags": self.flags}

    def uses(self, name: str, scope: ast.AST, source: Source, *, certain: bool, deep: int = 0) -> None:
        """Everything that is done with the parser under a name."""
        named = [one for one in ast.walk(scope) if isinstance(one, ast.Name) and one.id == name]
        for one in named:
            above = parent(one)
            if isinstance(above, ast.Attribute):
                self.attribute(above, scope, source, certain=certain, deep=deep)
            elif isinstance(above, ast.Call) and one in above.args:
                self.passed(above, above.args.index(one), certain=certain, deep=deep)
            elif isinstance(above, ast.Return) and isinstance(scope, ast.FunctionDef) and not deep:
                self.returned(scope)
            elif isinstance(above, ast.keyword):
                self.complete = False

    def returned(self, function: ast.FunctionDef) -> None:
        """``get_parser().parse_args()``, or a name that stands for what ``get_parser()`` gave."""
        for source in self.program.sources:
            for call in source.calls(function.name):
                above = parent(call)
                if isinstance(above, ast.Attribute):
                    self.attribute(above, source.tree, source, certain=True, deep=1)
                elif isinstance(above, ast.Assign) and isinstance(above.targets[0], ast.Name):
                    scope = inside(call, *FUNCTIONS) or source.tree
                    self.uses(above.targets[0].id, scope, source, certain=True, deep=1)
                else:
                    self.complete = False

    def attribute(self, node: ast.Attribute, scope: ast.AST, source: Source, *, certain: bool, deep: int) -> None:
        call = parent(node)
        if node.attr not in HARMLESS:
            self.complete = False
        elif not isinstance(call, ast.Call):
            return
        elif node.attr == "add_argument":
            self.flag(call, source, certain=certain)
        elif node.attr == "parse_args" and not _of_the_command(call):
            self.complete = False
        elif node.attr in GROUPS:
            target = parent(call)
            if isinstance(target, ast.Assign) and isinstance(target.targets[0], ast.Name):
                self.uses(
                    target.targets[0].id,
                    scope,
                    source,
                    certain=certain and node.attr != "add_mutually_exclusive_group",
                    deep=deep + 1,
                )
            elif isinstance(target, ast.Attribute) and isinstance(parent(target), ast.Call):
                self.flag(parent(target), source, certain=False)  # type: ignore[arg-type]
            else:
                self.complete = False

    def passed(self, call: ast.Call, position: int, *, certain: bool, deep: int) -> None:
        """A function of the program's own that adds flags to the parser it is given."""
        name = name_of(call.func).rpartition(".")[2]
        for source in self.program.sources:
            for function in source.nodes(ast.FunctionDef):
                if function.name == name and position < len(function.args.args) and deep < DEEPEST:
                    self.uses(function.args.args[position].arg, function, source, certain=certain, deep=deep + 1)
                    return
        self.complete = False

    def flag(self, call: ast.Call, source: Source, *, certain: bool) -> None:
        names = [one.value for one in call.args if isinstance(one, ast.Constant) and isinstance(one.value, str)]
        if (
            len(names) != len(call.args)
            or not names
            or any(one.arg is None for one in call.keywords)
            or inside(call, ast.For, ast.While)
        ):
            self.complete = False
            return
        given = {one.arg: one.value for one in call.keywords}
        constants = {
            name: _constant(value)
            for name, value in given.items()
            if name in {"required", "nargs", "choices", "action", "dest"}
        }
        kind = given.get("type")
        self.flags.append(
            {
                "names": names,
                "type": (kind.id if isinstance(kind, ast.Name) else "other") if kind is not None else "str",
                "where": source.evidence(call),
                "certain": certain and inside(call, ast.If, ast.Try) is None,
                **{name: value for name, value in constants.items() if value is not UNKNOWN},
                "odd": [name for name, value in constants.items() if value is UNKNOWN],
            }
        )

    def outside(self) -> None:
        """Others that read or change the command line; abbreviations and config files would be theirs."""
        for source in self.program.sources:
            if "sys.argv" in source.text and any(
                source.called(one) == "sys.argv" and not _is_read(one) for one in source.nodes(ast.Attribute)
            ):
                self.complete = False
            if "parse_known_args" in source.text and source is self.source:
                self.complete = False


def _is_read(node: ast.Attribute) -> bool:
    """``sys.argv`` that is only looked at: printed, joined, logged."""
    above = parent(node)
    if isinstance(above, ast.Subscript):
        return isinstance(above.ctx, ast.Load)
    if isinstance(above, ast.Call):
        return node in above.args
    return isinstance(above, (ast.FormattedValue, ast.Compare))


def _of_the_command(call: ast.Call) -> bool:
    """Whether ``parse_args`` reads the real command line: no arguments, ``sys.argv[1:]``, or a parameter that is None."""
    given = call.args[0] if call.args else keyword(call, "args")
    if given is None:
        return not call.keywords
    if isinstance(given, ast.Name):
        function = inside(call, ast.FunctionDef)
        names = [one.arg for one in function.args.args] if function is not None else []
        defaults = function.args.defaults if function is not None else []
        at = names.index(given.id) - len(names) if given.id in names else 0
        default = defaults[at] if -len(defaults) <= at < 0 else None
        return isinstance(default, ast.Constant) and default.value is None
    return name_of(given) == "sys.argv"


def _constant(node: ast.expr) -> Any:  # noqa: ANN401 - a value of any type
    try:
        return ast.literal_eval(node)
    except (ValueError, TypeError):
        return UNKNOWN
