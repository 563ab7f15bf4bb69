"""Which scope a name of a Python module belongs to, and every place where it is written there.

A rewrite may touch a name only when it knows all of its places. `Scopes(module)` walks a module once and answers: which names
does a function bind, where is this variable read and written, which names are free for a new variable.
"""

from __future__ import annotations

import ast
import builtins
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

Function: TypeAlias = "ast.FunctionDef | ast.AsyncFunctionDef"
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
BUILTINS = frozenset(dir(builtins))
# A program that asks for its own variables by name must find them under the names that they had.
READS_ITS_NAMES = frozenset({"globals", "locals", "vars", "exec", "eval", "__import__", "__class__"})


@dataclass(eq=False)
class Scope:
    """A module, function, class, lambda or comprehension, and the names that are written in it."""

    node: ast.AST
    parent: Scope | None
    bound: set[str] = field(default_factory=set)
    elsewhere: dict[str, str] = field(default_factory=dict)  # name: "global" or "nonlocal"
    places: dict[str, list[ast.AST]] = field(default_factory=dict)
    children: list[Scope] = field(default_factory=list)

    def descendants(self) -> Iterator[Scope]:
        """This scope and all scopes in it."""
        yield self
        for child in self.children:
            yield from child.descendants()


class _Builder(ast.NodeVisitor):
    def __init__(self, root: Scope) -> None:
        self.scope = root
        self.by_node: dict[ast.AST, Scope] = {root.node: root}

    def _note(self, name: str, node: ast.AST, *, binds: bool, scope: Scope | None = None) -> None:
        where = scope or self.scope
        where.places.setdefault(name, []).append(node)
        if binds:
            where.bound.add(name)

    def _inside(self, node: ast.AST, parts: Iterable[ast.AST]) -> Scope:
        scope = Scope(node, self.scope)
        self.scope.children.append(scope)
        self.by_node[node] = scope
        self.scope = scope
        for part in parts:
            self.visit(part)
        self.scope = scope.parent or scope
        return scope

    def visit_Name(self, node: ast.Name) -> None:
        self._note(node.id, node, binds=not isinstance(node.ctx, ast.Load))

    def visit_NamedExpr(self, node: ast.NamedExpr) -> None:
        self.visit(node.value)
        scope = self.scope
        while isinstance(scope.node, COMPREHENSIONS) and scope.parent is not None:
            scope = scope.parent
        self._note(node.target.id, node.target, binds=True, scope=scope)

    def visit_Global(self, node: ast.Global) -> None:
        for name in node.names:
            self.scope.elsewhere[name] = "global"
            self._note(name, node, binds=False)

    def visit_Nonlocal(self, node: ast.Nonlocal) -> None:
        for name in node.names:
            self.scope.elsewhere[name] = "nonlocal"
            self._note(name, node, binds=False)

    def visit_alias(self, node: ast.alias) -> None:
        self._note(node.asname or node.name.split(".")[0], node, binds=True)

    def visit_ExceptHandler(self, node: ast.ExceptHandler) -> None:
        if node.name is not None:
            self._note(node.name, node, binds=True)
        self.generic_visit(node)

    def visit_MatchAs(self, node: ast.MatchAs) -> None:
        if node.name is not None:
            self._note(node.name, node, binds=True)
        self.generic_visit(node)

    def visit_MatchStar(self, node: ast.MatchStar) -> None:
        if node.name is not None:
            self._note(node.name, node, binds=True)

    def visit_MatchMapping(self, node: ast.MatchMapping) -> None:
        if node.rest is not None:
            self._note(node.rest, node, binds=True)
        self.generic_visit(node)

    def _signature(self, arguments: ast.arguments) -> None:
        for default in [*arguments.defaults, *arguments.kw_defaults]:
            if default is not None:
                self.visit(default)
        for parameter in parameters(arguments):
            if parameter.annotation is not None:
                self.visit(parameter.annotation)

    def _function(self, node: Function | ast.Lambda, body: list[ast.AST]) -> None:
        scope = self._inside(node, ())
        self.scope = scope
        for parameter in parameters(node.args):
            self._note(parameter.arg, parameter, binds=True)
        for part in body:
            self.visit(part)
        self.scope = scope.parent or scope

    def visit_FunctionDef(self, node: Function) -> None:
        for decorator in node.decorator_list:
            self.visit(decorator)
        self._signature(node.args)
        if node.returns is not None:
            self.visit(node.returns)
        self._note(node.name, node, binds=True)
        self._function(node, list(node.body))

    visit_AsyncFunctionDef = visit_FunctionDef  # noqa: N815 - the name that NodeVisitor looks for

    def visit_Lambda(self, node: ast.Lambda) -> None:
        self._signature(node.args)
        self._function(node, [node.body])

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        for part in [*node.decorator_list, *node.bases, *(keyword.value for keyword in node.keywords)]:
            self.visit(part)
        self._note(node.name, node, binds=True)
        self._inside(node, node.body)

    def _comprehension(self, node: ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp) -> None:
        self.visit(node.generators[0].iter)
        parts: list[ast.AST] = []
        for number, generator in enumerate(node.generators):
            parts += [generator.target, *([generator.iter] if number else []), *generator.ifs]
        parts += [node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt]
        self._inside(node, parts)

    visit_ListComp = visit_SetComp = visit_DictComp = visit_GeneratorExp = _comprehension  # noqa: N815


def parameters(arguments: ast.arguments) -> list[ast.arg]:
    """Every parameter of a signature, in order."""
    stars = [part for part in (arguments.vararg, arguments.kwarg) if part is not None]
    return [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, *stars]


class Scopes:
    """The scopes of a module."""

    def __init__(self, module: ast.Module) -> None:
        self.root = Scope(module, None)
        builder = _Builder(self.root)
        builder.generic_visit(module)
        self.by_node = builder.by_node
        self.words = {name for scope in self.root.descendants() for name in scope.places} | BUILTINS

    def owner(self, scope: Scope, name: str) -> Scope | None:
        """The scope whose variable a name is where it is written in `scope`; None for a builtin or what nobody binds."""
        if scope.elsewhere.get(name) == "global":
            return self.root
        if name in scope.bound and name not in scope.elsewhere:
            return scope
        outer = scope.parent
        while outer is not None:
            if name in outer.bound and not isinstance(outer.node, ast.ClassDef):
                return self.root if outer.elsewhere.get(name) == "global" else outer
            outer = outer.parent
        return None

    def places(self, owner: Scope, name: str) -> list[ast.AST]:
        """Every node where the variable is written, read, or declared."""
        found: list[ast.AST] = []
        for scope in owner.descendants():
            if name in scope.places and self.owner(scope, name) is owner:
                found += scope.places[name]
        return found

    def reads(self, owner: Scope, name: str) -> list[ast.Name]:
        """The places where the variable is read."""
        return [node for node in self.places(owner, name) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)]

    def binders(self, owner: Scope, name: str) -> list[ast.AST]:
        """The places that give the variable a value, or declare it in another scope."""
        return [
            node for node in self.places(owner, name) if not (isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load))
        ]

    def used_inside_others(self, owner: Scope, name: str) -> bool:
        """Whether a function, class or comprehension inside `owner` uses the variable."""
        inner = (scope for scope in owner.descendants() if scope is not owner)
        return any(name in scope.places and self.owner(scope, name) is owner for scope in inner)

    def fresh(self, wish: str) -> str:
        """A name like `wish` that the module uses nowhere; it is taken from then on."""
        name, number = wish, 1
        while name in self.words:
            number += 1
            name = f"{wish}_{number}"
        self.words.add(name)
        return name

    def is_builtin(self, name: str) -> bool:
        """Whether nothing in the module binds a name, so that it is the builtin wherever it is written."""
        return all(name not in scope.bound for scope in self.root.descendants())

    def reads_its_names(self) -> bool:
        """Whether the program asks for variables by their names."""
        return any(name in scope.places for scope in self.root.descendants() for name in READS_ITS_NAMES)


def rename(nodes: Iterable[ast.AST], old: str, new: str) -> None:
    """Write another name in all the places of a variable."""
    for node in nodes:
        if isinstance(node, ast.Name):
            node.id = new
        elif isinstance(node, ast.arg):
            node.arg = new
        elif isinstance(node, ast.alias):
            node.asname = new
        elif isinstance(node, ast.MatchMapping):
            node.rest = new
        elif isinstance(node, ast.Global | ast.Nonlocal):
            node.names = [new if name == old else name for name in node.names]
        elif isinstance(
            node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.ExceptHandler | ast.MatchAs | ast.MatchStar
        ):
            node.name = new
