"""Losses that are divided by the number of parts that was asked for, where there may be fewer parts after all.

    for part in cut_batch(batch, accum_steps):          parts = cut_batch(batch, accum_steps)
        loss = model(part) / accum_steps                for part in parts:
                                                            loss = model(part) / len(parts)

A function that makes the parts may make fewer than asked for; the mean over them is then another number, and the loop that
goes over them must divide by how many there are.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from crashcart.readers.code._edits import alone, line_before, replaced
from crashcart.readers.code._loops import statement, within
from crashcart.readers.code.source import FUNCTIONS, keyword

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.model import Edit
    from crashcart.readers.code._loops import Frame, Loops

__all__ = ["divisors"]


def divisors(loops: Loops, maker: Frame, number: ast.expr) -> Iterator[Edit]:
    """The edits for each loop over what a function makes; none where the parts are handed on elsewhere."""
    names = [one.arg for one in maker.node.args.args] if isinstance(maker.node, FUNCTIONS) else []
    if not isinstance(number, ast.Name) or number.id not in names:
        return
    place = names.index(number.id) - (names[:1] == ["self"])
    for caller, call in loops.callers(maker):
        asked, begin = keyword(call, number.id, place), statement(call)
        if asked is None or caller is maker:
            continue
        wanted = ast.dump(asked)
        if isinstance(begin, (ast.For, ast.AsyncFor)) and within(call, begin.iter) and alone(caller.source, begin):
            found = [one for one in _divided(caller, begin) if ast.dump(one) == wanted]
            if found:
                name = _fresh(caller, "chunks")
                text = caller.source.written(call)
                yield line_before(caller.source, begin, f"{name} = {text if _lists(maker) else f'list({text})'}")
                yield replaced(caller.source, call, name)
                yield from (replaced(caller.source, one, f"len({name})") for one in found)
        elif (
            _lists(maker)
            and isinstance(begin, ast.Assign)
            and begin.value is call
            and isinstance(begin.targets[0], ast.Name)
        ):
            name = begin.targets[0].id
            for loop in caller.source.nodes(ast.For):
                over = any(isinstance(one, ast.Name) and one.id == name for one in ast.walk(loop.iter))
                if over and within(loop, caller.node):
                    found = [one for one in _divided(caller, loop) if ast.dump(one) == wanted]
                    yield from (replaced(caller.source, one, f"len({name})") for one in found)


def _divided(frame: Frame, loop: ast.stmt) -> Iterator[ast.expr]:
    """What values in a loop are divided by."""
    for node in frame.source.nodes(ast.BinOp):
        if isinstance(node.op, ast.Div) and within(node, loop):
            yield node.right
    for given in frame.source.nodes(ast.AugAssign):
        if isinstance(given.op, ast.Div) and within(given, loop):
            yield given.value


def _lists(maker: Frame) -> bool:
    """Whether a function answers with a list, which has a length."""
    answers = [one.value for one in maker.source.nodes(ast.Return) if within(one, maker.node)]
    return bool(answers) and all(isinstance(one, (ast.List, ast.ListComp)) for one in answers)


def _fresh(frame: Frame, name: str) -> str:
    used = {one.id for one in frame.source.nodes(ast.Name)}
    return name if name not in used else f"{name}_here"
