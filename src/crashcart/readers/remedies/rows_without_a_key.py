"""The first or last row of a list of rows, which lacks a key that other rows have.

    last = state.log_history[-1]                    a row of the evaluation, which came after that of the training
    card = {"loss": last["loss"]}                   KeyError: 'loss'

The newest row that has the key is taken. Offered after some steps only: before, it may be that no row has it.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from crashcart.readers.code.edits import replaced
from crashcart.readers.code.source import FUNCTIONS
from crashcart.readers.remedies._scene import remedy

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.model import Fact
    from crashcart.readers.code.source import Source
    from crashcart.readers.remedies._scene import Raise, Scene

_ENDS = {"-1": "reversed({})", "0": "{}"}


def look(scene: Scene) -> Iterator[Fact]:
    """The statement that raised, and the only assignment of the name in it."""
    for raised in scene.raises[:1] if scene.has_trained else ():
        place = scene.at(raised.frames[-1] if raised.frames else None)
        key = raised.words.strip()
        if raised.kind != "KeyError" or place is None or key[:1] not in {"'", '"'}:
            continue
        source = place[0]
        rows = {id(row): row for row in _rows(source, raised, place[1], key[1:-1])}
        for row in rows.values() if len(rows) == 1 else ():
            every = _ENDS[ast.unparse(row.slice)].format(source.written(row.value))
            edits = [replaced(source, row, f"next(row for row in {every} if {key} in row)")]
            why = f"other rows have {key}; the one at this end may be of another kind"
            title = f"Take the nearest row that has {key}"
            yield from remedy(("code/bug",), title, "changes-training", why, edits, source.evidence(row))


def _rows(source: Source, raised: Raise, statement: ast.stmt, key: str) -> Iterator[ast.Subscript]:
    """Where the row was taken whose key is asked for on the line."""
    function = source.around(statement, *FUNCTIONS) or source.tree
    for node in ast.walk(statement):
        is_asked = isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant) and node.slice.value == key
        if not is_asked or not isinstance(node, ast.Subscript) or not isinstance(node.ctx, ast.Load):
            continue
        if not node.lineno <= raised.frames[-1].line <= (node.end_lineno or node.lineno):
            continue
        name = ast.unparse(node.value)
        made = [node.value] + [
            each.value
            for each in ast.walk(function)
            if isinstance(each, ast.Assign) and name in map(ast.unparse, each.targets)
        ]
        taken = [each for each in made if isinstance(each, ast.Subscript) and ast.unparse(each.slice) in _ENDS]
        yield from taken if len(made) - isinstance(node.value, ast.Name) == 1 else ()
