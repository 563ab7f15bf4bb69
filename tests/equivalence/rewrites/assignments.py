"""Values get names, lose them, or are assigned in another way."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from .evaluation import first_evaluated, plain_numbers, replaced
from .program import (
    Block,
    Program,
    Scopes,
    assign,
    inside_try,
    is_simple,
    load,
    names_in,
    replace_statements,
    rewrite,
    scoped_blocks,
    single_target,
    suspends,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .scopes import Scope


@rewrite
def annotated_assignment(program: Program) -> None:
    """`self.x = v` becomes `self.x: object = v`, in functions and at module level; in a class body it would make fields."""
    for module in program.modules.values():
        scopes = Scopes(module)
        if not scopes.is_builtin("object"):
            continue
        for owner, block in list(scoped_blocks(module)):
            if isinstance(owner, ast.ClassDef):
                continue
            declared = {name for scope in scopes.root.descendants() for name in scope.elsewhere}
            for number, statement in enumerate(block):
                if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
                    continue
                target = statement.targets[0]
                if isinstance(target, ast.Attribute) or (isinstance(target, ast.Name) and target.id not in declared):
                    block[number] = ast.AnnAssign(
                        target, load("object"), statement.value, simple=int(isinstance(target, ast.Name))
                    )


@rewrite
def name_value_first(program: Program) -> None:
    """`f(a.b(), 1)` becomes `value = a.b()` and `f(value, 1)`."""
    for module in program.modules.values():
        scopes = Scopes(module)

        def change(statement: ast.stmt, scopes: Scopes = scopes) -> list[ast.stmt] | None:
            holder = "iter" if isinstance(statement, ast.For) else "test" if isinstance(statement, ast.If) else "value"
            handled = (ast.Expr, ast.Assign, ast.Return, ast.For, ast.If)
            value = getattr(statement, holder, None) if isinstance(statement, handled) else None
            if not isinstance(value, ast.Call) or suspends([value]):
                return None
            named = list(_named_arguments(value, scopes))
            return [*named, statement] if named else None

        replace_statements(module, change)


def _named_arguments(value: ast.Call, scopes: Scopes) -> Iterator[ast.stmt]:
    """Assignments of the arguments that do something, in the order in which the call evaluates them."""
    if not isinstance(value.func, ast.Name | ast.Attribute) or not is_simple(_root(value.func)):
        return
    slots: list[tuple[ast.expr, ast.keyword | None, int]] = [(part, None, number) for number, part in enumerate(value.args)]
    slots += [(keyword.value, keyword, 0) for keyword in value.keywords]
    for part, keyword, number in slots:
        if isinstance(part, ast.Starred) or (keyword is not None and keyword.arg is None):
            return
        if is_simple(part) or isinstance(part, ast.Lambda):
            continue
        name = scopes.fresh("value")
        yield assign(name, part)
        if keyword is None:
            value.args[number] = load(name)
        else:
            keyword.value = load(name)


def _root(node: ast.expr) -> ast.expr:
    while isinstance(node, ast.Attribute):
        node = node.value
    return node


@rewrite
def return_through_name(program: Program) -> None:
    """`return expression` becomes `result = expression` and `return result`."""
    for module in program.modules.values():
        scopes = Scopes(module)

        def change(statement: ast.stmt, scopes: Scopes = scopes) -> list[ast.stmt] | None:
            if not isinstance(statement, ast.Return) or statement.value is None or is_simple(statement.value):
                return None
            name = scopes.fresh("result")
            return [assign(name, statement.value), ast.Return(load(name))]

        replace_statements(module, change)


@rewrite
def inline_value(program: Program) -> None:
    """`x = a.b()` and `f(x)` become `f(a.b())`, for a local that is read once, and first, in the next statement."""
    for module in program.modules.values():
        for owner, block in list(scoped_blocks(module)):
            if isinstance(owner, ast.FunctionDef):
                _inline_values(Scopes(module), owner, block)


def _inline_values(scopes: Scopes, owner: ast.FunctionDef, block: Block) -> None:
    scope = scopes.by_node[owner]
    for number in range(len(block) - 2, -1, -1):
        statement, following = block[number], block[number + 1]
        name = single_target(statement)
        if name is None or not isinstance(statement, ast.Assign) or scopes.owner(scope, name) is not scope:
            continue
        reads = scopes.reads(scope, name)
        if len(reads) == 1 and len(scopes.places(scope, name)) == 2 and reads[0] in first_evaluated(following):
            block[number : number + 2] = [replaced(following, reads[0], statement.value)]


@rewrite
def walrus(program: Program) -> None:
    """`x = v` and `if x > 1:` become `if (x := v) > 1:`; so does a call whose first argument is `x`."""
    for module in program.modules.values():
        for owner, block in list(scoped_blocks(module)):
            if isinstance(owner, ast.ClassDef):
                continue
            for number in range(len(block) - 2, -1, -1):
                name, statement, following = single_target(block[number]), block[number], block[number + 1]
                if name is None or not isinstance(statement, ast.Assign) or suspends([statement.value]):
                    continue
                first = next(
                    (node for node in first_evaluated(following) if isinstance(node, ast.Name) and node.id == name), None
                )
                if first is not None and name not in _called_names(following):
                    target = ast.Name(name, ast.Store())
                    block[number : number + 2] = [replaced(following, first, ast.NamedExpr(target, statement.value))]


def _called_names(statement: ast.stmt) -> set[str]:
    """The names that are called in a statement: they are read before the arguments of the call."""
    return {node.func.id for node in ast.walk(statement) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)}


@rewrite
def augmented_assignment_written_out(program: Program) -> None:
    """`x += 1` becomes `x = x + 1`, for variables that hold plain numbers."""
    for module in program.modules.values():
        scopes = Scopes(module)
        for owner, block in list(scoped_blocks(module)):
            numbers = plain_numbers(module, scopes, owner)
            for number, statement in enumerate(block):
                if not isinstance(statement, ast.AugAssign) or not numbers(statement.target) or not numbers(statement.value):
                    continue
                before = ast.parse(ast.unparse(statement.target), mode="eval").body
                block[number] = ast.Assign([statement.target], ast.BinOp(before, statement.op, statement.value), lineno=0)


@rewrite
def tuple_assignment(program: Program) -> None:
    """`a = 1` and `b = f()` become `a, b = 1, f()`."""
    for module in program.modules.values():
        scopes = Scopes(module)
        for owner, block in list(scoped_blocks(module)):
            if not isinstance(owner, ast.ClassDef):
                _pair(scopes, scopes.by_node[owner], block, handles=inside_try(module, block))


def _pair(scopes: Scopes, scope: Scope, block: Block, *, handles: bool) -> None:
    for number in range(len(block) - 2, -1, -1):
        first, second = block[number], block[number + 1] if number + 1 < len(block) else None
        if second is None or not isinstance(first, ast.Assign) or not isinstance(second, ast.Assign):
            continue
        one, other = single_target(first), single_target(second)
        if one is None or other is None or one == other or one in names_in(second.value):
            continue
        seen_by_calls = (
            scopes.owner(scope, one) is not scope
            or isinstance(scope.node, ast.Module)
            or scopes.used_inside_others(scope, one)
        )
        if (seen_by_calls or handles) and not is_simple(second.value):
            continue
        targets = ast.Tuple([first.targets[0], second.targets[0]], ast.Store())
        block[number : number + 2] = [ast.Assign([targets], ast.Tuple([first.value, second.value], ast.Load()), lineno=0)]


@rewrite
def tuple_assignment_split(program: Program) -> None:
    """`a, b = x, y` becomes an assignment of each, through names of their own."""
    for module in program.modules.values():
        scopes = Scopes(module)

        def change(statement: ast.stmt, scopes: Scopes = scopes) -> list[ast.stmt] | None:
            if (
                not isinstance(statement, ast.Assign)
                or len(statement.targets) != 1
                or not isinstance(statement.value, ast.Tuple)
            ):
                return None
            target, values = statement.targets[0], statement.value.elts
            if not isinstance(target, ast.Tuple | ast.List) or len(target.elts) != len(values):
                return None
            if any(isinstance(part, ast.Starred) for part in [*target.elts, *values]):
                return None
            names = [scopes.fresh("part") for _ in values]
            first = [assign(name, value) for name, value in zip(names, values, strict=True)]
            return [
                *first,
                *(ast.Assign([part], load(name), lineno=0) for part, name in zip(target.elts, names, strict=True)),
            ]

        replace_statements(module, change)
