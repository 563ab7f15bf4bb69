"""Handles that are opened when a sample is asked for and kept for the next time, one for each file, with none ever closed.

    self.open[path] = h5py.File(path, "r")       in a data set, or in a pool of files that one holds
    OPEN[path] = h5py.File(path, "r")            in the file
    self.handles.append(h5py.File(path, "r"))    in a list
    @functools.cache def opened(path): return h5py.File(path, "r")

Each process holds as many descriptors as it has met files. A pool that lets the oldest go does not.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from crashcart.readers.code._caches import few, remembers
from crashcart.readers.code._callers import statement_of
from crashcart.readers.code._edits import alone, line_after, line_before
from crashcart.readers.code._openers import OPENERS, Openers
from crashcart.readers.code._paths import given_to
from crashcart.readers.code.grown import KEPT as FEW
from crashcart.readers.code.grown import TAKES_OUT, is_list
from crashcart.readers.code.source import FUNCTIONS, inside, name_of, parents

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.model import Edit, Fact
    from crashcart.readers.code.program import Program
    from crashcart.readers.code.source import Function, Source

KEPT = 16
STORES = {"dict", "OrderedDict", "list", "set"}
BEGUN = {"__init__", "__post_init__", "__setstate__"}


def look(program: Program) -> Iterator[Fact]:
    """``code.handles_gathered``: who keeps them, in what, and the lines that let the oldest go."""
    if not program.imports("h5py", "lmdb", "tables"):
        return
    openers = Openers(program)
    for source in program.sources:
        for function in source.nodes(ast.FunctionDef):
            if (decorator := remembers(source, function)) is not None and _opens(openers, source, function):
                value = {"who": function.name, "holder": "its answers", "edits": few(source, decorator, KEPT)}
                yield source.fact("code.handles_gathered", value, decorator)
        for node in source.nodes(ast.Call):
            if openers.of(source, node) is None or any(isinstance(one, (ast.With, ast.withitem)) for one in parents(node)):
                continue
            kept = _kept(source, node) or _appended(source, node)
            if kept is not None and not _lets_go(source, *kept):
                at, holder = kept
                statement = statement_of(at)
                owner = inside(at, ast.ClassDef)
                who = owner.name if owner is not None and holder.startswith("self.") else "the program"
                edits = _cut(source, statement, holder) if isinstance(at, ast.Call) else _bounded(source, statement, holder)
                yield source.fact("code.handles_gathered", {"who": who, "holder": holder, "edits": edits}, statement)


def _appended(source: Source, opened: ast.Call) -> tuple[ast.AST, str] | None:
    """The list to whose end a handle is put, at once or through a name."""
    function = inside(opened, *FUNCTIONS)
    if function is None or getattr(function, "name", "") in BEGUN:
        return None
    statement = statement_of(opened)
    names = [one.id for one in statement.targets if isinstance(one, ast.Name)] if isinstance(statement, ast.Assign) else []
    for call in ast.walk(function):
        if (
            not isinstance(call, ast.Call)
            or not isinstance(call.func, ast.Attribute)
            or call.func.attr not in {"append", "add"}
        ):
            continue
        given = call.args[0] if len(call.args) == 1 else None
        holder = name_of(call.func.value)
        if (given is opened or (isinstance(given, ast.Name) and given.id in names)) and _is_store(source, function, holder):
            return call, holder
    return None


def _kept(source: Source, opened: ast.Call) -> tuple[ast.AST, str] | None:
    """The place in a mapping into which a handle is put, at once or through a name."""
    function = inside(opened, *FUNCTIONS)
    statement = statement_of(opened)
    if function is None or getattr(function, "name", "") in BEGUN or not isinstance(statement, ast.Assign):
        return None
    if statement.value is not opened:
        return None
    names = [one.id for one in statement.targets if isinstance(one, ast.Name)]
    later = [
        target
        for node in ast.walk(function)
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Name) and node.value.id in names
        for target in node.targets
    ]
    for target in (*statement.targets, *later):
        entry = isinstance(target, ast.Subscript) and not isinstance(target.slice, (ast.Constant, ast.Slice))
        if entry and isinstance(target, ast.Subscript) and _is_store(source, function, name_of(target.value)):
            return target, name_of(target.value)
    return None


def _is_store(source: Source, function: ast.AST, name: str) -> bool:
    """Whether a mapping or a list outlives the call: an attribute, or a name of the file, that begins empty."""
    if name.startswith("self."):
        given = given_to(source, name, None)
    elif any(isinstance(one, ast.Name) and one.id == name and isinstance(one.ctx, ast.Store) for one in ast.walk(function)):
        return False
    else:
        given = given_to(source, name, None) if name else []
    empty = [
        one
        for one in given
        if (isinstance(one, ast.Dict) and not one.keys)
        or (isinstance(one, ast.List) and not one.elts)
        or (isinstance(one, ast.Call) and name_of(one.func).rpartition(".")[2] in STORES and not (one.args or one.keywords))
    ]
    return bool(given) and len(empty) == len(given)


def _lets_go(source: Source, kept: ast.AST, name: str) -> bool:
    """Whether anything takes a handle out again, closes what it goes over, or counts them."""
    home = inside(kept, ast.ClassDef) if name.startswith("self.") else source.tree
    for node in ast.walk(home or source.tree):
        if isinstance(node, ast.Call) and name_of(node.func).rpartition(".") in [(name, ".", one) for one in TAKES_OUT]:
            return not _at_the_end(node)
        if isinstance(node, ast.Delete) and any(name_of(one).startswith(name) for one in node.targets):
            return True
        if isinstance(node, ast.Compare) and f"len({name})" in ast.unparse(node):
            return True
        closes = isinstance(node, ast.For) and name in ast.unparse(node.iter) and ".close()" in ast.unparse(node)
        if closes and not _at_the_end(node):
            return True
    return False


def _at_the_end(node: ast.AST) -> bool:
    """Whether it is done only when all is over: ``close``, ``__del__``."""
    function = inside(node, *FUNCTIONS)
    return getattr(function, "name", "") in {"close", "__del__", "__exit__", "shutdown", "__getstate__"}


def _opens(openers: Openers, source: Source, function: Function) -> bool:
    """Whether a function answers with a file that it opened."""
    answers = [one.value for one in ast.walk(function) if isinstance(one, ast.Return) and one.value is not None]
    return bool(answers) and all(
        isinstance(one, ast.Call) and (source.called(one.func) in OPENERS or openers.of(source, one) is not None)
        for one in answers
    )


def _cut(source: Source, statement: ast.stmt, holder: str) -> tuple[Edit, ...]:
    """A line that lets all but the last few of a list go; a file that nobody has any more is closed."""
    plain = is_list(source, holder) and alone(source, statement)
    return (line_after(source, statement, f"del {holder}[:-{FEW}]"),) if plain else ()


def _bounded(source: Source, statement: ast.stmt, holder: str) -> tuple[Edit, ...]:
    """Lines that close the oldest before another is opened."""
    if not alone(source, statement):
        return ()
    lines = (f"while len({holder}) >= {KEPT}:", f"    {holder}.pop(next(iter({holder}))).close()")
    return (line_before(source, statement, *lines),)
