"""Edits that bring the calls of a gradient scaler into order; none where the code is not shaped for whole lines."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from crashcart.model import Edit, Span
from crashcart.readers.code.edits import alone, indent_of, line_after, line_before, step_of
from crashcart.readers.code.source import name_of
from crashcart.readers.rules._rounds import loop_call
from crashcart.readers.rules._statements import block_of, function_of, loop_of, statement_of, whole_lines

if TYPE_CHECKING:
    from collections.abc import Sequence

    from crashcart.readers.interpreter.execution import Execution
    from crashcart.readers.interpreter.trace import Call, Region

__all__ = ["add_unscale", "add_update", "drop_unscale", "move_unscale"]


def add_update(step: Call) -> tuple[Edit, ...]:
    """``update()`` after the scaler's step."""
    statement = statement_of(step.node)
    if (
        not isinstance(step.node, ast.Call)
        or not isinstance(step.node.func, ast.Attribute)
        or not alone(step.source, statement)
    ):
        return ()
    return (line_after(step.source, statement, f"{ast.unparse(step.node.func.value)}.update()"),)


def drop_unscale(execution: Execution, unscale: Call) -> tuple[Edit, ...]:
    """The second ``unscale_`` taken away, where its function is called from nowhere else."""
    statement = statement_of(unscale.node)
    function = function_of(unscale.node)
    places = {
        id(call.node) for call in execution.trace.calls if call.function is not None and call.function.node is function
    }
    plain = isinstance(statement, ast.Expr) and statement.value is unscale.node and alone(unscale.source, statement)
    if plain and len(places) <= 1 and len(block_of(statement)) > 1:
        return (Edit(whole_lines(unscale.source, statement), ""),)
    return ()


def add_unscale(clip: Call, step: Call, unscales: Sequence[Call], loop: Region) -> tuple[Edit, ...]:
    """``unscale_`` before the clipping: put in, or moved up from behind it."""
    place = loop_call(clip, loop) or clip
    source, statement = place.source, statement_of(place.node)
    if not alone(source, statement) or not isinstance(step.node, ast.Call) or not isinstance(step.node.func, ast.Attribute):
        return ()
    block = block_of(statement)
    for late in unscales:
        below = statement_of(late.node)
        if below in block and isinstance(below, ast.Expr) and below.lineno == below.end_lineno and alone(source, below):
            return line_before(source, statement, source.written(below)), Edit(whole_lines(source, below), "")
    if unscales or step.source is not source or function_of(step.node) is not function_of(place.node) or not step.node.args:
        return ()
    lines = [f"{ast.unparse(step.node.func.value)}.unscale_({ast.unparse(step.node.args[0])})"]
    each = loop_of(step.node)
    if each is not loop_of(place.node):
        if not isinstance(each, ast.For) or loop_of(each) is not loop_of(place.node):
            return ()
        lines = [f"for {ast.unparse(each.target)} in {ast.unparse(each.iter)}:", f"{step_of(source)}{lines[0]}"]
    return (line_before(source, statement, *lines),)


def move_unscale(unscale: Call, clips: Sequence[Call], branch: ast.AST | None, loop: Region) -> tuple[Edit, ...]:
    """``unscale_``, and the clipping behind it, moved into the branch that steps; what else stands between stays where it is."""
    place = loop_call(unscale, loop) or unscale
    source, first = place.source, statement_of(place.node)
    block = block_of(first)
    if not isinstance(branch, ast.If) or branch not in block or block.index(branch) < block.index(first):
        return ()
    between = block[block.index(first) : block.index(branch)]
    clipping = {id(statement_of((loop_call(clip, loop) or clip).node)) for clip in clips}
    moved = [statement for statement in between if statement is first or id(statement) in clipping]
    staying = [statement for statement in between if statement not in moved]
    behind = [*staying, branch.test, *branch.orelse, *block[block.index(branch) + 1 :]]
    if _uses_names_of(moved, behind) or _uses_names_of(staying, moved):
        return ()  # what is made there is used where it would not be made in each step
    if not all(alone(source, statement) for statement in [*between, *branch.body]):
        return ()
    inner = branch.body[0]
    more = indent_of(source, inner.lineno)[len(indent_of(source, first.lineno)) :]
    start = source.offset(inner.lineno, 0)
    spans = [whole_lines(source, statement) for statement in moved]
    text = "".join(
        f"{more}{line}\n" if line.strip() else "\n"
        for span in spans
        for line in source.text[span.start : span.end - 1].split("\n")
    )
    return *(Edit(span, "") for span in spans), Edit(Span(source.path, start, start, inner.lineno), text)


def _uses_names_of(makers: Sequence[ast.stmt], users: Sequence[ast.AST]) -> bool:
    """Whether something uses a name that one of these statements sets."""
    made = {name_of(node) for each in makers for node in ast.walk(each) if isinstance(getattr(node, "ctx", None), ast.Store)}
    used = {name_of(node) for each in users for node in ast.walk(each) if isinstance(node, (ast.Name, ast.Attribute))}
    return bool(made & used)
