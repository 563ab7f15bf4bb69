"""A loss without a graph, and the one place on its way where the graph is cut.

    RuntimeError: element 0 of tensors does not require grad and does not have a grad_fn

    @torch.no_grad()        the function that makes it is decorated so
    loss.item()             a number, made into a tensor again
    scores.detach()         or ``.data``

Where there are several such places nothing is offered: one of them may be meant.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from crashcart.model import Edit, Span
from crashcart.readers.code.edits import replaced
from crashcart.readers.code.source import name_of
from crashcart.readers.remedies._scene import remedy
from crashcart.readers.value_origins import trail_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.model import Fact
    from crashcart.readers.code.source import Source
    from crashcart.readers.remedies._scene import Scene

_CAUSES = ("code/autograd",)
_WORDS = "does not require grad and does not have a grad_fn"
_OFF = frozenset({"torch.no_grad", "torch.inference_mode"})
_NEW = frozenset({"torch.tensor", "torch.as_tensor"})


def look(scene: Scene) -> Iterator[Fact]:
    """The way back from the backward pass that was refused."""
    if not any(_WORDS in raised.words for raised in scene.raises[:1]):
        return
    trail = trail_of(scene)
    if trail is None:
        return
    cuts: dict[tuple[str, int], tuple[Source, ast.expr, Edit]] = {}
    for source, function in trail.functions:
        for decorator in function.decorator_list:
            if source.called(decorator) in _OFF:
                start = source.offset(decorator.lineno, 0)
                gone = Edit(Span(source.path, start, start + len(source.line(decorator.lineno)) + 1, decorator.lineno), "")
                cuts[source.path, decorator.lineno] = (source, decorator, gone)
    for source, node in trail.nodes:
        for part in ast.walk(node):
            whole = _uncut(source, part)
            if whole is not None and isinstance(part, ast.expr):
                cuts.setdefault((source.path, part.lineno), (source, part, replaced(source, part, source.written(whole))))
    if len(cuts) == 1:
        ((source, place, edit),) = cuts.values()
        why = "the loss is made here of values that no gradient goes back from"
        yield from remedy(_CAUSES, "Keep the graph of the loss", "changes-training", why, [edit], source.evidence(place))


def _uncut(source: Source, node: ast.AST) -> ast.expr | None:
    """What is left of an expression without that which cuts its graph."""
    if isinstance(node, ast.Attribute) and node.attr == "data" and isinstance(node.value, (ast.Name, ast.Call)):
        return node.value
    if not isinstance(node, ast.Call):
        return None
    if (
        isinstance(node.func, ast.Attribute)
        and node.func.attr in {"detach", "item"}
        and not node.args
        and name_of(node.func.value)
    ):
        return node.func.value
    if source.called(node.func) in _NEW and node.args and isinstance(node.args[0], (ast.Name, ast.Call)):
        inner = node.args[0]
        is_number = isinstance(inner, ast.Call) and isinstance(inner.func, ast.Attribute) and inner.func.attr == "item"
        return inner.func.value if is_number and isinstance(inner.func, ast.Attribute) else inner  # type: ignore[union-attr]
    return None
