"""What a function of the program that only answers a question stands for, as one expression.

    def is_ready():                                      is_ready()       dist.is_available() and dist.is_initialized()
        return dist.is_available() and dist.is_initialized()
    def head():
        if not dist.is_initialized():                    head()           not dist.is_initialized() or dist.get_rank() == 0
            return True
        return dist.get_rank() == 0

It is found in the same file, in the class around the question (also as a property), or in the file from which the name is
imported. A function that takes anything or does anything else is no such answer.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from crashcart.readers.code.source import FUNCTIONS, inside, name_of, parent

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.readers.code.source import Function, Source

__all__ = ["answer"]


def answer(test: ast.expr, source: Source) -> tuple[Source, ast.expr] | None:
    """The expression behind a question, and the file in which it stands; None where it is not plain."""
    if isinstance(test, ast.Call) and (test.args or test.keywords):
        return None
    found = list(_asked(test, source))
    if len(found) != 1:
        return None
    home, function = found[0]
    takes = [one.arg for one in (*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs)]
    value = _said(function.body) if takes in ([], ["self"], ["cls"]) else None
    return (home, value) if value is not None else None


def _asked(test: ast.expr, source: Source) -> Iterator[tuple[Source, Function]]:
    func = test.func if isinstance(test, ast.Call) else test
    words = name_of(func).split(".")
    if words[0] == "self" and len(words) == 2:  # noqa: PLR2004 - an own method or property
        owner = inside(test, ast.ClassDef)
        for one in owner.body if owner is not None else ():
            if isinstance(one, FUNCTIONS) and one.name == words[1] and (isinstance(test, ast.Call) or _is_property(one)):
                yield source, one
    elif isinstance(test, ast.Call) and isinstance(func, ast.expr):
        called = source.called(func)
        imported = words[0] in source.names
        last = called.split(".")[-2:-1]
        for home in source.neighbours if imported else [source]:
            if not imported or (home.module[-1:] == last and _is_from(called, home)):
                yield from ((home, one) for one in _functions(home) if one.name == words[-1])


def _functions(source: Source) -> list[Function]:
    """The functions of a file that belong to no class and no other function."""
    every: list[Function] = [*source.nodes(ast.FunctionDef), *source.nodes(ast.AsyncFunctionDef)]
    return [one for one in every if isinstance(parent(one), ast.Module)]


def _is_property(function: Function) -> bool:
    return any(name_of(one).endswith("property") for one in function.decorator_list)


def _is_from(called: str, home: Source) -> bool:
    """Whether an imported name comes from a file: its module is called like it."""
    module = called.strip(".").split(".")[:-1]
    return bool(module) and home.module[-1] == module[-1] and home.module[-len(module) :] == module


def _said(body: list[ast.stmt]) -> ast.expr | None:
    """The value of a body of plain returns; those on the way become part of the expression."""
    first = body[0]
    if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and body[1:]:
        return _said(body[1:])
    if isinstance(first, ast.Return) and not body[1:]:
        return first.value
    leaves = first.body[0] if isinstance(first, ast.If) and len(first.body) == 1 and not first.orelse else None
    if not isinstance(first, ast.If) or not isinstance(leaves, ast.Return) or not body[1:]:
        return None
    rest, early = _said(body[1:]), leaves.value
    if rest is None or not isinstance(early, ast.Constant) or not isinstance(early.value, bool):
        return None
    if early.value:
        return ast.BoolOp(op=ast.Or(), values=[first.test, rest])
    return ast.BoolOp(op=ast.And(), values=[ast.UnaryOp(op=ast.Not(), operand=first.test), rest])
