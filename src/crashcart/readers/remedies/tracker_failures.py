"""A tracker that raised, in a run that could go on without what it was told.

for step, batch in enumerate(loader):
    ...
    tracker.keep(model, step)        raised within: the row is left out, with a line that says so
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from crashcart.readers.code.source import FUNCTIONS
from crashcart.readers.remedies._left_out import left_out, stands_alone
from crashcart.readers.remedies._scene import remedy, statement_at

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.model import Fact
    from crashcart.readers.code.source import Source
    from crashcart.readers.remedies._scene import Scene

_TRAINING = frozenset({"backward", "step", "zero_grad"})


def look(scene: Scene) -> Iterator[Fact]:
    """The outermost call that stands alone in a loop, and within which no loop was under way."""
    for raised in scene.raises[:1]:
        chosen: tuple[Source, ast.stmt] | None = None
        for spot in reversed(raised.frames):
            source = scene.source(spot.file)
            statement = statement_at(source, spot.line) if source is not None else None
            if source is None or statement is None:
                break
            if stands_alone(source, statement):
                chosen = source, statement
            function = source.around(statement, *FUNCTIONS)
            loop = source.around(statement, ast.For, ast.While)
            is_round = loop is not None and source.around(loop, *FUNCTIONS) is function
            if is_round or (function is not None and _trains(function)):
                break
        if chosen is not None:
            source, statement = chosen
            edits = left_out(source, statement, "Exception", "  # a tracker must not end the training")
            why = "what could not be told to the tracker is said in the log; the training is the same"
            yield from remedy(
                ("tracker/failed",), "Go on without the tracker's answer", "exact", why, edits, source.evidence(statement)
            )


def _trains(function: ast.AST) -> bool:
    return any(
        isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _TRAINING
        for node in ast.walk(function)
    )
