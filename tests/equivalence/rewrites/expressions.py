"""The same value, said with another expression: dictionaries, attributes, strings, paths."""

from __future__ import annotations

import ast
import keyword
import re
from typing import TYPE_CHECKING

from .evaluation import plain_numbers
from .program import Program, Scopes, call, dotted, load, rewrite, scoped_blocks

if TYPE_CHECKING:
    from collections.abc import Callable

_PRINTS = re.compile(r"print|log|write|info|warn|debug|error|format|raise|desc|postfix", re.IGNORECASE)


def _change_expressions(module: ast.Module, change: Callable[[ast.expr], ast.expr | None]) -> None:
    """Put another expression in the place of each for which `change` returns one, inner ones first; annotations stay."""

    class Change(ast.NodeTransformer):
        def generic_visit(self, node: ast.AST) -> ast.AST:
            for name, value in ast.iter_fields(node):
                if name in ("annotation", "returns", "format_spec") or (
                    isinstance(node, ast.ClassDef) and name in ("bases", "decorator_list")
                ):
                    continue
                if isinstance(value, list):
                    value[:] = [self.visit(part) if isinstance(part, ast.AST) else part for part in value]
                elif isinstance(value, ast.AST):
                    setattr(node, name, self.visit(value))
            other = change(node) if isinstance(node, ast.expr) else None
            return node if other is None else other

        def visit(self, node: ast.AST) -> ast.AST:
            return self.generic_visit(node)

    Change().visit(module)


@rewrite
def layout(program: Program) -> None:
    """Every module is written anew from its tree: without comments, with other quotes and line breaks."""
    program.layout = True


@rewrite
def dict_call_for_literal(program: Program) -> None:
    """`{"a": 1}` becomes `dict(a=1)`."""
    for module in program.modules.values():
        if Scopes(module).is_builtin("dict"):
            _change_expressions(module, _dict_call)


def _dict_call(node: ast.expr) -> ast.expr | None:
    if not isinstance(node, ast.Dict) or not node.keys:
        return None
    names = [key.value for key in node.keys if isinstance(key, ast.Constant) and isinstance(key.value, str)]
    usable = all(name.isidentifier() and name.isascii() and not keyword.iskeyword(name) for name in names)
    if not usable or len(set(names)) != len(node.keys):
        return None
    return ast.Call(load("dict"), [], [ast.keyword(name, value) for name, value in zip(names, node.values, strict=True)])


@rewrite
def literal_for_dict_call(program: Program) -> None:
    """`dict(a=1, **more)` becomes `{"a": 1, **more}`, where no key can come twice."""
    for module in program.modules.values():
        if Scopes(module).is_builtin("dict"):
            _change_expressions(module, _dict_literal)


def _dict_literal(node: ast.expr) -> ast.expr | None:
    if not isinstance(node, ast.Call) or dotted(node.func) != "dict" or node.args:
        return None
    if any(part.arg is None for part in node.keywords):
        return None
    return ast.Dict([ast.Constant(part.arg) for part in node.keywords], [part.value for part in node.keywords])


@rewrite
def getattr_for_attribute(program: Program) -> None:
    """`args.lr` becomes `getattr(args, "lr")`, for data of objects: not for methods, modules, and `self`."""
    for module in program.modules.values():
        scopes = Scopes(module)
        if not scopes.is_builtin("getattr"):
            continue
        imported = {
            part.asname or part.name.split(".")[0]
            for node in ast.walk(module)
            if isinstance(node, ast.Import | ast.ImportFrom)
            for part in node.names
        }
        classes = {node.name for node in ast.walk(module) if isinstance(node, ast.ClassDef)}
        methods = {id(node.func) for node in ast.walk(module) if isinstance(node, ast.Call)}

        def change(
            node: ast.expr,
            passed: frozenset[str] = frozenset(imported | classes | {"self", "cls"}),
            methods: set[int] = methods,
        ) -> ast.expr | None:
            if (
                not isinstance(node, ast.Attribute)
                or not isinstance(node.ctx, ast.Load)
                or node.attr.startswith("__")
                or id(node) in methods
            ):
                return None
            if not isinstance(node.value, ast.Name) or node.value.id in passed:
                return None
            return call("getattr", node.value, ast.Constant(node.attr))

        _change_expressions(module, change)


@rewrite
def format_for_fstring(program: Program) -> None:
    """`f"{a}-{b:03d}"` becomes `"{}-{:03d}".format(a, b)`."""
    for module in program.modules.values():
        _change_expressions(module, _formatted)


def _formatted(node: ast.expr) -> ast.expr | None:
    if not isinstance(node, ast.JoinedStr):
        return None
    pieces, values = [], []
    for part in node.values:
        if isinstance(part, ast.FormattedValue):
            specification = _specification(part)
            if specification is None:
                return None
            conversion = f"!{chr(part.conversion)}" if part.conversion != -1 else ""
            pieces.append("{" + conversion + (f":{specification}" if specification else "") + "}")
            values.append(part.value)
        elif isinstance(part, ast.Constant):
            pieces.append(str(part.value).replace("{", "{{").replace("}", "}}"))
    return call(ast.Attribute(ast.Constant("".join(pieces)), "format", ast.Load()), *values) if values else None


def _specification(part: ast.FormattedValue) -> str | None:
    """What stands behind the colon; None where it is computed."""
    if part.format_spec is None:
        return ""
    texts = part.format_spec.values if isinstance(part.format_spec, ast.JoinedStr) else []
    if len(texts) == 1 and isinstance(texts[0], ast.Constant) and isinstance(texts[0].value, str):
        return texts[0].value
    return None


@rewrite
def percent_for_fstring(program: Program) -> None:
    """`f"step_{step:04d}.pt"` becomes `"step_%04d.pt" % (step,)`, for numbers and words: a tensor would be shown differently."""
    for module in program.modules.values():
        scopes = Scopes(module)
        shown = {
            id(part)
            for node in ast.walk(module)
            if isinstance(node, ast.Call | ast.Raise) and _shows(node)
            for part in ast.walk(node)
        }
        for owner, block in list(scoped_blocks(module)):
            numbers = plain_numbers(module, scopes, owner, whole=True)

            def change(
                node: ast.expr, numbers: Callable[[ast.expr], bool] = numbers, shown: set[int] = shown
            ) -> ast.expr | None:
                return _percent(node, numbers, shown=id(node) in shown)

            for statement in block:
                if not isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                    _change_expressions(ast.Module([statement], []), change)


def _shows(node: ast.Call | ast.Raise) -> bool:
    return isinstance(node, ast.Raise) or bool(_PRINTS.search(dotted(node.func) or str(getattr(node.func, "attr", "print"))))


def _percent(node: ast.expr, numbers: Callable[[ast.expr], bool], *, shown: bool) -> ast.expr | None:
    if not isinstance(node, ast.JoinedStr):
        return None
    pieces, values = [], []
    for part in node.values:
        if isinstance(part, ast.FormattedValue):
            specification = _specification(part)
            plain = numbers(part.value) or (not shown and isinstance(part.value, ast.Name | ast.Attribute))
            known = specification == "" or (specification is not None and re.fullmatch(r"0?\d*d", specification) is not None)
            if part.conversion != -1 or not plain or not known:
                return None
            pieces.append(f"%{specification or 's'}")
            values.append(part.value)
        elif isinstance(part, ast.Constant):
            pieces.append(str(part.value).replace("%", "%%"))
    return ast.BinOp(ast.Constant("".join(pieces)), ast.Mod(), ast.Tuple(list(values), ast.Load())) if values else None


@rewrite
def fstring_for_path_join(program: Program) -> None:
    """`os.path.join(out, "last.pt")` becomes `f"{out}/last.pt"`, for folders that no file of the program leaves empty."""
    doubtful = _doubtful_folders(program)

    def change(node: ast.expr) -> ast.expr | None:
        if (
            not isinstance(node, ast.Call)
            or dotted(node.func) not in {"os.path.join", "osp.join", "path.join"}
            or node.keywords
            or len(node.args) < 2
        ):
            return None
        pieces: list[ast.expr] = []
        for number, part in enumerate(node.args):
            if isinstance(part, ast.Constant):
                last = number == len(node.args) - 1
                if (
                    not isinstance(part.value, str)
                    or not part.value
                    or (number and part.value[0] == "/")
                    or (not last and part.value[-1] == "/")
                ):
                    return None
            elif isinstance(part, ast.Starred) or _last_name(part) is None or _last_name(part) in doubtful:
                return None
            pieces += [ast.Constant("/")] if number else []
            inlined = part.values if isinstance(part, ast.JoinedStr) else [part]
            pieces += [
                piece if isinstance(piece, ast.Constant | ast.FormattedValue) else ast.FormattedValue(piece, -1)
                for piece in inlined
            ]
        return ast.JoinedStr(pieces)

    for module in program.modules.values():
        _change_expressions(module, change)


def _last_name(node: ast.expr) -> str | None:
    """The name by which a folder is known: `out` of `args.out`, `cfg["out"]` and `out`."""
    if isinstance(node, ast.JoinedStr):
        starts = node.values[0] if node.values else None
        return "" if isinstance(starts, ast.Constant) and not str(starts.value).startswith("/") else None
    if isinstance(node, ast.Subscript):
        return str(node.slice.value) if isinstance(node.slice, ast.Constant) else None
    if isinstance(node, ast.Call):
        return None
    return (dotted(node) or "").rpartition(".")[2] or None


def _doubtful_folders(program: Program) -> set[str]:
    """Names that somewhere get an empty text, one with a slash at its end, or one that starts at the root."""
    found: set[str] = set()
    for text in program.texts.values():
        found |= set(re.findall(r"""(\w+)["']?\s*[:=]\s*(?:""|''|~|null|["']?[^\s"']*/["']?\s*$)""", text, re.MULTILINE))
    for module in program.modules.values():
        for node in ast.walk(module):
            for name, value in _named_values(node):
                odd = isinstance(value, ast.Constant) and (
                    value.value is None
                    or (isinstance(value.value, str) and (value.value == "" or value.value.endswith("/")))
                )
                found |= {name} if odd else set()
    return found


def _named_values(node: ast.AST) -> list[tuple[str, ast.expr | None]]:
    if isinstance(node, ast.Assign):
        return [((dotted(target) or "").rpartition(".")[2], node.value) for target in node.targets]
    if isinstance(node, ast.AnnAssign):
        return [((dotted(node.target) or "").rpartition(".")[2], node.value)]
    if isinstance(node, ast.arguments):
        return list(zip([part.arg for part in node.args[len(node.args) - len(node.defaults) :]], node.defaults, strict=True))
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "add_argument":
        flags = [str(part.value).lstrip("-").replace("-", "_") for part in node.args if isinstance(part, ast.Constant)]
        defaults = [part.value for part in node.keywords if part.arg == "default"]
        return [(flag, defaults[0] if defaults else ast.Constant(None)) for flag in flags]
    return [(part.arg, part.value) for part in node.keywords if part.arg] if isinstance(node, ast.Call) else []
