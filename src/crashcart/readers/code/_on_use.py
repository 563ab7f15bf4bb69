"""A data set that reads all of its files at the start, made to read each when it is asked for.

    for path in paths:                                         self.episodes = ReadOnUse(self.read_episodes, paths)
        with h5py.File(path, "r") as file:
            self.episodes.append(file["action"][()])           def read_episodes(self, path): ... return file["action"][()]

Indexing, length and iteration stay as they are written. Only a loop that does nothing else is turned round.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from crashcart.model import Edit, Span
from crashcart.readers.code._blocks import indent_of, own_lines, step_of
from crashcart.readers.code.source import name_of, parent

if TYPE_CHECKING:
    from crashcart.readers.code.source import Function, Source

__all__ = ["read_on_use"]

CLASS = '''\
class ReadOnUse:
    """Reads an item when it is asked for, instead of keeping all of them in memory."""

    def __init__(self, read, keys):
        self.read, self.keys = read, list(keys)

    def __len__(self):
        return len(self.keys)

    def __getitem__(self, at):
        return self.read(self.keys[at])


'''


def read_on_use(source: Source, owner: ast.ClassDef, function: Function, loop: ast.AST) -> tuple[Edit, ...]:
    """The edits; none where the loop does more than read and keep."""
    if function.name != "__init__" or not isinstance(loop, ast.For) or parent(loop) is not function or loop.orelse:
        return ()
    kept = _kept(loop)
    if loop.body[0].lineno == loop.lineno:
        return ()
    if kept is None or not isinstance(loop.target, ast.Name) or not own_lines(source, loop) or "ReadOnUse" in source.text:
        return ()
    call, name = kept
    if not _alone(loop, function, call) or _used_otherwise(owner, loop, name):
        return ()
    method, step = f"read_{name.lstrip('_')}", step_of(source)
    if any(isinstance(one, ast.FunctionDef) and one.name == method for one in owner.body):
        return ()
    indent, margin = indent_of(source, loop.lineno), indent_of(source, function.lineno)
    over = source.written(loop.iter)
    span = source.span(loop)
    last = function.body[-1]
    number = last.end_lineno or last.lineno
    at = source.offset(number, 0) + len(source.line(number))
    begin = source.offset((loop.iter.end_lineno or loop.lineno) + 1, 0)  # with the comments before the first statement
    text = source.text
    whole, value = source.span(call), source.span(call.args[0])
    body = text[begin : whole.start] + "return " + text[value.start : value.end] + text[whole.end : span.end]
    lines = [line.removeprefix(indent[len(margin) :]) if line.startswith(indent) else line for line in body.split("\n")]
    moved = "\n".join([f"{margin}def {method}(self, {loop.target.id}):", *lines])
    first = source.offset(_first(owner), 0)
    made = f"self.{name} = ReadOnUse(self.{method}, {over})"
    if last is loop:
        placed = [Edit(span, f"{made}\n\n{moved}")]
    else:
        placed = [Edit(span, made), Edit(Span(source.path, at, at, number), f"\n\n{moved}")]
    return (Edit(Span(source.path, first, first, _first(owner)), CLASS), *placed) if step else ()


def _first(owner: ast.ClassDef) -> int:
    return min([owner.lineno, *(one.lineno for one in owner.decorator_list)])


def _kept(loop: ast.For) -> tuple[ast.Call, str] | None:
    """The one statement that keeps what was read."""
    found = [
        one.value
        for one in ast.walk(loop)
        if isinstance(one, ast.Expr)
        and isinstance(one.value, ast.Call)
        and isinstance(one.value.func, ast.Attribute)
        and one.value.func.attr == "append"
        and len(one.value.args) == 1
    ]
    if len(found) != 1 or not isinstance(found[0].func, ast.Attribute):
        return None
    target = name_of(found[0].func.value)
    return (found[0], target[5:]) if target.startswith("self.") and target.count(".") == 1 else None


def _alone(loop: ast.For, function: Function, call: ast.Call) -> bool:
    """Whether the loop changes nothing else, uses no other name of the function, and keeps something of every file."""
    own = {one.id for one in ast.walk(loop) if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store)}
    around = {one.arg for one in (*function.args.args, *function.args.kwonlyargs) if one.arg != "self"}
    around |= {one.id for one in ast.walk(function) if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store)} - own
    for node in (one for part in loop.body for one in ast.walk(part)):
        if isinstance(
            node, (ast.Continue, ast.Break, ast.Return, ast.Yield, ast.Global, ast.If, ast.For, ast.Lambda, ast.Try)
        ):
            return False
        if isinstance(node, (ast.Attribute, ast.Subscript)) and isinstance(node.ctx, ast.Store):
            return False
        if isinstance(node, ast.AugAssign) or (isinstance(node, ast.Name) and node.id in around):
            return False
    last = loop.body[-1]
    while isinstance(last, ast.With):
        last = last.body[-1]
    return isinstance(last, ast.Expr) and last.value is call


def _used_otherwise(owner: ast.ClassDef, loop: ast.For, name: str) -> bool:
    """Whether the list is used in a way that only a list bears: methods of it, sums, slices."""
    inside = set(ast.walk(loop))
    for node in ast.walk(owner):
        if node in inside or not (isinstance(node, ast.Attribute) and name_of(node) == f"self.{name}"):
            continue
        above = parent(node)
        if isinstance(above, (ast.Attribute, ast.BinOp, ast.Starred)):
            return True
        if isinstance(above, ast.Subscript) and (isinstance(above.slice, ast.Slice) or not isinstance(above.ctx, ast.Load)):
            return True
    return False
