"""A state that goes from one step into the next with the graph of the step before it.

    logits, self.state = self.net(batch, self.state)       RuntimeError: Trying to backward through the graph a second time

What is carried on is cut off from its graph right after the backward pass that used it. Only where one statement both takes and gives the
name, and leads to the loss.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from crashcart.readers.code.edits import line_after, own_lines
from crashcart.readers.code.source import name_of
from crashcart.readers.remedies._scene import remedy

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.model import Fact
    from crashcart.readers.remedies._scene import Scene

_CAUSES = ("code/autograd", "gpu-memory/leak", "host-memory/leak")
_WORDS = "backward through the graph a second time"


def look(scene: Scene) -> Iterator[Fact]:
    """The function or loop around the backward pass that was refused."""
    for raised in scene.raises[:1]:
        place = scene.at(raised.frames[-1] if raised.frames else None)
        if place is None or _WORDS not in raised.words:
            return
        source, statement = place
        scope = source.around(statement, ast.FunctionDef, ast.AsyncFunctionDef) or source.tree
        carried = {
            name
            for node in ast.walk(scope)
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call) and node.lineno < statement.lineno
            for name in _both(node, node.value)
        }
        if len(carried) == 1 and own_lines(source, statement):
            (name,) = carried
            cut = f"{name} = tuple(part.detach() for part in {name}) if isinstance({name}, tuple) else {name}.detach()"
            why = f"`{name}` goes into the next step, and would take the graph of this one along, which the backward pass has freed"
            edits = [line_after(source, statement, cut)]
            yield from remedy(
                _CAUSES,
                f"Cut {name} off from the graph of its step",
                "changes-training",
                why,
                edits,
                source.evidence(statement),
            )


def _both(node: ast.Assign, call: ast.Call) -> set[str]:
    """Names that a call takes as whole arguments and that its result is given to."""
    given = {name for target in node.targets for part in _parts(target) if (name := _written(part))}
    taken = {name for part in (*call.args, *(each.value for each in call.keywords)) if (name := _written(part))}
    return given & taken


def _parts(target: ast.expr) -> list[ast.expr]:
    return list(target.elts) if isinstance(target, (ast.Tuple, ast.List)) else [target]


def _written(node: ast.expr) -> str:
    return name_of(node) if isinstance(node, (ast.Name, ast.Attribute)) else ""
