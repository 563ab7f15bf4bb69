"""In which order Python evaluates the parts of a statement, and which variables hold plain numbers."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from .program import Scopes, dotted, own_nodes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from .scopes import Scope

_WHOLE_CALLS = frozenset({"len", "int"})
_NUMBER_CALLS = _WHOLE_CALLS | {"float", "round", "time.time", "time.perf_counter"}


def first_evaluated(statement: ast.stmt) -> list[ast.expr]:
    """The parts of a statement before which it evaluates nothing but names, constants, and the function that it calls."""
    value: ast.expr | None = None
    if isinstance(statement, ast.If | ast.Assert):
        value = statement.test
    elif isinstance(statement, ast.Expr | ast.Assign | ast.Return):
        value = statement.value
    elif isinstance(statement, ast.For):
        value = statement.iter
    return list(_first(value)) if value is not None else []


def _first(node: ast.expr) -> Iterator[ast.expr]:
    yield node
    inner: ast.expr | None = None
    if isinstance(node, ast.Compare | ast.BinOp):
        inner = node.left
    elif isinstance(node, ast.UnaryOp):
        inner = node.operand
    elif isinstance(node, ast.BoolOp):
        inner = node.values[0]
    elif isinstance(node, ast.Attribute | ast.Subscript):
        inner = node.value
    elif isinstance(node, ast.IfExp):
        inner = node.test
    elif isinstance(node, ast.Tuple | ast.List) and node.elts:
        inner = node.elts[0]
    elif isinstance(node, ast.Call):
        yield from _first_of_call(node)
    if inner is not None:
        yield from _first(inner)


def _first_of_call(node: ast.Call) -> Iterator[ast.expr]:
    if isinstance(node.func, ast.Attribute) and dotted(node.func) is None:
        yield from _first(node.func)
    elif isinstance(node.func, ast.Attribute):
        yield from _first(node.func)
        yield from _first_argument(node)
    elif isinstance(node.func, ast.Name):
        yield from _first_argument(node)


def _first_argument(node: ast.Call) -> Iterator[ast.expr]:
    for argument in node.args:
        if isinstance(argument, ast.Constant):
            continue
        if not isinstance(argument, ast.Starred):
            yield from _first(argument)
        return
    if node.keywords and node.keywords[0].arg is not None:
        yield from _first(node.keywords[0].value)


def replaced(statement: ast.stmt, old: ast.expr, new: ast.expr) -> ast.stmt:
    """The statement with another expression in the place of one."""

    class Replace(ast.NodeTransformer):
        def visit(self, node: ast.AST) -> ast.AST:
            return new if node is old else super().generic_visit(node)

    changed = Replace().visit(statement)
    assert isinstance(changed, ast.stmt)
    return changed


def plain_numbers(module: ast.Module, scopes: Scopes, owner: ast.AST, *, whole: bool = False) -> Callable[[ast.expr], bool]:
    """Whether an expression is sure to be a plain Python number (a whole one, if asked), where it stands in `owner`."""
    scope = scopes.by_node[owner]

    def is_number(node: ast.expr, seen: frozenset[str] = frozenset()) -> bool:
        if isinstance(node, ast.Constant):
            return isinstance(node.value, int if whole else int | float)
        if isinstance(node, ast.UnaryOp):
            return is_number(node.operand, seen)
        if isinstance(node, ast.BinOp):
            return (
                is_number(node.left, seen)
                and is_number(node.right, seen)
                and not (whole and isinstance(node.op, ast.Div | ast.Pow))
            )
        if isinstance(node, ast.Call):
            if whole:
                return dotted(node.func) in _WHOLE_CALLS
            return dotted(node.func) in _NUMBER_CALLS or (isinstance(node.func, ast.Attribute) and node.func.attr == "item")
        if isinstance(node, ast.Name):
            home = scopes.owner(scope, node.id)
            values = list(_assigned(scopes, home, node.id)) if home is not None else [None]
            return node.id in seen or all(value is not None and is_number(value, seen | {node.id}) for value in values)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self":
            values = list(_set_on_self(module, node.attr))
            key = f"self.{node.attr}"
            return key in seen or (
                bool(values) and all(value is not None and is_number(value, seen | {key}) for value in values)
            )
        return False

    return is_number


def _assigned(scopes: Scopes, home: Scope, name: str) -> Iterator[ast.expr | None]:
    """Every value that a variable gets; None for one that cannot be told."""
    owners = {id(target): statement for statement in ast.walk(scopes.root.node) for target in _targets(statement)}
    for place in scopes.binders(home, name):
        statement = owners.get(id(place))
        if isinstance(place, ast.Global | ast.Nonlocal):
            continue
        if isinstance(statement, ast.For):
            counts = isinstance(statement.iter, ast.Call) and dotted(statement.iter.func) == "range"
            yield ast.Constant(0) if counts and statement.target is place else None
        elif isinstance(statement, ast.Assign | ast.AnnAssign | ast.AugAssign):
            yield statement.value
        else:
            yield None


def _targets(statement: ast.AST) -> list[ast.expr]:
    if isinstance(statement, ast.Assign):
        return statement.targets
    return [statement.target] if isinstance(statement, ast.AnnAssign | ast.AugAssign | ast.For) else []


def _set_on_self(module: ast.Module, name: str) -> Iterator[ast.expr | None]:
    """Every value that an attribute of that name gets, of whatever object."""
    for node in ast.walk(module):
        for target in _targets(node):
            parts = [part for part in [target, *own_nodes(target)] if isinstance(part, ast.Attribute) and part.attr == name]
            if parts and isinstance(parts[0].ctx, ast.Store):
                plain = isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign) and parts[0] is target
                yield getattr(node, "value", None) if plain else None
