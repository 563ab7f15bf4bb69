"""Files that are written under another name and renamed when whole: safe among processes only where that name is each one's own.

tmp = f"{path}.{os.getpid()}"     each process renames its own file
tmp = path + ".tmp"               two processes write one file, and the second to rename it finds it gone
"""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING, Literal

from crashcart.readers.code._callers import function_of
from crashcart.readers.code._paths import given_to

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from crashcart.readers.code.source import Source

__all__ = ["renamed"]

MOVES = {"os.replace", "os.rename", "shutil.move"}
OWN = re.compile(
    r"(?i)pid|uuid|mkstemp|mkdtemp|tempfile|temporary|rank|rand|time|token|secrets|host|worker|nonce|hash|hex\b"
)
_DEPTH = 3


def renamed(source: Source, nodes: Iterable[ast.AST]) -> Literal["", "own", "shared"]:
    """Whether statements rename what they wrote, and whether its name belongs to the process."""
    found = [_own(source, old) for old in _moved(source, nodes)]
    return "" if not found else "own" if all(found) else "shared"


def _moved(source: Source, nodes: Iterable[ast.AST]) -> Iterator[ast.expr]:
    for call in (one for node in nodes for one in ast.walk(node) if isinstance(one, ast.Call)):
        if source.called(call.func) in MOVES and call.args:
            yield call.args[0]
        elif (
            isinstance(call.func, ast.Attribute)
            and call.func.attr in {"rename", "replace"}
            and len(call.args) == 1
            and not call.keywords
        ):
            yield call.func.value


def _own(source: Source, node: ast.expr, depth: int = _DEPTH) -> bool:
    """Whether a path is this process's alone; also where it cannot be told."""
    if OWN.search(ast.unparse(node)):
        return True
    function = function_of(node)
    handed = {one.arg for one in function.args.args} if function is not None else set()
    for name in (one for one in ast.walk(node) if isinstance(one, ast.Name)):
        values = given_to(source, name.id, function)
        if any(_own(source, value, depth - 1) for value in values if depth):
            return True
        if name is node and not values and name.id not in handed:
            return True  # made by a `with`, a loop or a function that is not followed
    return False
