"""Who calls which function of a program, by simple name, and whether a place is sure to be reached.

``self.save(state)`` leads to every ``save`` of the program, the one of the same class or file first; where more than a few
functions share a name nothing is followed. A function that is handed on (``mp.spawn(worker)``) counts as called.
"""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from crashcart.readers.code._guards import is_plain
from crashcart.readers.code.source import FUNCTIONS, Function, inside, name_of, parent, parents

if TYPE_CHECKING:
    from crashcart.readers.code.program import Program
    from crashcart.readers.code.source import Source

__all__ = ["HOOKS", "Callers", "Place", "callers_of", "function_of", "statement_of"]

_FEW = 3
_DEPTH = 6
# What a framework calls by itself.
HOOKS = re.compile(
    r"(?:training|validation|test|predict)_step|on_\w+|forward|__call__|__getitem__|configure_\w+|setup|prepare_data"
)
Place = tuple["Source", ast.AST]


class Callers:
    """The functions of a program and every place that names them."""

    def __init__(self, program: Program) -> None:
        self.entries = program.entries
        self.functions: dict[str, list[tuple[Source, Function]]] = {}
        self.sites: dict[str, list[Place]] = {}
        self._built: dict[str, list[Place]] = {}
        self.holds: dict[str, set[str]] = {}
        classes = {node.name for source in program.sources for node in source.nodes(ast.ClassDef)}
        for source in program.sources:
            functions: list[Function] = [*source.nodes(ast.FunctionDef), *source.nodes(ast.AsyncFunctionDef)]
            for function in functions:
                self.functions.setdefault(function.name, []).append((source, function))
        for source in program.sources:
            for call in source.nodes(ast.Call):
                self._called(source, call)
                if last_name(call.func) in classes:
                    self._built.setdefault(last_name(call.func), []).append((source, call))
                    self._held(call)

    def _held(self, call: ast.Call) -> None:
        """Remember what holds an object of a class: ``self.tracker = Remote()``, ``Trainer(tracker=Remote())``."""
        above = parent(call)
        if isinstance(above, ast.IfExp):
            above = parent(above)
        names = [above.arg or ""] if isinstance(above, ast.keyword) else []
        if isinstance(above, (ast.Assign, ast.AnnAssign)):
            targets = above.targets if isinstance(above, ast.Assign) else [above.target]
            names = [last_name(target) for target in targets]
        for name in names:
            self.holds.setdefault(name, set()).add(last_name(call.func))

    def _called(self, source: Source, call: ast.Call) -> None:
        last = last_name(call.func)
        if last in self.functions:
            self.sites.setdefault(last, []).append((source, call))
        for one in [*call.args, *(word.value for word in call.keywords)]:
            if isinstance(one, (ast.Name, ast.Attribute)) and last_name(one) in self.functions:
                self.sites.setdefault(last_name(one), []).append((source, one))

    def made(self, source: Source, call: ast.Call) -> list[tuple[Source, Function]]:
        """The ``__init__`` that a call of a class runs."""
        return [
            (at, one)
            for at, one in self.functions.get("__init__", ())
            if isinstance(owner := parent(one), ast.ClassDef)
            and owner.name == last_name(call.func)
            and (at is source or owner.name in source.names)
        ]

    def built(self, name: str) -> list[Place]:
        """The places that make an object of a class."""
        return self._built.get(name, [])

    def calling(self, source: Source, function: Function) -> list[Place]:
        """The places that call a function; none where its name means too many things."""
        owner = parent(function)
        if function.name == "__init__" and isinstance(owner, ast.ClassDef):
            return self.built(owner.name)
        if len(self.functions.get(function.name, ())) > _FEW:
            return []
        return [
            (other, node)
            for other, node in self.sites.get(function.name, ())
            if function in [one for _, one in self.meant(other, node)] and source is not None
        ]

    def meant(self, source: Source, node: ast.AST) -> list[tuple[Source, Function]]:
        """The functions that a call may mean: of the same class, of the module that it names, or methods called just so."""
        func = node.func if isinstance(node, ast.Call) else node
        found = self.functions.get(last_name(func), [])
        if not found or not isinstance(func, ast.expr):
            return []
        root = name_of(func).split(".")[0]
        if root == "self" and isinstance(func, ast.Attribute) and name_of(func.value) == "self":
            owner = inside(node, ast.ClassDef)
            found = [one for one in found if parent(one[1]) is owner] or [one for one in found if _is_method(one[1])]
        elif root in source.names:
            found = [one for one in found if _in_module(source.called(func), one)]
        elif isinstance(func, ast.Name):
            found = [one for one in found if one[0] is source and not _is_method(one[1])]
        else:
            found = [one for one in found if _is_method(one[1]) and self._fits(func, one[1])]
        return found if len(found) <= _FEW else []

    def _fits(self, func: ast.AST, method: Function) -> bool:
        """Whether an object's method is this one: it holds that class, is called like it, or the method like nothing else."""
        owner = parent(method)
        words = name_of(func).split(".")
        receiver = words[-2] if len(words) > 1 else ""
        if not isinstance(owner, ast.ClassDef) or not receiver:
            return False
        if receiver in self.holds:
            return owner.name in self.holds[receiver]
        return receiver.lower().replace("_", "") in owner.name.lower() or "_" in method.name.strip("_")

    def runs(self, source: Source, node: ast.AST) -> bool:
        """Whether a place of a file's own level runs: under ``__name__ == "__main__"`` only in a file that is started."""
        if not self.entries or source.path in self.entries:
            return True
        return not any("__name__" in ast.unparse(test) for test in _tests(node))

    def certain(self, source: Source, node: ast.AST, depth: int = _DEPTH) -> bool:
        """Whether the program comes here for sure: only through tests that are true at some time, from the file's own level."""
        if not all(is_plain(test, source) for test in _tests(node)):
            return False
        function = function_of(node)
        if function is None and not self.runs(source, node):
            return False
        if function is None or (HOOKS.fullmatch(function.name) and isinstance(parent(function), ast.ClassDef)):
            return True
        return depth > 0 and any(self.certain(*place, depth - 1) for place in self.calling(source, function))


_last: list[tuple[Program, Callers]] = []


def callers_of(program: Program) -> Callers:
    """The callers of a program, found once for all rules."""
    if not _last or _last[0][0] is not program:
        _last[:] = [(program, Callers(program))]
    return _last[0][1]


def function_of(node: ast.AST) -> Function | None:
    """The function in which a node stands."""
    return next((one for one in parents(node) if isinstance(one, FUNCTIONS)), None)


def statement_of(node: ast.AST) -> ast.stmt:
    """The statement in which an expression stands."""
    return node if isinstance(node, ast.stmt) else next(one for one in parents(node) if isinstance(one, ast.stmt))


def last_name(node: ast.AST) -> str:
    """The last word of a name."""
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def _is_method(function: Function) -> bool:
    return isinstance(parent(function), ast.ClassDef)


def _in_module(called: str, found: tuple[Source, Function]) -> bool:
    """Whether an imported name is this function: its module ends like the function's file."""
    source, function = found
    parts = called.strip(".").split(".")
    file = source.path.replace("\\", "/").removesuffix(".py").removesuffix("/__init__").split("/")
    owner = parent(function)
    wanted = parts[:-1]
    if isinstance(owner, ast.ClassDef):
        return bool(wanted) and wanted[-1] == owner.name
    return not wanted or wanted[-1] == file[-1] or (called.startswith(".") and wanted[-1] in file) or parts[0] in file


def _tests(node: ast.AST) -> list[ast.expr]:
    """The tests around a place within its function; being on the other side of one is no test that we understand."""
    found: list[ast.expr] = []
    at = node
    for above in parents(node):
        if isinstance(above, FUNCTIONS):
            break
        if isinstance(above, ast.If) and at is not above.test:
            found.append(above.test)
        if isinstance(above, (ast.IfExp, ast.ExceptHandler, ast.Lambda)):
            found.append(ast.Constant(value=None))
        at = above
    return found
