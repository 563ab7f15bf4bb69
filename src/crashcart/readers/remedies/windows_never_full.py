"""Gradients that are gathered over more batches than an epoch has: the optimizer never steps.

    for i, batch in enumerate(loader):
        (loss / accumulate).backward()
        if (i + 1) % accumulate == 0:                               64, and the loader has 30 batches
            optimizer.step()

The window that is not full steps at the end of the loader, as trainers do.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from crashcart.readers.code.edits import replaced
from crashcart.readers.remedies._scene import remedy

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.model import Fact
    from crashcart.readers.code.source import Source
    from crashcart.readers.remedies._scene import Scene


def look(scene: Scene) -> Iterator[Fact]:
    """The one test around a step by the number of the batch."""
    found = [(source, test, loader, number) for source in scene.sources for test, loader, number in _windows(source)]
    if len(found) != 1 or scene.has_trained:
        return
    source, test, loader, number = found[0]
    text = f"{source.written(test.test)} or {number} == len({loader})"
    why = f"an epoch has fewer batches than one step accumulates; the remaining batches of {loader} then make a step of their own"
    yield from remedy(
        ("silent/nothing-trained",), "Step with what is left at the end of the loader", "changes-training",
        why, [replaced(source, test.test, text)], source.evidence(test),
    )  # fmt: skip


def _windows(source: Source) -> Iterator[tuple[ast.If, str, str]]:
    """Tests like ``(i + 1) % n == 0`` around a step in ``for i, batch in enumerate(loader)``: the loader, and the batches so far."""
    for loop in source.nodes(ast.For):
        counts = loop.iter
        if (
            not isinstance(counts, ast.Call)
            or source.called(counts.func) != "enumerate"
            or not counts.args
            or not isinstance(loop.target, ast.Tuple)
        ):
            continue
        index, loader = loop.target.elts[0], counts.args[0]
        begins = (
            counts.args[1]
            if len(counts.args) > 1
            else next((each.value for each in counts.keywords if each.arg == "start"), None)
        )
        from_one = isinstance(begins, ast.Constant) and begins.value == 1
        if (
            not isinstance(index, ast.Name)
            or not isinstance(loader, (ast.Name, ast.Attribute))
            or (begins is not None and not from_one)
        ):
            continue
        number = index.id if from_one else f"{index.id} + 1"
        for test in (node for statement in loop.body for node in ast.walk(statement) if isinstance(node, ast.If)):
            if _is_window(test.test, number) and _steps(test):
                yield test, source.written(loader), number


def _is_window(test: ast.expr, number: str) -> bool:
    return (
        isinstance(test, ast.Compare)
        and isinstance(test.ops[0], ast.Eq)
        and isinstance(test.left, ast.BinOp)
        and isinstance(test.left.op, ast.Mod)
        and ast.unparse(test.left.left) == number
        and ast.unparse(test.comparators[0]) == "0"
    )


def _steps(test: ast.If) -> bool:
    return any(
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "step"
        and "sched" not in ast.unparse(node.func.value)
        for statement in test.body
        for node in ast.walk(statement)
    )
