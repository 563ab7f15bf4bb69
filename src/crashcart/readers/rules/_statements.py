"""Statements around a node of the code, for edits that put in, move or take away whole lines."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from crashcart.model import Span
from crashcart.readers.code.source import FUNCTIONS, parent, parents

if TYPE_CHECKING:
    from collections.abc import Iterable

    from crashcart.readers.code.source import Source
    from crashcart.readers.interpreter.trace import Event

__all__ = ["block_of", "contains", "free_name", "function_of", "know_parents", "loop_of", "statement_of", "whole_lines"]


def know_parents(events: Iterable[Event]) -> None:
    """Let the nodes of the files in which events happen know what is around them."""
    for source in {event.source.path: event.source for event in events}.values():
        source.know_parents()


def statement_of(node: ast.AST) -> ast.stmt:
    """The statement that a node is part of."""
    for above in (node, *parents(node)):
        if isinstance(above, ast.stmt):
            return above
    raise ValueError(node)


def function_of(node: ast.AST) -> ast.FunctionDef | ast.AsyncFunctionDef | ast.Module:
    """The function around a node, or the module."""
    for above in parents(node):
        if isinstance(above, (*FUNCTIONS, ast.Module)):
            return above
    raise ValueError(node)


def loop_of(node: ast.AST) -> ast.For | ast.AsyncFor | ast.While | None:
    """The loop around a node, within its function."""
    for above in parents(node):
        if isinstance(above, (ast.For, ast.AsyncFor, ast.While)):
            return above
        if isinstance(above, (*FUNCTIONS, ast.Lambda)):
            return None
    return None


def block_of(statement: ast.stmt) -> list[ast.stmt]:
    """The statements of the block in which a statement stands."""
    above = parent(statement)
    for part in ("body", "orelse", "finalbody"):
        block = getattr(above, part, None)
        if isinstance(block, list) and any(each is statement for each in block):
            return block
    return [statement]


def contains(outer: ast.AST, inner: ast.AST) -> bool:
    """Whether a node is another or lies in it."""
    return inner is outer or any(above is outer for above in parents(inner))


def whole_lines(source: Source, statement: ast.stmt) -> Span:
    """The whole lines of a statement."""
    last = statement.end_lineno or statement.lineno
    end = source.offset(last, 0) + len(source.line(last)) + 1
    return Span(source.path, source.offset(statement.lineno, 0), end, statement.lineno)


def free_name(function: ast.AST, name: str) -> str:
    """A name that a function does not use yet."""
    used = {node.id for node in ast.walk(function) if isinstance(node, ast.Name)}
    return name if name not in used else f"{name}_batch"
