"""A comprehension that reads every file at the start, made to read each when it is asked for.

self.episodes = {i: read_episode(folder, i) for i in ids}
self.episodes = ReadOnUse(read_episode, {i: (folder, i) for i in ids})

What the reading function is given is kept instead of what it answers with; indexing, length, iteration and ``in`` stay as they
are written.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from crashcart.model import Edit, Span
from crashcart.readers.code._blocks import own_lines
from crashcart.readers.code.source import name_of, parent

if TYPE_CHECKING:
    from crashcart.readers.code.source import Source

__all__ = ["each_on_use"]

CLASS = '''\
class ReadOnUse:
    """Reads an item when it is asked for, instead of keeping all of them in memory."""

    def __init__(self, read, given):
        self.read, self.given = read, given

    def __len__(self):
        return len(self.given)

    def __getitem__(self, at):
        return self.read(*self.given[at])


'''
BY_KEY = CLASS.rstrip("\n") + "\n\n    def __iter__(self):\n        return iter(self.given)\n\n\n"


def each_on_use(source: Source, owner: ast.ClassDef, loop: ast.AST) -> tuple[Edit, ...]:
    """The edits; none where it is more than one call for each item, or where only a list or mapping would do."""
    statement = parent(loop)
    if not isinstance(loop, (ast.ListComp, ast.DictComp)) or not isinstance(statement, ast.Assign):
        return ()
    call = loop.value if isinstance(loop, ast.DictComp) else loop.elt
    target = name_of(statement.targets[0])
    if not isinstance(call, ast.Call) or call.keywords or any(isinstance(one, ast.Starred) for one in call.args):
        return ()
    plain = isinstance(call.func, (ast.Name, ast.Attribute)) and bool(call.args)
    inner = {one.id for part in loop.generators for one in ast.walk(part.target) if isinstance(one, ast.Name)}
    if not plain or name_of(call.func).split(".")[0] in inner or len(statement.targets) != 1:
        return ()
    if not target.startswith("self.") or "ReadOnUse" in source.text or not own_lines(source, statement):
        return ()
    if _used_otherwise(owner, statement, target):
        return ()
    text = ", ".join(source.written(one) for one in call.args)
    given = Edit(source.span(call), f"({text},)" if len(call.args) == 1 else f"({text})")
    whole = source.span(loop)
    first = min([owner.lineno, *(one.lineno for one in owner.decorator_list)])
    at = source.offset(first, 0)
    kind = BY_KEY if isinstance(loop, ast.DictComp) else CLASS
    return (
        Edit(Span(source.path, at, at, first), kind),
        Edit(Span(source.path, whole.start, whole.start, whole.line), f"ReadOnUse({source.written(call.func)}, "),
        given,
        Edit(Span(source.path, whole.end, whole.end, whole.line), ")"),
    )


def _used_otherwise(owner: ast.ClassDef, statement: ast.Assign, target: str) -> bool:
    """Whether it is used in a way that only a list or mapping bears: methods of it, sums, slices, a place of its own."""
    for node in ast.walk(owner):
        if not isinstance(node, ast.Attribute) or name_of(node) != target or parent(node) is statement:
            continue
        above = parent(node)
        if isinstance(above, (ast.Attribute, ast.BinOp, ast.Starred, ast.Assign, ast.Delete)):
            return True
        if isinstance(above, ast.Subscript) and (isinstance(above.slice, ast.Slice) or not isinstance(above.ctx, ast.Load)):
            return True
    return False
