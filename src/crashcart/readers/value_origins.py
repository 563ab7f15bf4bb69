"""Where the values come from with which a run died: backwards from the expression that raised, by the frames that led there.

    model.py:11  self.items(history)            the expression, by the columns of the frame where Python tells them
    model.py:7   self.items = nn.Embedding(n)   an attribute, where the class sets it
    train.py:25  n = len(seen)                  its argument, where the object is made
    train.py:31  for h, y in loader:            a parameter, by the call in the frame outside

Names are followed as they are written: the last assignment before the line, the argument for a parameter, what a function of the
program returns. It says where to look, so a name with several assignments is taken at the nearest; nothing is judged by it.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, NamedTuple

from crashcart.deaths import hung
from crashcart.model import Evidence, Fact
from crashcart.places import ORIGINS
from crashcart.readers.code.source import name_of
from crashcart.readers.remedies._scene import statement_at

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from crashcart.places import Spot
    from crashcart.readers.code.source import Source
    from crashcart.readers.remedies._scene import Scene

__all__ = ["Trail", "trail_of", "value_origins"]

_MOST, _DEEPEST, _MOST_VISITS = 5, 4, 60
_LONGEST = 80
_FORWARD = ("forward", "__call__")
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
Function = ast.FunctionDef | ast.AsyncFunctionDef


class _Wanted(NamedTuple):
    """An expression whose names are followed; ``frame`` is the place in the stack whose function it stands in, or none."""

    source: Source
    node: ast.AST
    line: int
    frame: int | None
    depth: int


class Origin(NamedTuple):
    """Where a name got its value."""

    name: str
    source: Source
    statement: ast.stmt


def value_origins(scene: Scene) -> Iterator[Fact]:
    """``code.value_origins``: the expression that raised, what its names held, and where they were made; of the first exception."""
    trail = trail_of(scene)
    if trail is None:
        return
    source, expression, spot = trail.source, trail.expression, trail.spot
    line = (source.path, spot.line)
    shown = [origin for origin in trail.origins if (origin.source.path, origin.statement.lineno) != line][:_MOST]
    written = ast.unparse(expression) if isinstance(expression, ast.expr) else source.line(spot.line).strip()
    values = _held(scene, spot, expression)
    if shown or values:
        told = [(origin.name, origin.source.evidence(origin.statement)) for origin in shown]
        place = Evidence("code", source.line(spot.line).strip(), f"{source.path}:{spot.line}")
        yield Fact(ORIGINS, (written[:_LONGEST], values, told), place, "code")


class Trail(NamedTuple):
    """The expression with which a run died, where its values were made, and everything that was followed on the way."""

    source: Source
    expression: ast.AST
    spot: Spot
    origins: list[Origin]
    functions: list[tuple[Source, Function]]
    nodes: list[tuple[Source, ast.AST]]


def trail_of(scene: Scene) -> Trail | None:
    """The way back from the exception that ended the run; where a run stands still, others say nothing of that."""
    if hung(scene.case):
        return None
    raised = next(iter(scene.raises), None)
    frames = raised.frames if raised is not None else []
    place = scene.at(frames[-1] if frames else None)
    if raised is None or place is None:
        return None
    source, statement = place
    source.know_parents()
    expression = _expression(source, frames[-1], scene.columns) or _head(statement)
    if isinstance(expression, ast.BinOp) and raised.kind == "ZeroDivisionError":
        expression = expression.right
    search = _Search(scene, frames, scene.columns)
    found = search.found(_Wanted(source, expression, frames[-1].line, len(frames) - 1, 0))
    return Trail(source, expression, frames[-1], found, [*search.functions.values()], search.nodes)


def _held(scene: Scene, spot: Spot, expression: ast.AST) -> list[tuple[str, str]]:
    """What the names of an expression were, where the recording saw sizes: ``history``, ``Tensor[32, 8] int64``."""
    known = scene.names_at(spot)
    return [(name, known[name]) for name in _names(expression) if any(map(str.isdigit, known.get(name, "")))]


def _head(statement: ast.stmt) -> ast.AST:
    """What a statement works out itself: of a loop or a test only its head."""
    for field in ("test", "iter", "value", "subject"):
        part = getattr(statement, field, None)
        if isinstance(part, ast.expr):
            return part
    if isinstance(statement, (ast.With, ast.AsyncWith)):
        return statement.items[0].context_expr
    return statement


def _expression(source: Source, spot: Spot, columns: dict[Spot, tuple[int, ...]]) -> ast.expr | None:
    """The expression at the columns of a frame."""
    where = columns.get(spot)
    if where is None:
        return None
    for node in source.nodes(
        ast.Call, ast.Subscript, ast.BinOp, ast.Attribute, ast.Name, ast.Compare, ast.UnaryOp, ast.BoolOp
    ):
        assert isinstance(node, ast.expr)  # noqa: S101 - one of these
        if (node.lineno, node.end_lineno, node.col_offset, node.end_col_offset) == where:
            return node
    return None


def _names(node: ast.AST) -> list[str]:
    """The names and attributes of ``self`` that an expression reads, those of the innermost call first as they are written."""
    found: dict[str, None] = {}
    waiting: list[ast.AST] = [node]
    while waiting:
        each = waiting.pop(0)
        if isinstance(each, ast.Attribute) and isinstance(each.value, ast.Name) and each.value.id in {"self", "cls"}:
            found.setdefault(f"{each.value.id}.{each.attr}")
        elif isinstance(each, ast.Name):
            found.setdefault(each.id)
        elif not isinstance(each, (ast.Lambda, *_FUNCTIONS, ast.ClassDef)):
            waiting += ast.iter_child_nodes(each)
    return list(found)


class _Search:
    """The search through the names, nearest first."""

    def __init__(self, scene: Scene, frames: Sequence[Spot], columns: dict[Spot, tuple[int, ...]]) -> None:
        self._scene, self._frames, self._columns = scene, frames, columns
        self._sources = scene.sources
        self.functions: dict[int, tuple[Source, Function]] = {}  # of the program, whose results were followed
        self.nodes: list[tuple[Source, ast.AST]] = []  # what was followed

    def found(self, start: _Wanted) -> list[Origin]:
        """Each line once."""
        origins: dict[tuple[str, int], Origin] = {}
        waiting, visits = [start], 0
        seen: set[tuple[int, str]] = set()
        while waiting and visits < _MOST_VISITS:
            wanted = waiting.pop(0)
            visits += 1
            self.nodes.append((wanted.source, wanted.node))
            for name in _names(wanted.node):
                if (id(wanted.node), name) in seen:
                    continue
                seen.add((id(wanted.node), name))
                for origin, further in self._of_name(name, wanted):
                    if origin is not None:
                        origins.setdefault((origin.source.path, origin.statement.lineno), origin)
                    waiting += [each for each in further if each.depth <= _DEEPEST]
            waiting += self._returned(wanted)
        return list(origins.values())

    def _of_name(self, name: str, wanted: _Wanted) -> Iterator[tuple[Origin | None, list[_Wanted]]]:
        source, function = wanted.source, _function_around(wanted.node)
        if "." in name:
            yield from self._of_attribute(name, wanted)
            return
        scope: ast.AST = function if function is not None else source.tree
        statement = _last_assignment(scope, name, wanted.line)
        if statement is not None:
            value = _value_for(statement, name)
            further = [_Wanted(source, value, statement.lineno, wanted.frame, wanted.depth + 1)] if value is not None else []
            yield Origin(name, source, statement), further
        elif function is not None and name in _parameters(function):
            yield from ((None, [each]) for each in self._arguments(function, name, wanted))
        elif function is not None:
            outer = _last_assignment(source.tree, name, 1 << 30)
            if outer is not None and not isinstance(outer, (*_FUNCTIONS, ast.ClassDef)):
                value = _value_for(outer, name)
                more = [_Wanted(source, value, outer.lineno, None, wanted.depth + 1)] if value is not None else []
                yield Origin(name, source, outer), more

    def _of_attribute(self, name: str, wanted: _Wanted) -> Iterator[tuple[Origin, list[_Wanted]]]:
        owner = wanted.source.around(wanted.node, ast.ClassDef)
        if owner is None:
            return
        for statement in ast.walk(owner):
            if isinstance(statement, ast.Assign) and any(_is_named(target, name) for target in _targets(statement)):
                yield (
                    Origin(name, wanted.source, statement),
                    [_Wanted(wanted.source, statement.value, statement.lineno, None, wanted.depth + 1)],
                )
                return

    def _arguments(self, function: Function, name: str, wanted: _Wanted) -> Iterator[_Wanted]:
        """The argument that became a parameter: at the frame outside, or where an object of the class is made."""
        if wanted.frame is not None and wanted.frame > 0:
            outside = self._frames[wanted.frame - 1]
            source = self._scene.source(outside.file)
            if source is not None:
                source.know_parents()
                call = _expression(source, outside, self._columns)
                calls = [call] if isinstance(call, ast.Call) else _calls_at(source, outside.line, function.name)
                for each in calls[:1]:
                    argument = _argument(function, each, name)
                    if argument is not None:
                        yield _Wanted(source, argument, outside.line, wanted.frame - 1, wanted.depth)
            return
        owner = wanted.source.around(function, ast.ClassDef)
        called = owner.name if owner is not None and function.name == "__init__" else function.name
        calls_of = [
            (source, call)
            for source in self._sources
            for call in source.nodes(ast.Call)
            if name_of(call.func).rpartition(".")[2] == called
        ]
        if len(calls_of) == 1:
            source, only = calls_of[0]
            source.know_parents()
            argument = _argument(function, only, name)
            if argument is not None:
                yield _Wanted(source, argument, only.lineno, None, wanted.depth + 1)

    def _returned(self, wanted: _Wanted) -> list[_Wanted]:
        """What a function of the program returns that an expression calls; of a module what its ``forward`` does."""
        if wanted.depth >= _DEEPEST or not isinstance(wanted.node, ast.expr):
            return []
        further: list[_Wanted] = []
        for call in (node for node in ast.walk(wanted.node) if isinstance(node, ast.Call)):
            found = self._function(name_of(call.func).rpartition(".")[2])
            if found is not None and id(found[1]) not in self.functions:
                source, function = found
                source.know_parents()
                self.functions[id(function)] = found
                returns = [node for node in ast.walk(function) if isinstance(node, ast.Return) and node.value is not None]
                further += [
                    _Wanted(source, node.value, node.lineno, None, wanted.depth + 1)
                    for node in returns[-1:]
                    if node.value is not None
                ]
        return further

    def _function(self, called: str) -> tuple[Source, Function] | None:
        """The only function of that name; else the ``forward`` of what a name of that kind was made of, or of the only module."""
        if not called:
            return None
        named = [(source, each) for source in self._sources for each in source.functions if each.name == called]
        if len(named) == 1:
            return named[0]
        forwards = [(source, each) for source in self._sources for each in source.functions if each.name in _FORWARD]
        made = {
            name_of(node.value.func).rpartition(".")[2]
            for source in self._sources
            for node in source.nodes(ast.Assign)
            if isinstance(node.value, ast.Call) and any(_ends_with(target, called) for target in node.targets)
        }
        own = [
            (source, each)
            for source, each in forwards
            if (owner := source.around(each, ast.ClassDef)) is not None and owner.name in made
        ]
        return own[0] if len(own) == 1 else None


def _ends_with(target: ast.expr, name: str) -> bool:
    return name_of(target).rpartition(".")[2] == name


def _function_around(node: ast.AST) -> Function | None:
    above = getattr(node, "parent", None)
    while above is not None and not isinstance(above, _FUNCTIONS):
        above = getattr(above, "parent", None)
    return above


def _parameters(function: Function) -> list[str]:
    arguments = function.args
    return [each.arg for each in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]


def _argument(function: Function, call: ast.Call, name: str) -> ast.expr | None:
    """The expression that a call gives for a parameter; else its default."""
    for keyword in call.keywords:
        if keyword.arg == name:
            return keyword.value
    arguments = function.args
    positional = [each.arg for each in (*arguments.posonlyargs, *arguments.args)]
    if positional[:1] in (["self"], ["cls"]):
        positional = positional[1:]
    if name in positional:
        place = positional.index(name)
        if place < len(call.args) and not any(isinstance(each, ast.Starred) for each in call.args[: place + 1]):
            return call.args[place]
    return None


def _calls_at(source: Source, line: int, function: str) -> list[ast.Call]:
    """The calls of a line that may have led to a function; a module is called by its own name."""
    statement = statement_at(source, line)
    calls = [node for node in ast.walk(statement) if isinstance(node, ast.Call)] if statement is not None else []
    named = [call for call in calls if name_of(call.func).rpartition(".")[2] == function]
    return named or (calls if function in _FORWARD and len(calls) == 1 else [])


def _last_assignment(scope: ast.AST, name: str, line: int) -> ast.stmt | None:
    """The nearest statement above a line that gives a name its value, in this function and not in those within it."""
    found: list[ast.stmt] = []
    waiting: list[ast.AST] = list(ast.iter_child_nodes(scope))
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.stmt) and any(_is_named(target, name) for target in _targets(node)):
            found.append(node)
        if not isinstance(node, (*_FUNCTIONS, ast.ClassDef, ast.Lambda)):
            waiting += ast.iter_child_nodes(node)
    before = [
        node for node in found if node.lineno < line or (isinstance(node, (ast.For, ast.AsyncFor)) and node.lineno == line)
    ]
    return max(before, key=lambda node: node.lineno, default=None)


def _targets(statement: ast.AST) -> list[ast.expr]:
    if isinstance(statement, ast.Assign):
        return statement.targets
    if isinstance(statement, (ast.AnnAssign, ast.AugAssign, ast.For, ast.AsyncFor)):
        return [statement.target]
    if isinstance(statement, (ast.With, ast.AsyncWith)):
        return [item.optional_vars for item in statement.items if item.optional_vars is not None]
    return []


def _is_named(target: ast.expr, name: str) -> bool:
    if isinstance(target, (ast.Tuple, ast.List)):
        return any(_is_named(each, name) for each in target.elts)
    if isinstance(target, ast.Starred):
        return _is_named(target.value, name)
    if isinstance(target, ast.Attribute):
        return isinstance(target.value, ast.Name) and f"{target.value.id}.{target.attr}" == name
    return isinstance(target, ast.Name) and target.id == name


def _value_for(statement: ast.stmt, name: str) -> ast.expr | None:
    """What a name gets: of ``a, b = x, y`` its own part."""
    value: ast.expr | None = getattr(statement, "value", None)
    if isinstance(statement, (ast.For, ast.AsyncFor)):
        return statement.iter
    if isinstance(statement, (ast.With, ast.AsyncWith)):
        return statement.items[0].context_expr
    target = _targets(statement)[0] if _targets(statement) else None
    if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple) and len(target.elts) == len(value.elts):
        return next((part for own, part in zip(target.elts, value.elts, strict=True) if _is_named(own, name)), value)
    return value
