"""A file that is copied by one read of a fixed size: whatever is longer is cut off.

    piece = source.read(PIECE)              the whole file is read instead
    target.write(piece)

A read of a fixed size within a loop is how one copies; a read of a header is not written again as it is.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from crashcart.model import Edit, Span
from crashcart.pattern import Pattern
from crashcart.readers.remedies._scene import remedy

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.model import Fact
    from crashcart.readers.code.source import Function, Source
    from crashcart.readers.remedies._scene import Scene

_CUT_OFF = Pattern(
    r"(?i)PytorchStreamReader|zip archive|central directory|truncat|unexpected end|unexpected EOF|ran out of input|corrupt|unable to (?:read|synchronously open)"
)


def look(scene: Scene) -> Iterator[Fact]:
    """One read of a fixed size that is written as it is into another file, where a file was cut off."""
    if not any(_CUT_OFF.search(raised.words) for raised in scene.raises):
        return
    for source in scene.project_sources(".read(", ".write("):
        for function in source.nodes(ast.FunctionDef):
            for assign in (node for node in ast.walk(function) if isinstance(node, ast.Assign)):
                call = assign.value
                if (
                    not _reads_piece(call)
                    or not isinstance(call, ast.Call)
                    or source.around(assign, ast.For, ast.While) is not None
                ):
                    continue
                target = assign.targets[0]
                if isinstance(target, ast.Name) and _is_written(function, target.id) and _opens_two(source, function):
                    start, end = source.span(call.func).end, source.span(call).end
                    edits = [Edit(Span(source.path, start, end, call.lineno), "()")]
                    why = "the copy holds the first piece only; what was copied before is lost, and has to be made again"
                    yield from remedy(
                        ("checkpoint/corrupt", "data/corrupt-or-missing"),
                        "Copy the whole file",
                        "exact",
                        why,
                        edits,
                        source.evidence(assign),
                    )


def _reads_piece(node: ast.expr) -> bool:
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "read"
        and len(node.args) == 1
    )


def _is_written(function: Function, name: str) -> bool:
    return any(
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "write"
        and len(node.args) == 1
        and isinstance(node.args[0], ast.Name)
        and node.args[0].id == name
        for node in ast.walk(function)
    )


def _opens_two(source: Source, function: Function) -> bool:
    opened = [node for node in ast.walk(function) if isinstance(node, ast.Call) and source.called(node.func) == "open"]
    return len(opened) == 2  # noqa: PLR2004 - the one that is read and the one that is written
