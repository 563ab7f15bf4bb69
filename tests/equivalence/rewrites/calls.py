"""The same call, with its arguments given in another way."""

from __future__ import annotations

import ast

from .program import Program, Scopes, add_import, assign, dotted, is_simple, load, replace_statements, rewrite
from .signatures import Signatures


@rewrite
def keywords_for_positionals(program: Program) -> None:
    """`save(model, path)` becomes `save(model=model, path=path)`."""
    for path, module in program.modules.items():
        signatures = Signatures(program, path)
        for node in ast.walk(module):
            if not isinstance(node, ast.Call) or not node.args or any(isinstance(part, ast.Starred) for part in node.args):
                continue
            names = signatures.of(node)
            if names is not None and len(node.args) <= len(names):
                taken = [ast.keyword(name, value) for name, value in zip(names, node.args, strict=False)]
                node.args, node.keywords = [], [*taken, *node.keywords]


@rewrite
def positionals_for_keywords(program: Program) -> None:
    """`save(model=model, path=path)` becomes `save(model, path)`, as far as keywords stand in the order of the parameters."""
    for path, module in program.modules.items():
        signatures = Signatures(program, path)
        for node in ast.walk(module):
            if (
                not isinstance(node, ast.Call)
                or not node.keywords
                or any(isinstance(part, ast.Starred) for part in node.args)
            ):
                continue
            names = signatures.of(node) or []
            while node.keywords and len(node.args) < len(names) and node.keywords[0].arg == names[len(node.args)]:
                node.args.append(node.keywords.pop(0).value)


@rewrite
def partial_for_call(program: Program) -> None:
    """`f(a, k=1)` becomes `prepared = functools.partial(f, k=1)` and `prepared(a)`, for functions and classes with known names."""
    for path, module in program.modules.items():
        scopes, imported = Scopes(module), _plain_callables(program, path)
        name = scopes.fresh("functools") if "functools" in scopes.words else "functools"

        def change(
            statement: ast.stmt, scopes: Scopes = scopes, imported: set[str] = imported, name: str = name
        ) -> list[ast.stmt] | None:
            value = statement.value if isinstance(statement, ast.Expr | ast.Assign | ast.Return) else None
            if not isinstance(value, ast.Call) or (dotted(value.func) or "").split(".")[0] not in imported:
                return None
            if any(part.arg is None for part in value.keywords):
                return None
            early = [part for part in value.keywords if is_simple(part.value)]
            first = value.args[:1] if not early and len(value.args) > 1 and is_simple(value.args[0]) else []
            if not early and not first:
                return None
            prepared = scopes.fresh("prepared")
            partial = ast.Call(ast.Attribute(load(name), "partial", ast.Load()), [value.func, *first], early)
            value.args = value.args[len(first) :]
            value.keywords = [part for part in value.keywords if part not in early]
            value.func = load(prepared)
            return [assign(prepared, partial), statement]

        before = ast.unparse(module)
        replace_statements(module, change)
        if ast.unparse(module) != before:
            add_import(module, ast.Import([ast.alias("functools", None if name == "functools" else name)]))


def _plain_callables(program: Program, path: str) -> set[str]:
    """Names that stand for imported modules, functions and classes, or for functions and classes of the module."""
    module = program.modules[path]
    scopes = Scopes(module)
    found: set[str] = set()
    for name in scopes.root.bound:
        binders = scopes.binders(scopes.root, name)
        plain = len(binders) == 1 and isinstance(binders[0], ast.alias | ast.FunctionDef | ast.ClassDef)
        if plain and not any(name in scope.bound for scope in scopes.root.descendants() if scope is not scopes.root):
            found.add(name)
    return found
