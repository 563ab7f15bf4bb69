"""How often a chunk fits into an episode, as a program writes it: ``n - chunk + 1``, and what follows from it.

range(max(0, n - chunk + 1))        np.maximum(lengths - obs - pred + 1, 0)        (n - chunk) // stride + 1
if n < chunk: continue              if n >= chunk: index.append(...)               [e for e in all if e.steps >= chunk]
"""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from crashcart.readers.code._paths import given_to
from crashcart.readers.code.source import name_of, parents
from crashcart.record import record

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.readers.code.source import Function, Source

__all__ = ["Room", "asked", "counted"]

CHUNK = re.compile(r"(?i)chunk|horizon|window|seq|context|clip|block|length|len|steps|frames")
LENGTH = re.compile(r"(?i)len|num|steps|size|count|horizon|frames|shape|total|(?:^|_)[ntl]$")
PLAINLY = re.compile(r"(?i)length|(?:^|_)lens?(?:$|_)")
RANGES = {"range", "arange", "xrange"}
AT_LEAST = {"max", "maximum", "clip", "clamp", "clamp_min"}
KEEPS = {"append", "extend", "add", "update", "repeat"}
COMPREHENSIONS = (ast.ListComp, ast.GeneratorExp, ast.DictComp, ast.SetComp)
_NO_INDEX = {"__getitem__", "forward", "training_step", "validation_step"}


@record(frozen=True)
class Room:
    """``length - chunks + more``; ``windows`` where each place at which a chunk fits is a sample."""

    chunks: tuple[ast.expr, ...]
    more: int
    windows: bool


def counted(source: Source, function: Function, node: ast.Call) -> Room | None:
    """A range that is empty, or a number of samples that is 0, for what is shorter than a chunk."""
    name = name_of(node.func).rpartition(".")[2] or (node.func.attr if isinstance(node.func, ast.Attribute) else "")
    if name in RANGES and node.args:
        end = _set_to(source, function, node.args[min(1, len(node.args) - 1)])
        room = _room(source, function, _bare(end))
        stepped = len(node.args) > 2  # noqa: PLR2004 - begin, end and step
        return Room(room.chunks, room.more, room.windows and not stepped) if room is not None else None
    if name in AT_LEAST and (inner := _bare(node)) is not node and _is_kept(function, node):
        return _room(source, function, inner)
    return None


def asked(source: Source, function: Function, node: ast.Compare) -> Room | None:
    """A test that leaves out what is shorter than a chunk: it goes on to the next, or only keeps what is long enough."""
    if len(node.ops) != 1:
        return None
    left, operator, right = node.left, type(node.ops[0]), node.comparators[0]
    leaves, keeps = _then(node)
    if isinstance(getattr(node, "parent", None), ast.While):  # while start + chunk <= n
        return _goes_on(source, function, node)
    if operator in {ast.Gt, ast.GtE} and leaves:
        left, right, operator = right, left, ast.Lt if operator is ast.Gt else ast.LtE
    elif operator in {ast.Lt, ast.LtE} and keeps:
        left, right, operator = right, left, ast.Gt if operator is ast.Lt else ast.GtE
    if operator in {ast.Lt, ast.LtE} and leaves:
        more = int(operator is ast.Lt)
    elif operator in {ast.Gt, ast.GtE} and keeps and function.name not in _NO_INDEX:
        more = int(operator is ast.GtE)
    else:
        return None
    room = _room(source, function, _set_to(source, function, left))
    if room is not None and isinstance(right, ast.Constant) and isinstance(right.value, int):
        return Room(room.chunks, room.more - right.value + more, windows=False)
    plain = isinstance(right, ast.Constant) and isinstance(right.value, int) and right.value > 1
    if (plain or _is_chunk(source, function, right)) and _is_length(source, function, left):
        return Room((right,), more, windows=False)
    return None


def _goes_on(source: Source, function: Function, node: ast.Compare) -> Room | None:
    """``while start + chunk <= n``, with a start of 0: never, where n is smaller."""
    left, right = node.left, node.comparators[0]
    if not isinstance(node.ops[0], (ast.Lt, ast.LtE)) or not isinstance(left, ast.BinOp) or not isinstance(left.op, ast.Add):
        return None
    for start, chunk in ((left.left, left.right), (left.right, left.left)):
        given = given_to(source, name_of(start), function) if isinstance(start, ast.Name) else []
        zero = any(isinstance(one, ast.Constant) and one.value == 0 for one in given)
        if zero and _is_chunk(source, function, chunk) and _is_length(source, function, right):
            return Room((chunk,), int(isinstance(node.ops[0], ast.LtE)), windows=False)
    return None


def _then(node: ast.Compare) -> tuple[bool, bool]:
    """Whether the one that the test is true of is left out; whether only that one is kept."""
    above = getattr(node, "parent", None)
    if isinstance(above, ast.comprehension):
        return False, True
    if not isinstance(above, ast.If) or above.test is not node:
        return False, False
    if isinstance(above.body[-1], (ast.Continue, ast.Return)):
        return True, False
    loops = any(isinstance(one, (ast.For, ast.While)) for one in parents(above))
    calls = (one for part in above.body for one in ast.walk(part) if isinstance(one, ast.Call))
    kept = any(isinstance(one.func, ast.Attribute) and one.func.attr in KEEPS for one in calls)
    return False, loops and kept and not above.orelse


def _bare(node: ast.expr) -> ast.expr:
    """``max(0, x)``, ``np.maximum(x, 0)``, ``x.clip(min=0)``: x; anything else as it is."""
    if not isinstance(node, ast.Call):
        return node
    name = node.func.attr if isinstance(node.func, ast.Attribute) else name_of(node.func)
    given = [*node.args, *(word.value for word in node.keywords if word.arg in {"min", "a_min"})]
    if name not in AT_LEAST or not any(isinstance(one, ast.Constant) and one.value == 0 for one in given):
        return node
    others = [one for one in given if not isinstance(one, ast.Constant)]
    if others:
        return others[0]
    return node.func.value if isinstance(node.func, ast.Attribute) else node


def _is_kept(function: Function, node: ast.Call) -> bool:
    """Whether a number goes into a list or a sum; where it starts, or what it is compared with, is no count."""
    for above in parents(node):
        if isinstance(above, (*COMPREHENSIONS, ast.AugAssign)):
            return True
        if isinstance(above, ast.Call):
            return isinstance(above.func, ast.Attribute) and above.func.attr in KEEPS
        if isinstance(above, ast.Assign):
            target = above.targets[0]
            if isinstance(target, (ast.Attribute, ast.Subscript)):
                return not isinstance(node.func, ast.Name)  # of an array: all episodes at once
            return any(_goes_in(one) for one in _uses(function, name_of(target)))
        if not isinstance(above, (ast.BinOp, ast.Tuple)):
            return False
    return False


def _uses(function: Function, name: str) -> Iterator[ast.Name]:
    for one in ast.walk(function):
        if isinstance(one, ast.Name) and one.id == name and isinstance(one.ctx, ast.Load):
            yield one


def _goes_in(name: ast.Name) -> bool:
    for above in parents(name):
        if isinstance(above, ast.Call):
            last = name_of(above.func).rpartition(".")[2]
            return last in KEEPS or last == "cumsum"
        if isinstance(above, ast.AugAssign):
            return True
        if not isinstance(above, (ast.BinOp, ast.Tuple, ast.List)):
            return False
    return False


def _room(source: Source, function: Function, node: ast.expr) -> Room | None:
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add) and _is_one(node.right):
        inner = node.left
        if isinstance(inner, ast.BinOp) and isinstance(inner.op, ast.FloorDiv):  # (n - chunk) // stride + 1
            room = _room(source, function, inner.left)
            return Room(room.chunks, room.more + 1, windows=False) if room is not None else None
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.FloorDiv):  # n // chunk pieces, side by side
        whole = _is_chunk(source, function, node.right) and _is_length(source, function, node.left)
        return Room((node.right,), 1, windows=False) if whole else None
    more = 0
    chunks: list[ast.expr] = []
    lengths: list[ast.expr] = []
    for sign, one in _terms(node):
        if isinstance(one, ast.Constant):
            if type(one.value) is not int:
                return None
            more += sign * one.value
        else:
            (lengths if sign > 0 else chunks).append(one)
    if len(lengths) != 1 or not chunks or not _is_length(source, function, lengths[0]):
        return None
    return Room(tuple(chunks), more, windows=True) if any(_is_chunk(source, function, one) for one in chunks) else None


def _is_one(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value == 1


def _terms(node: ast.expr, sign: int = 1) -> Iterator[tuple[int, ast.expr]]:
    """The parts of a sum with their signs."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Sub)):
        yield from _terms(node.left, sign)
        yield from _terms(node.right, sign if isinstance(node.op, ast.Add) else -sign)
    else:
        yield sign, node


def _is_chunk(source: Source, function: Function, node: ast.expr) -> bool:
    if isinstance(node, (ast.BinOp, ast.Constant)):
        return False
    given = given_to(source, name_of(node), function) if isinstance(node, (ast.Name, ast.Attribute)) else []
    return any(CHUNK.search(source.written(one)) for one in (node, *given))


def _set_to(source: Source, function: Function, node: ast.expr) -> ast.expr:
    """What a variable is set to, where that is done once in a function; anything else as it is."""
    if isinstance(node, ast.NamedExpr):
        return node.value
    given = given_to(source, node.id, function) if isinstance(node, ast.Name) else []
    return given[0] if len(given) == 1 else node


def _is_length(source: Source, function: Function, node: ast.expr) -> bool:
    """Whether an expression is the length of something that was read."""
    if isinstance(node, ast.NamedExpr):
        node = node.value
    if isinstance(node, ast.Call):
        return name_of(node.func) in {"len", "int"} and bool(node.args)
    if "shape" in name_of(node):
        return True
    if isinstance(node, (ast.Attribute, ast.Subscript)):
        key = node.slice.value if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant) else None
        return bool(LENGTH.search(key if isinstance(key, str) else name_of(node).rpartition(".")[2]))
    if not isinstance(node, ast.Name):
        return False
    given = given_to(source, node.id, function)
    if not given or PLAINLY.search(node.id):
        return bool(LENGTH.search(node.id))
    return any(
        "shape" in (text := source.written(one)) or "len(" in text or LENGTH.search(text.split("(")[0]) for one in given
    )
