"""Sizes that are a whole quotient of what a device takes and a number drawn for each batch, and the guards against zero.

batch_size = self.max_img_per_gpu // image_num          batch_size = self.max_img_per_gpu / image_num
ids[: int(cfg.max_img_per_gpu / image_num)]             batch_size = np.floor(batch_size).astype(int)

max(1, batch_size)      batch_size or 1      if batch_size < 1: batch_size = 1
"""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from crashcart.names import canonical
from crashcart.readers.code._settings import readings_of
from crashcart.readers.code.source import FUNCTIONS, inside, name_of, parents

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.model import Fact
    from crashcart.readers.code._settings import Reading
    from crashcart.readers.code.program import Program

_FLOORS = {"int", "floor", "trunc", "astype", "fix", "long"}
_WHOLE = {"divmod", "floor_divide"}
_SIZES = re.compile(r"(?i)batch|accum|micro|chunk|per_(?:gpu|device|rank)|samples_per|^bs$|_bs$")


def look(program: Program) -> Iterator[Fact]:
    """``code.quotient``: of what; ``code.size_guard``: the names that can be no smaller than one."""
    for reading in readings_of(program):
        found = [(key, at) for left, at in _divided(reading) if (key := _of(reading, left))]
        yield from _guards(reading, {name for _, at in found for name in _kept_as(at)})
        for key, at in found:
            if not isinstance(inside(at, ast.If, *FUNCTIONS), ast.If):
                yield reading.source.fact("code.quotient", {"of": key}, at)


def _of(reading: Reading, left: ast.expr) -> str | None:
    return canonical(reading.key(left) or name_of(left).rpartition(".")[2])


def _kept_as(at: ast.expr) -> list[str]:
    """The name that a quotient is given."""
    above = next((one for one in parents(at) if isinstance(one, ast.stmt)), None)
    return [name_of(one).rpartition(".")[2] for one in above.targets] if isinstance(above, ast.Assign) else []


def _divided(reading: Reading) -> Iterator[tuple[ast.expr, ast.expr]]:
    """What is divided and becomes a whole number, with the expression."""
    for node in reading.source.nodes(ast.BinOp):
        if isinstance(node.left, (ast.Name, ast.Attribute, ast.Subscript)) and (
            isinstance(node.op, ast.FloorDiv)
            or (isinstance(node.op, ast.Div) and _of(reading, node.left) and _floored(reading, node))
        ):
            yield node.left, node
    for call in reading.source.calls("divmod", "floor_divide", "div"):
        whole = any(word.arg == "rounding_mode" for word in call.keywords)
        if call.args and (whole or name_of(call.func).rpartition(".")[2] in _WHOLE):
            yield call.args[0], call


def _floored(reading: Reading, node: ast.expr) -> bool:
    """``int(a / b)``, ``np.floor(a / b)``, or the name that holds it floored later in the same function."""
    for above in parents(node):
        if isinstance(above, ast.Call) and _last(above) in _FLOORS:
            return True
        if isinstance(above, ast.Assign) and isinstance(above.targets[0], ast.Name):
            function, name = inside(node, *FUNCTIONS), above.targets[0].id
            return any(
                any(isinstance(one, ast.Name) and one.id == name for one in ast.walk(call))
                for call in reading.source.calls("int", "floor", "trunc")
                if inside(call, *FUNCTIONS) is function
            )
        if isinstance(above, ast.stmt):
            return False
    return False


def _last(call: ast.Call) -> str:
    return call.func.attr if isinstance(call.func, ast.Attribute) else name_of(call.func)


def _guards(reading: Reading, quotients: set[str]) -> Iterator[Fact]:
    """A size that can be no smaller than one, or that is passed over where it is."""
    for call in reading.source.calls("max", "clip", "maximum", "clamp"):
        given = (*call.args, *(one.value for one in call.keywords))
        if any(isinstance(one, ast.Constant) and one.value == 1 for one in given) and (names := _sizes(call, quotients)):
            yield reading.source.fact("code.size_guard", names, call)
    for either in reading.source.nodes(ast.BoolOp):
        last = either.values[-1]
        if (
            isinstance(either.op, ast.Or)
            and isinstance(last, ast.Constant)
            and last.value == 1
            and (names := _sizes(either, quotients))
        ):
            yield reading.source.fact("code.size_guard", names, either)
    tests: list[ast.If | ast.IfExp] = [*reading.source.nodes(ast.If), *reading.source.nodes(ast.IfExp)]
    for test in tests:
        if _against_zero(test.test) and (names := _sizes(test.test, quotients)) and _goes_round(test, names):
            yield reading.source.fact("code.size_guard", names, test)


def _sizes(node: ast.AST, quotients: set[str]) -> list[str]:
    """The names in an expression, where one of them is that of a size."""
    names = {name_of(one).rpartition(".")[2] for one in ast.walk(node) if isinstance(one, (ast.Name, ast.Attribute))}
    names |= {str(one.value) for one in ast.walk(node) if isinstance(one, ast.Constant)}
    return sorted(names) if names & quotients or any(_SIZES.search(name) for name in names) else []


def _against_zero(test: ast.expr) -> bool:
    """``size < 1``, ``size == 0``, ``size <= 0``, ``not size``."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return isinstance(test.operand, (ast.Name, ast.Attribute))
    if not isinstance(test, ast.Compare) or not isinstance(test.comparators[0], ast.Constant):
        return False
    bound = {ast.Lt: 1, ast.LtE: 0, ast.Eq: 0}.get(type(test.ops[0]))
    return bound is not None and test.comparators[0].value == bound


def _goes_round(test: ast.If | ast.IfExp, names: list[str]) -> bool:
    """Whether another size is taken, or this batch passed over; to refuse the job is no guard."""
    if isinstance(test, ast.IfExp):
        return True
    first = test.body[0]
    if isinstance(first, ast.Assign):
        return any(name_of(one).rpartition(".")[2] in names for one in first.targets)
    return isinstance(test.body[-1], ast.Continue)
