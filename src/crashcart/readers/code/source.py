"""One Python file: its tree, what its names stand for, and the place of everything in it.

``name_of`` gives what an expression is called, with imports followed: ``nn.DataParallel`` is ``torch.nn.DataParallel`` where
the file says ``import torch.nn as nn``, and ``self.scaler.step`` stays as written. Every node knows its ``parent``.
"""

from __future__ import annotations

import ast
import re
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

from crashcart.documents import parse_python
from crashcart.model import Evidence, Fact, Span
from crashcart.numbers import bound_number

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["FUNCTIONS", "Function", "Source", "inside", "keyword", "name_of", "parent", "parents"]

_LONGEST_QUOTE = 1000

Function = ast.FunctionDef | ast.AsyncFunctionDef
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
Node = TypeVar("Node", bound=ast.AST)
_PARTS = 12
# What holds no node that anybody asks for: two thirds of a tree are contexts and operators.
_BARE = frozenset({"ctx", "op", "ops", "type_comment", "kind", "id", "attr", "arg"})
_FIELDS: dict[type, tuple[str, ...]] = {}
# What ends a line for str.splitlines and not for Python.
_NO_ENDS = re.compile("[\x0b\x0c\x1c-\x1e\x85\u2028\u2029]")
_LONG_NUMBER = re.compile(r"[0-9][0-9A-Fa-fxX_]{24}")
_ENDS = re.compile(r"[^\r\n]+(?:\r\n|\r|\n)?|\r\n|\r|\n")


def _fields(kind: type[ast.AST]) -> tuple[str, ...]:
    """The fields of a kind of node that are worth walking, the last first."""
    _FIELDS[kind] = tuple(name for name in reversed(kind._fields) if name not in _BARE)
    return _FIELDS[kind]


def _bounded(tree: ast.Module, text: str) -> ast.Module:
    """The tree without whole numbers that nothing can be calculated with: ``0xfff...`` may be of any length."""
    if _LONG_NUMBER.search(text):
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant):
                node.value = bound_number(node.value)
    return tree


class Source:
    """A parsed file; ``nodes(kind)`` lists its nodes of a kind in the order in which they are written."""

    def __init__(self, path: str, text: str) -> None:
        self.path = path
        self.text = text
        self.tree = _bounded(parse_python(text), text)
        self._by_kind: dict[type, list[Any]] | None = None
        self._starts = [0]
        for line in text.splitlines(keepends=True) if not _NO_ENDS.search(text) else _ENDS.findall(text):
            self._starts.append(self._starts[-1] + len(line))

    @cached_property
    def names(self) -> dict[str, str]:
        """What each imported name stands for."""
        return self._imported()

    @property
    def _kinds(self) -> dict[type, list[Any]]:
        """The nodes by kind, each with its parent; made when somebody asks, since it takes longer than parsing."""
        if self._by_kind is None:
            self._by_kind = {}
            self._walk(self._by_kind)
        return self._by_kind

    def around(self, node: ast.AST, *kinds: type[Node]) -> Node | None:
        """The nearest node of these kinds around a node of this file."""
        return next((above for above in self.parents(node) if isinstance(above, kinds)), None)

    def parents(self, node: ast.AST) -> Iterator[ast.AST]:
        """The nodes around a node of this file, from the nearest."""
        assert self._kinds  # noqa: S101 - this is what gives every node its parent
        return parents(node)

    def know_parents(self) -> None:
        """Let every node know its ``parent``."""
        _ = self._kinds

    def _walk(self, kinds: dict[type, list[Any]]) -> None:
        waiting: list[ast.AST] = [self.tree]
        while waiting:
            node = waiting.pop()
            kind = node.__class__
            kinds.setdefault(kind, []).append(node)
            for name in _FIELDS.get(kind) or _fields(kind):
                value = getattr(node, name, None)
                if value.__class__ is list:
                    children = [child for child in reversed(value) if isinstance(child, ast.AST)]
                elif isinstance(value, ast.AST):
                    children = [value]
                else:
                    continue
                for child in children:
                    child.parent = node  # type: ignore[attr-defined]
                waiting += children

    def nodes(self, *kinds: type[Node]) -> list[Node]:
        """Every node of these kinds; the list is ours and not to be changed."""
        if len(kinds) == 1:
            return self._kinds.get(kinds[0]) or []
        return [node for kind in kinds for node in self._kinds.get(kind, ())]

    @property
    def functions(self) -> list[Function]:
        """Every function and method."""
        return [*self.nodes(ast.FunctionDef), *self.nodes(ast.AsyncFunctionDef)]

    def _imported(self) -> dict[str, str]:
        """What each imported name stands for; relative imports keep their dots."""
        names: dict[str, str] = {}
        for node in self.nodes(ast.Import):
            for name in node.names:
                names[name.asname or name.name.split(".")[0]] = name.name if name.asname else name.name.split(".")[0]
        for found in self.nodes(ast.ImportFrom):
            module = "." * found.level + (found.module or "")
            for name in found.names:
                names[name.asname or name.name] = f"{module}.{name.name}" if module.strip(".") else f"{module}{name.name}"
        return names

    def called(self, node: ast.expr) -> str:
        """What an expression is called, imports followed; empty where it has no name. Kept with the node, as its name is."""
        known: str | None = getattr(node, "crashcart_called", None)
        if known is None:
            name = name_of(node)
            first, dot, rest = name.partition(".")
            known = f"{self.names[first]}{dot}{rest}" if first in self.names else name
            node.crashcart_called = known  # type: ignore[attr-defined]
        return known

    def offset(self, line: int, column: int) -> int:
        """The character at a line and a column in bytes, as a tree counts them."""
        start = self._starts[line - 1]
        text = self.text[start : self._starts[line]]
        return start + (column if text.isascii() else len(text.encode()[:column].decode(errors="ignore")))

    def span(self, node: ast.expr | ast.stmt) -> Span:
        """Where a node stands."""
        end = self.offset(node.end_lineno or node.lineno, node.end_col_offset or 0)
        return Span(self.path, self.offset(node.lineno, node.col_offset), end, node.lineno)

    def line(self, number: int) -> str:
        """The text of a line."""
        return self.text[self._starts[number - 1] : self._starts[number]].rstrip("\r\n")

    def written(self, node: ast.expr | ast.stmt) -> str:
        """The text of a node."""
        span = self.span(node)
        return self.text[span.start : span.end]

    def evidence(self, node: ast.expr | ast.stmt | ast.ExceptHandler) -> Evidence:
        """The line of a node, to be looked up again."""
        return Evidence("code", self.line(node.lineno).strip()[:_LONGEST_QUOTE], f"{self.path}:{node.lineno}")

    def fact(self, name: str, value: Any, node: ast.expr | ast.stmt) -> Fact:  # noqa: ANN401 - data of any kind
        """A fact of the code, at a node."""
        return Fact(name, value, self.evidence(node), "code", span=self.span(node))


def name_of(node: ast.AST) -> str:
    """A name with its dots as written; calls and indices within it lose their arguments: ``a.b()[0].c`` is ``a.b.c``.

    Kept with the node: each is asked for its name half a dozen times.
    """
    known: str | None = getattr(node, "crashcart_name", None)
    if known is None:
        known = node.crashcart_name = _named(node)  # type: ignore[attr-defined]
    return known


def _named(node: ast.AST) -> str:
    parts: list[str] = []
    at: Any = node
    for _ in range(_PARTS):
        kind = at.__class__
        if kind is ast.Attribute:
            parts.append(at.attr)
            at = at.value
        elif kind is ast.Call:
            at = at.func
        elif kind is ast.Subscript:
            at = at.value
        else:
            break
    if at.__class__ is not ast.Name:
        return ""
    return ".".join([at.id, *reversed(parts)]) if parts else str(at.id)


def parent(node: ast.AST) -> ast.AST | None:
    """The node above."""
    return getattr(node, "parent", None)


def parents(node: ast.AST) -> Iterator[ast.AST]:
    """The nodes above, from the nearest."""
    above = parent(node)
    while above is not None:
        yield above
        above = parent(above)


def inside(node: ast.AST, *kinds: type[Node]) -> Node | None:
    """The nearest node above of these kinds."""
    return next((one for one in parents(node) if isinstance(one, kinds)), None)


def keyword(call: ast.Call, name: str, position: int | None = None) -> ast.expr | None:
    """An argument of a call, by its name or its position."""
    for one in call.keywords:
        if one.arg == name:
            return one.value
    if (
        position is not None
        and position < len(call.args)
        and not any(isinstance(argument, ast.Starred) for argument in call.args)
    ):
        return call.args[position]
    return None
