"""Batches that are cut into parts of ``len(batch) // n`` samples each.

Where the batch holds fewer samples than there are parts, every part is empty; where it does not divide, samples are lost in
each step. ``split(len(x) // n)`` and ``range(0, len(x), len(x) // n)`` fail outright with a size of 0. A program that looks
at the remainder, or leaves out empty parts, is not meant.
"""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING, Any

from crashcart.readers.code import _parts
from crashcart.readers.code._loops import last_name, loop_of, loops_of, statement, within
from crashcart.readers.code._operands import operand
from crashcart.readers.code.source import FUNCTIONS, keyword, name_of, parent, parents
from crashcart.record import replace

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.model import Fact
    from crashcart.readers.code._loops import Frame, Loops
    from crashcart.readers.code.program import Program

_COUNTED = re.compile(r"accum|micro|chunk|split|part", re.IGNORECASE)
_SIZE = re.compile(r"batch_?size|^bs$|^bsz$|num_samples|n_samples", re.IGNORECASE)
_FIRST = 0


def look(program: Program) -> Iterator[Fact]:
    """``code.chunks``: how many parts, of what, how they are cut."""
    loops = loops_of(program)
    seen: set[tuple[ast.AST, str]] = set()
    for source in program.sources:
        for node in source.nodes(ast.BinOp):
            if not isinstance(node.op, ast.FloorDiv):
                continue
            frame = loops.frame(node)
            if (frame.node, ast.dump(node)) in seen:
                continue  # the same quotient for the other bound
            seen.add((frame.node, ast.dump(node)))
            home, cut = frame, _cut(frame, node)
            if cut is None and isinstance(parent(node), ast.Return) and _size(frame, node.left):
                home, cut = _cut_by_caller(loops, frame, node) or (frame, None)
            if cut is not None and _of_training(loops, frame, node) and not _looked_at(home, node, cut):
                value = {
                    "form": cut.form,
                    "parts": operand(loops, frame, node.right),
                    "parts_text": source.written(node.right),
                    "batch": _batch(loops, frame, node.left),
                    "edits": _parts.edits(loops, home, cut),
                }
                yield source.fact("code.chunks", value, statement(node))


def _cut_by_caller(loops: Loops, frame: Frame, node: ast.BinOp) -> tuple[Frame, _parts.Cut] | None:
    """A function that only gives the size of a part: its caller cuts, and calls the batch and the number by its own names."""
    names = [one.arg for one in frame.node.args.args] if isinstance(frame.node, FUNCTIONS) else []
    shift = names[:1] == ["self"]
    for caller, call in loops.callers(frame):
        given = {name: keyword(call, name, names.index(name) - shift) for name in names[shift:]}
        number = given.get(node.right.id) if isinstance(node.right, ast.Name) else None
        for use in _parts.slices(caller, call, _parts.named(call)):
            return caller, replace(use, size=_renamed(node.left, given), number=number)
    return None


def _renamed(node: ast.expr, given: dict[str, ast.expr | None]) -> str:
    """An expression of a function in the words of its caller; empty where it uses more than what it is given."""
    known = {name: value for name, value in given.items() if value is not None}
    text = ast.unparse(node)
    for name, value in known.items():
        text = re.sub(rf"\b{re.escape(name)}\b", ast.unparse(value).replace("\\", "\\\\"), text)
    used = {one.id for one in ast.walk(node) if isinstance(one, ast.Name)}
    return text if used <= known.keys() | {"len", "next", "iter", "min", "list"} else ""


def _size(frame: Frame, node: ast.expr) -> bool:
    """Whether an expression is the number of samples in a batch."""
    if isinstance(node, ast.Call):
        first = node.args[0] if node.args else None
        is_size = last_name(node.func) == "size" and isinstance(first, ast.Constant) and first.value == _FIRST
        return (name_of(node.func) == "len" and bool(node.args)) or is_size
    if isinstance(node, ast.Subscript):
        return last_name(node.value) == "shape" and isinstance(node.slice, ast.Constant) and node.slice.value == _FIRST
    if isinstance(node, ast.Name):
        values = _parts.assigned(frame, node.id)
        return bool(_SIZE.search(node.id)) or (len(values) == 1 and _size(frame, values[0]))
    return False


def _cut(frame: Frame, node: ast.BinOp) -> _parts.Cut | None:
    """How a quotient cuts a batch; None where it does not."""
    if not _size(frame, node.left) or isinstance(node.right, ast.Constant):
        return None
    target = _parts.named(node)
    for use in _parts.slices(frame, node, target):
        return use
    holders: list[ast.expr] = [node]
    if target:
        holders += [one for one in frame.source.nodes(ast.Name) if one.id == target and within(one, frame.node)]
    for one in holders:
        above = parent(one)
        if isinstance(above, ast.Call) and one in above.args:
            name, place = last_name(above.func), above.args.index(one)
            if (name == "split" and place in {0, 1}) or (name == "range" and one is above.args[-1] and place > 1):
                return _parts.Cut("step", node, target)
    return None


def _of_training(loops: Loops, frame: Frame, node: ast.BinOp, depth: int = 3) -> bool:
    """Whether the parts are meant for training: the function or one that calls it goes backward."""
    setting = operand(loops, frame, node.right)["name"]
    if not _COUNTED.search(f"{frame.name} {frame.source.written(node.right)} {setting}"):
        return False
    above = [frame]
    for _ in range(depth + 1):
        if any(loops.inside(one, "backward") for one in above):
            return True
        above = [caller for one in above for caller, _ in loops.callers(one) if caller is not one]
    return False


def _looked_at(frame: Frame, node: ast.BinOp, cut: _parts.Cut) -> bool:
    """Whether the program looks at the remainder, keeps the size above zero, or leaves out what is empty."""
    right = ast.dump(node.right)
    for one in frame.source.nodes(ast.BinOp):
        if isinstance(one.op, ast.Mod) and ast.dump(one.right) == right and within(one, frame.node):
            left = ast.dump(one.left)
            if left == ast.dump(node.left) or isinstance(statement(one), ast.Assert):
                return True
    around = [last_name(one.func) for one in parents(node) if isinstance(one, ast.Call)]
    if cut.form == "step" and ("max" in around or "ceil" in around or isinstance(parent(node), ast.BoolOp)):
        return True
    region = loop_of(cut.use) if cut.use is not None else None
    return cut.use is not None and _empty_is_left_out(frame, cut, region or frame.node)


def _empty_is_left_out(frame: Frame, cut: _parts.Cut, region: ast.AST) -> bool:
    words = {"len", "numel", "shape", "size", cut.target}
    for node in frame.source.nodes(ast.If):
        leaves = any(isinstance(one, (ast.Continue, ast.Break)) for one in node.body)
        tested = {last_name(one) for one in ast.walk(node.test) if isinstance(one, (ast.Name, ast.Attribute))}
        if leaves and tested & words and within(node, region):
            return True
    return False


def _batch(loops: Loops, frame: Frame, node: ast.expr) -> dict[str, Any]:
    """The size of what is cut: a setting of that name, else what the training loader is given."""
    if isinstance(node, ast.Name) and _SIZE.search(node.id):
        found = operand(loops, frame, node)
        if found["number"] is not None or found["name"] not in {node.id, ""} or "of" in found:
            return found
    loaders: list[tuple[bool, dict[str, Any]]] = []
    for other in loops.frames:
        for call in other.named("DataLoader"):
            size = keyword(call, "batch_size", 1)
            if size is not None:
                told = ast.unparse(statement(call)).lower()
                loaders.append(("train" in told, operand(loops, other, size)))
    chosen = [one for training, one in loaders if training] or [one for _, one in loaders]
    return chosen[0] if chosen and all(one == chosen[0] for one in chosen) else {"name": "", "number": None}
