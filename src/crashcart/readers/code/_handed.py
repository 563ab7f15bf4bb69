"""Functions that nobody calls by name: they are put on a list, and a loop calls whatever stands there.

@epoch_end                             for hook in EPOCH_END:
def upload_sheet(loop): ...                hook(loop)

HOOKS = {"epoch": [save, upload]}      HOOKS[name][0](state)
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from crashcart.readers.code._callers import function_of, last_name
from crashcart.readers.code.source import FUNCTIONS, parent, parents

if TYPE_CHECKING:
    from crashcart.readers.code._callers import Callers, Place
    from crashcart.readers.code.program import Program
    from crashcart.readers.code.source import Function, Source

__all__ = ["calls_of_handed", "is_handed_over"]

PUT = frozenset({"append", "add", "insert", "setdefault", "register", "subscribe", "add_callback", "add_hook", "on"})
_LISTS = (ast.List, ast.Tuple, ast.Set, ast.Dict)
_last: list[tuple[Program, list[Place]]] = []


def is_handed_over(callers: Callers, source: Source, function: Function) -> bool:
    """Whether a function is kept somewhere to be called later: by a decorator of the program, in a list, by ``append``."""
    if any(_keeps(callers, source, one) for one in function.decorator_list):
        return True
    for name in source.nodes(ast.Name):
        above = parent(name)
        if name.id == function.name and isinstance(name.ctx, ast.Load):
            if isinstance(above, _LISTS):
                return True
            if isinstance(above, ast.Call) and name in above.args and last_name(above.func) in PUT:
                return True
    return False


def _keeps(callers: Callers, source: Source, decorator: ast.expr) -> bool:
    """Whether a decorator puts the function that it is given somewhere."""
    func = decorator.func if isinstance(decorator, ast.Call) else decorator
    for _, own in callers.meant(source, func):
        given = {one.arg for node in ast.walk(own) if isinstance(node, FUNCTIONS) for one in node.args.args}
        for node in ast.walk(own):
            if (
                isinstance(node, ast.Call)
                and last_name(node.func) in PUT
                and any(last_name(one) in given for one in node.args)
            ):
                return True
            kept = isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Subscript)
            if kept and isinstance(node, ast.Assign) and last_name(node.value) in given:
                return True
    return False


def calls_of_handed(program: Program) -> list[Place]:
    """The calls of whatever a list holds: of the variable of a loop, or of an item."""
    if not _last or _last[0][0] is not program:
        found: list[Place] = [
            (source, call)
            for source in program.sources
            for call in source.nodes(ast.Call)
            if isinstance(call.func, ast.Subscript) or (isinstance(call.func, ast.Name) and _is_drawn(call, call.func.id))
        ]
        _last[:] = [(program, found)]
    return _last[0][1]


def _is_drawn(call: ast.Call, name: str) -> bool:
    """Whether a name is the variable of a loop around a call."""
    home = function_of(call)
    for above in parents(call):
        if above is home:
            return False
        targets = [above.target] if isinstance(above, ast.For) else []
        if isinstance(above, (ast.ListComp, ast.GeneratorExp)):
            targets = [one.target for one in above.generators]
        if any(isinstance(one, ast.Name) and one.id == name for target in targets for one in ast.walk(target)):
            return True
    return False
