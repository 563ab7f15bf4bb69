"""A scaler that is to step where no backward pass was made: `No inf checks were recorded for this optimizer`.

    value = self.backward(batch)            returns early for a batch without anything to learn from
    self.scaler.unscale_(self.optimizer)    raises: there is no gradient to look at

Unscaling, clipping, the step and the update are done where there are gradients; a round without any leaves the weights alone.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from crashcart.readers.code.edits import wrapped
from crashcart.readers.remedies._scene import remedy

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.model import Fact
    from crashcart.readers.remedies._scene import Scene

_SAID = "No inf checks were recorded"
_CYCLE = frozenset({"unscale_", "clip_grad_norm_", "clip_grad_value_", "step", "update"})


def look(scene: Scene) -> Iterator[Fact]:
    """The statements of the optimizer's step at the line that raised."""
    for raised in scene.raises:
        place = scene.at(raised.frames[-1]) if _SAID in raised.words and raised.frames else None
        if place is None:
            continue
        source, statement = place
        body = next(
            (
                body
                for above in [next(source.parents(statement), None)]
                for name in ("body", "orelse")
                if statement in (body := getattr(above, name, []))
            ),
            [],
        )
        cycle = [at for at, each in enumerate(body) if _methods(each) & _CYCLE]
        optimizer = next(
            (
                ast.unparse(call.args[0])
                for at in cycle
                for call in ast.walk(body[at])
                if isinstance(call, ast.Call)
                and isinstance(call.func, ast.Attribute)
                and call.func.attr in {"unscale_", "step"}
                and call.args
            ),
            "",
        )
        if not cycle or not optimizer or cycle != list(range(cycle[0], cycle[-1] + 1)):
            return
        test = f'if any(weight.grad is not None for group in {optimizer}.param_groups for weight in group["params"]):'
        edits = wrapped(source, body[cycle[0]], body[cycle[-1]], [test], [])
        why = "an iteration without a backward pass then leaves weights and scale unchanged; all others are the same"
        yield from remedy(
            ("numerics/grad-scaler",), "Step only if there are gradients", "exact", why, edits, source.evidence(statement)
        )
        return


def _methods(statement: ast.stmt) -> set[str]:
    if not isinstance(statement, (ast.Expr, ast.Assign)) or not isinstance(statement.value, ast.Call):
        return set()
    function = statement.value.func
    return {function.attr} if isinstance(function, ast.Attribute) else set()
