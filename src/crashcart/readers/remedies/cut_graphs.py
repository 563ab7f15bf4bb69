"""A loss without a graph, and the one place on its way where the graph is cut.

    RuntimeError: element 0 of tensors does not require grad and does not have a grad_fn

    @torch.no_grad()        the function that makes it is decorated so
    loss.item()             a number, made into a tensor again
    scores.detach()

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
    """What is left of an expression without that which cuts its graph; a number of something else than a loss is no part of it."""
    if not isinstance(node, ast.Call):
        return None
    own = node.func.value if isinstance(node.func, ast.Attribute) else None
    if own is not None and isinstance(node.func, ast.Attribute) and not node.args:
        named = name_of(own)
        is_cut = node.func.attr == "detach" or (node.func.attr == "item" and "loss" in named.lower())
        return own if named and is_cut else None
    if source.called(node.func) in _NEW and len(node.args) == 1 and "loss" in ast.unparse(node.args[0]).lower():
        inner = node.args[0]
        if isinstance(inner, (ast.Name, ast.Attribute)):
            return inner
        return _uncut(source, inner)
    return None
