"""Handles that ``__init__`` gathers in a loop, opened on first use in each process instead.

    self.files = {}
    for name in names:
        self.files[name] = h5py.File(os.path.join(root, name), "r")

keeps what each is opened with under another name; a property of the old name opens them all once in each process. A list that
is appended to, and a mapping written as one expression, are the same.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from crashcart.model import Edit
from crashcart.readers.code._blocks import indent_of, own_lines, step_of
from crashcart.readers.code._lazily import added_after, given_to, has, imported, known_to_all, opener
from crashcart.readers.code.source import inside, name_of, parent

if TYPE_CHECKING:
    from crashcart.readers.code.source import Function, Source

__all__ = ["gathered_lazily"]


def gathered_lazily(
    source: Source, owner: ast.ClassDef, init: Function, call: ast.Call, attribute: str, held: ast.Name | None = None
) -> tuple[Edit, ...]:
    """The edits, none where the handles are gathered or used in another way; ``held`` is the name that each had before."""
    put = held if held is not None else call
    if has(owner, "__getstate__", attribute) or not known_to_all(source, call) or not own_lines(source, init.body[-1]):
        return ()
    uses = [node for node in ast.walk(init) if isinstance(node, ast.Attribute) and name_of(node) == f"self.{attribute}"]
    begun = next((parent(node) for node in uses if isinstance(node.ctx, ast.Store)), None)
    if not isinstance(begun, ast.Assign) or len(begun.targets) != 1 or not own_lines(source, begun):
        return ()
    keyed = _is_keyed(begun.value, call)
    filled = [node for node in uses if node is not begun.targets[0]]
    if keyed is None or not all(_fills(node, put) or _only_counted(node) for node in filled):
        return ()
    if inside(begun, ast.For, ast.While, ast.If) or _calls_own(init, owner):
        return ()
    own = f"self._{attribute.lstrip('_')}"
    opened = f"{source.written(call.func)}(*one, **named)"
    opening = (
        f"{{key: {opened} for key, (one, named) in {own}_given.items()}}"
        if keyed
        else f"[{opened} for one, named in {own}_given]"
    )
    margin = indent_of(source, init.lineno)
    body = "".join(f"\n{margin}{line}" if line else "\n" for line in ["", *opener(attribute, opening, step_of(source), [])])
    start = f"{own}_handle = {own}_pid = None\n{indent_of(source, begun.lineno)}{own}_given"
    return (
        Edit(source.span(begun.targets[0]), start),
        *(Edit(source.span(node), f"{own}_given") for node in filled),
        Edit(source.span(put), given_to(source, call)),
        added_after(source, init.body[-1], body),
        *imported(source, "os"),
    )


def _calls_own(init: Function, owner: ast.ClassDef) -> bool:
    """Whether ``__init__`` calls methods of the class or takes its length: these may use the handles."""
    methods = {f"self.{one.name}" for one in owner.body if isinstance(one, ast.FunctionDef)}
    calls = [node for node in ast.walk(init) if isinstance(node, ast.Call)]
    return any(
        name_of(call.func) in methods or (name_of(call.func) == "len" and name_of(call.args[0]) == "self") for call in calls
    )


def _is_keyed(value: ast.expr, call: ast.Call) -> bool | None:
    """Whether the handles are kept by key or in order; None for anything else."""
    if isinstance(value, ast.DictComp):
        return True if value.value is call else None
    if isinstance(value, ast.Call) and not value.args and not value.keywords:
        return {"dict": True, "list": False}.get(name_of(value.func))
    if isinstance(value, ast.Dict) and not value.keys:
        return True
    return False if isinstance(value, ast.List) and not value.elts else None


def _only_counted(node: ast.Attribute) -> bool:
    """``len(self.files)``, which is the same for what they are opened with."""
    above = parent(node)
    return isinstance(above, ast.Call) and name_of(above.func) == "len"


def _fills(node: ast.Attribute, call: ast.expr) -> bool:
    """Whether this use puts the handle in: ``self.files[key] = ...`` or ``self.files.append(...)``."""
    above = parent(node)
    if isinstance(above, ast.Subscript):
        statement = parent(above)
        return isinstance(statement, ast.Assign) and statement.value is call
    adding = parent(above) if isinstance(above, ast.Attribute) and above.attr == "append" else None
    return isinstance(adding, ast.Call) and adding.args == [call]
