"""The one operation of the program that is not finite everywhere, where its values or gradients became NaN.

Only what the program was seen to do counts (`code/safe_arithmetic.py`). Where several operations may be the one, nothing is offered,
unless a line of them was named.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from crashcart.causes.numerics._recorded import broken_losses, has_usual_loss
from crashcart.causes.numerics._series import climbing
from crashcart.causes.numerics.diverged import IMPOSSIBLE_RATE
from crashcart.readers.code.safe_arithmetic import safer, unsafe_masks, unsafe_operations
from crashcart.readers.code.source import FUNCTIONS
from crashcart.readers.remedies._scene import remedy

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from crashcart.model import Fact
    from crashcart.readers.code.source import Source
    from crashcart.readers.remedies._scene import Scene

_CAUSES = ("numerics/diverged", "numerics/bad-data", "silent/masked-nan")


def look(scene: Scene) -> Iterator[Fact]:
    """Roots and logarithms in what the program was seen to call, and divisions by a spread in what prepares its data."""
    if _had_grown(scene):
        return  # then the steps were too large, whatever is not finite in the end
    found = _found(scene, unsafe_operations) or _found(scene, unsafe_masks)
    if len(found) != 1:
        return
    source, node = found[0]
    edits = safer(source, node)
    written = " ".join(source.written(node).split())
    title = "Keep the argument of this operation away from 0"
    why = f"`{written}` or its gradient is not finite if its argument is 0; for other values it is the same up to rounding"
    if isinstance(node, ast.Call) and edits and "inf" in written:
        title = "Mask with a finite number"
        why = (
            f"`{written}`: a softmax over only minus infinity is NaN; with the smallest finite number all outputs are equal"
        )
    yield from remedy(_CAUSES, title, "changes-training", why, edits, source.evidence(node))


def _had_grown(scene: Scene) -> bool:
    """Whether the loss had grown before it was no number any more, or the rate is beyond what any optimizer can use."""
    broken = broken_losses(scene.case)
    rate = scene.case.number("train.learning_rate")
    return (
        (bool(broken) and not has_usual_loss(broken[0]))
        or climbing(scene.case) is not None
        or (rate or 0.0) >= IMPOSSIBLE_RATE
    )


def _found(
    scene: Scene, unsafe: Callable[[Source, ast.AST], Iterable[ast.Call | ast.BinOp]]
) -> list[tuple[Source, ast.Call | ast.BinOp]]:
    return [
        (source, node)
        for source in scene.sources
        for node in unsafe(source, source.tree)
        if source.around(node, *FUNCTIONS) is not None and not _is_only_shown(node)
    ]


def _is_only_shown(node: ast.AST) -> bool:
    """Whether a value only goes into a message or is only compared."""
    above = getattr(node, "parent", None)
    while above is not None and not isinstance(above, ast.stmt):
        if isinstance(above, ast.JoinedStr) or (
            isinstance(above, ast.Call) and ast.unparse(above.func) in {"print", "float", "math.exp"}
        ):
            return True
        above = getattr(above, "parent", None)
    return False
