"""Branches are turned round, nested, flattened, or become expressions."""

from __future__ import annotations

import ast
import copy

from .program import Block, Program, blocks, is_simple, replace_statements, rewrite

_OPPOSITE: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
_MIRRORED: dict[type[ast.cmpop], type[ast.cmpop]] = {ast.Lt: ast.Gt, ast.Gt: ast.Lt, ast.LtE: ast.GtE, ast.GtE: ast.LtE}
_LEAVES = (ast.Return, ast.Raise, ast.Continue, ast.Break)


def negated(test: ast.expr) -> ast.expr:
    """The opposite of a condition, as one would write it."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return test.operand
    if isinstance(test, ast.Compare) and len(test.ops) == 1 and type(test.ops[0]) in _OPPOSITE:
        return ast.Compare(test.left, [_OPPOSITE[type(test.ops[0])]()], test.comparators)
    return ast.UnaryOp(ast.Not(), test)


@rewrite
def inverted_if(program: Program) -> None:
    """`if c: a else: b` becomes `if not c: b else: a`."""
    for module in program.modules.values():
        for node in ast.walk(module):
            if isinstance(node, ast.If) and node.orelse:
                node.test, node.body, node.orelse = negated(node.test), node.orelse, node.body


@rewrite
def early_exit_to_else(program: Program) -> None:
    """`if c: return` and what follows become `if c: return` with what follows in its `else`."""
    for module in program.modules.values():
        for block in blocks(module):
            for number in range(len(block) - 2, -1, -1):
                statement = block[number]
                if isinstance(statement, ast.If) and not statement.orelse and isinstance(statement.body[-1], _LEAVES):
                    statement.orelse = block[number + 1 :]
                    del block[number + 1 :]


@rewrite
def else_to_early_exit(program: Program) -> None:
    """`if c: return x else: rest` becomes `if c: return x`, with the rest behind it."""
    for module in program.modules.values():

        def change(statement: ast.stmt) -> list[ast.stmt] | None:
            if not isinstance(statement, ast.If) or not statement.orelse or not isinstance(statement.body[-1], _LEAVES):
                return None
            rest, statement.orelse = statement.orelse, []
            return [statement, *rest]

        replace_statements(module, change)


@rewrite
def conditional_expression_to_if(program: Program) -> None:
    """`x = a if c else b` becomes an `if` statement; so does `return a if c else b`."""
    for module in program.modules.values():

        def change(statement: ast.stmt) -> list[ast.stmt] | None:
            if not isinstance(statement, ast.Assign | ast.Return) or not isinstance(statement.value, ast.IfExp):
                return None
            choice, other = statement.value, copy.deepcopy(statement)
            statement.value, other.value = choice.body, choice.orelse
            return [ast.If(choice.test, [statement], [other])]

        replace_statements(module, change, classes=True)


@rewrite
def if_to_conditional_expression(program: Program) -> None:
    """`if c: x = a else: x = b` becomes `x = a if c else b`; so do two returns."""
    for module in program.modules.values():
        for block in blocks(module):
            _join_returns(block)
        replace_statements(module, _joined)


def _joined(statement: ast.stmt) -> list[ast.stmt] | None:
    if not isinstance(statement, ast.If) or len(statement.body) != 1 or len(statement.orelse) != 1:
        return None
    first, second = statement.body[0], statement.orelse[0]
    both_return = isinstance(first, ast.Return) and isinstance(second, ast.Return) and first.value and second.value
    if both_return and isinstance(first, ast.Return) and isinstance(second, ast.Return) and first.value and second.value:
        return [ast.Return(ast.IfExp(statement.test, first.value, second.value))]
    if not isinstance(first, ast.Assign) or not isinstance(second, ast.Assign):
        return None
    same = [ast.dump(target) for target in first.targets] == [ast.dump(target) for target in second.targets]
    if not same or not isinstance(first.targets[0], ast.Name | ast.Attribute) or len(first.targets) != 1:
        return None
    return [ast.Assign(first.targets, ast.IfExp(statement.test, first.value, second.value), lineno=0)]


def _join_returns(block: Block) -> None:
    """`if c: return a` and `return b` at the end of a block become one statement."""
    if len(block) < 2 or not isinstance(block[-1], ast.Return) or block[-1].value is None:
        return
    choice, other = block[-2], block[-1].value
    lone = isinstance(choice, ast.If) and not choice.orelse and len(choice.body) == 1
    first = choice.body[0] if lone and isinstance(choice, ast.If) else None
    if isinstance(choice, ast.If) and isinstance(first, ast.Return) and first.value is not None:
        block[-2:] = [ast.Return(ast.IfExp(choice.test, first.value, other))]


@rewrite
def comparison_forms(program: Program) -> None:
    """`a < b < c` becomes `a < b and b < c`, `x is not None` becomes `not x is None`, and `n > 1` becomes `1 < n`."""

    class Change(ast.NodeTransformer):
        def visit_Compare(self, node: ast.Compare) -> ast.expr:
            self.generic_visit(node)
            if len(node.ops) == 1:
                return _other_comparison(node)
            if not all(is_simple(part) for part in node.comparators[:-1]):
                return node
            parts: list[ast.expr] = []
            left = node.left
            for operator, right in zip(node.ops, node.comparators, strict=True):
                parts.append(ast.Compare(left, [operator], [right]))
                left = copy.deepcopy(right)
            return ast.BoolOp(ast.And(), parts)

    for module in program.modules.values():
        Change().visit(module)


def _other_comparison(node: ast.Compare) -> ast.expr:
    operator, right = type(node.ops[0]), node.comparators[0]
    if operator in (ast.IsNot, ast.NotIn):
        return ast.UnaryOp(ast.Not(), ast.Compare(node.left, [_OPPOSITE[operator]()], [right]))
    if operator in _MIRRORED and isinstance(right, ast.Constant):
        return ast.Compare(right, [_MIRRORED[operator]()], [node.left])
    return node


@rewrite
def de_morgan(program: Program) -> None:
    """A condition `a and b` becomes `not (not a or not b)`; `a or b` likewise."""

    class Change(ast.NodeTransformer):
        def _test(self, node: ast.If | ast.While | ast.IfExp) -> ast.AST:
            self.generic_visit(node)
            if isinstance(node.test, ast.BoolOp):
                other = ast.Or() if isinstance(node.test.op, ast.And) else ast.And()
                node.test = ast.UnaryOp(ast.Not(), ast.BoolOp(other, [negated(part) for part in node.test.values]))
            return node

        visit_If = visit_While = visit_IfExp = _test  # noqa: N815

    for module in program.modules.values():
        Change().visit(module)
