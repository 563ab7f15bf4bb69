"""Branches on a value that is not finite: ``if not torch.isfinite(loss)``, ``math.isnan(loss.item())``, ``loss != loss``.

The test may stand in a variable or in a function of the program. Of each branch it is known which side is taken when the
value is bad, and whether the ranks decided it together (what is tested went through a reduction or a gathering before).
"""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from crashcart.readers.code._loops import Frame, Loops, last_name, statement
from crashcart.readers.code.source import FUNCTIONS, parents
from crashcart.record import record

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Branch", "branches"]

_FINE = {"isfinite", "is_finite", "all_finite"}
_BAD = {"isnan", "isinf", "isposinf", "isneginf", "is_nan", "is_inf", "has_nan", "has_inf"}
_TOGETHER = re.compile(r"reduce(?!lr)|gather|broadcast", re.IGNORECASE)


@record(frozen=True)
class Branch:
    """One such branch: the statements taken when the value is bad, those when it is fine, and what was tested."""

    node: ast.If
    bad: list[ast.stmt]
    fine: list[ast.stmt]
    bad_is_true: bool
    names: frozenset[str]
    together: bool


def branches(loops: Loops, frame: Frame) -> Iterator[Branch]:
    """Every branch of a function on a value that is not finite."""
    for node in _ifs(frame):
        bad = _polarity(loops, frame, node.test)
        if bad is None:
            continue
        names = frozenset(_names(frame, node))
        sides = (node.body, node.orelse) if bad else (node.orelse, node.body)
        yield Branch(node, *sides, bad, names, _together(loops, frame, node, names))


def _ifs(frame: Frame) -> Iterator[ast.If]:
    for node in frame.source.nodes(ast.If):
        above = next((one for one in parents(node) if isinstance(one, (*FUNCTIONS, ast.Module))), None)
        if above is frame.node:
            yield node


def _polarity(loops: Loops, frame: Frame, node: ast.expr, depth: int = 3) -> bool | None:
    """True where the expression is true for a bad value, False where it is true for a fine one, None for anything else."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.Not, ast.Invert)):
        inner = _polarity(loops, frame, node.operand, depth)
        return None if inner is None else not inner
    if isinstance(node, ast.BoolOp):
        found = [one for one in (_polarity(loops, frame, value, depth) for value in node.values) if one is not None]
        return found[0] if found else None
    if isinstance(node, ast.Compare) and len(node.ops) == 1 and isinstance(node.ops[0], (ast.NotEq, ast.Eq)):
        same = ast.dump(node.left) == ast.dump(node.comparators[0])
        return isinstance(node.ops[0], ast.NotEq) if same else None
    if isinstance(node, ast.Call):
        return _call(loops, frame, node, depth)
    if isinstance(node, (ast.Name, ast.Attribute)) and depth:
        values = [value for value in _values(frame, ast.unparse(node)) if not isinstance(value, ast.Constant)]
        return _polarity(loops, frame, values[-1], depth - 1) if values else None
    return None


def _call(loops: Loops, frame: Frame, node: ast.Call, depth: int) -> bool | None:
    name = last_name(node.func)
    if name in _FINE or name in _BAD:
        return name in _BAD
    if name in {"any", "all", "item", "bool", "float", "sum"}:
        inner = node.func.value if isinstance(node.func, ast.Attribute) else None
        for one in [*node.args, *([inner] if inner is not None else [])]:
            found = _polarity(loops, frame, one, depth)
            if found is not None:
                return found
    for callee in loops.callees(frame, node) if depth else ():
        if not callee.named(*_FINE, *_BAD):
            continue
        found = _returned(loops, callee, depth - 1)
        if found is not None:
            return found
    return None


def _returned(loops: Loops, frame: Frame, depth: int) -> bool | None:
    """What a function of the program that looks whether a value is finite answers for a bad one."""
    returns = [node for node in frame.source.nodes(ast.Return) if loops.frame(node) is frame and node.value is not None]
    for node in returns:
        value = node.value
        if isinstance(value, ast.Constant) and isinstance(value.value, bool):
            above = next((one for one in parents(node) if isinstance(one, ast.If)), None)
            tested = _polarity(loops, frame, above.test, depth) if above is not None else None
            if tested is not None and above is not None:
                return value.value == (tested == (statement(node) in above.body))
        elif value is not None and (found := _polarity(loops, frame, value, depth)) is not None:
            return found
    return None


def _values(frame: Frame, name: str) -> list[ast.expr]:
    """What a name is set to in a function, in the order of the lines."""
    found = [
        node.value
        for node in frame.source.nodes(ast.Assign)
        if any(ast.unparse(target) == name for target in node.targets if isinstance(target, (ast.Name, ast.Attribute)))
        and any(above is frame.node for above in parents(node))
    ]
    return sorted(found, key=lambda value: value.lineno)


def _words(node: ast.AST) -> set[str]:
    return {one.id for one in ast.walk(node) if isinstance(one, ast.Name)} | {
        one.attr for one in ast.walk(node) if isinstance(one, ast.Attribute)
    }


def _names(frame: Frame, node: ast.If) -> set[str]:
    """What is tested, and what that was made from."""
    names = {one.id for one in ast.walk(node.test) if isinstance(one, ast.Name)}
    for _ in range(2):
        for name in list(names):
            for value in _values(frame, name):
                names |= {one.id for one in ast.walk(value) if isinstance(one, ast.Name)}
    return names - {"torch", "math", "np", "numpy", "self", "dist", "int", "float", "bool"}


def _together(loops: Loops, frame: Frame, node: ast.If, names: frozenset[str]) -> bool:
    """Whether the ranks agree on what is tested: it was reduced or gathered in this function or in one that the test calls."""
    for call in frame.calls:
        if call.lineno > node.test.lineno:
            continue
        callees = loops.callees(frame, call)
        joins = bool(_TOGETHER.search(last_name(call.func))) or any(
            _TOGETHER.search(last_name(inner.func)) for one in callees for inner in one.calls
        )
        if joins and (_words(statement(call)) & names if not isinstance(statement(call), ast.If) else True):
            return True
    return False
