"""Ranks with a different number of batches: one has left the loop in which the other waits for it.

    for batch in loader:            rank 0 waits in its backward pass
        loss.backward()
    dist.barrier()                  rank 1 is here

``DistributedDataParallel.join`` lets a rank that has no batch left answer the others.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from crashcart.readers.code.edits import wrapped
from crashcart.readers.code.source import FUNCTIONS
from crashcart.readers.remedies._scene import remedy, statement_at

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.model import Fact
    from crashcart.readers.code.source import Source
    from crashcart.readers.remedies._scene import Scene

_DDP = "torch.nn.parallel.DistributedDataParallel"
_COLLECTIVES = frozenset({
    "all_reduce", "all_gather", "all_gather_object", "broadcast", "reduce", "gather", "barrier", "wait_for_everyone", "reduce_scatter",
    "all_gather_into_tensor", "broadcast_object_list",
})  # fmt: skip


def look(scene: Scene) -> Iterator[Fact]:
    """One stack in the backward or forward pass of a loop, another behind that loop in the same function."""
    for frames in scene.stacks:
        for spot in frames:
            source = scene.source(spot.file)
            statement = statement_at(source, spot.line) if source is not None else None
            loop = source.around(statement, ast.For) if source is not None and statement is not None else None
            if source is None or not isinstance(loop, ast.For) or not _has_left(scene, source, loop):
                continue
            model = _model(source, loop)
            if not model or _meets(loop) or _is_counted(loop):
                return
            edits = wrapped(source, loop, loop, [f"with {model}.join():"], [])
            why = "a rank without a batch then keeps answering the others until all have finished the loop"
            yield from remedy(
                ("distributed/desync",),
                "Use DDP's Join for ranks with fewer batches",
                "same-recipe",
                why,
                edits,
                source.evidence(loop),
            )
            return


def _has_left(scene: Scene, source: Source, loop: ast.For) -> bool:
    """Whether another process stands behind a loop, in the function that holds it."""
    function = source.around(loop, *FUNCTIONS)
    last = loop.end_lineno or loop.lineno
    for frames in scene.stacks:
        for spot in frames:
            if scene.source(spot.file) is not source or spot.line <= last:
                continue
            other = statement_at(source, spot.line)
            if other is not None and source.around(other, *FUNCTIONS) is function:
                return True
    return False


def _model(source: Source, loop: ast.For) -> str:
    """The name of the wrapped model, where the function with the loop makes it or the file does."""
    function = source.around(loop, *FUNCTIONS)
    made = [
        assign
        for assign in source.nodes(ast.Assign)
        if isinstance(assign.value, ast.Call)
        and source.called(assign.value.func).endswith((_DDP, ".DistributedDataParallel"))
    ]
    if len(made) != 1 or len(made[0].targets) != 1 or source.around(made[0], *FUNCTIONS) is not function:
        return ""
    return source.written(made[0].targets[0])


def _is_counted(loop: ast.For) -> bool:
    """Whether a loop makes as many rounds on each rank, or leaves some of them early: then it is not the number of batches."""
    iterates = loop.iter.func if isinstance(loop.iter, ast.Call) else None
    is_range = isinstance(iterates, ast.Name) and iterates.id == "range"
    return is_range or any(isinstance(node, (ast.Continue, ast.Break, ast.Return)) for node in ast.walk(loop))


def _meets(loop: ast.For) -> bool:
    """Whether the loop makes other collectives, which would then not be answered."""
    return any(
        isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _COLLECTIVES
        for node in ast.walk(loop)
    )
