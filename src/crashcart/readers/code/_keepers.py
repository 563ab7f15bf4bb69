"""Functions that keep what they are handed: meters, logs, histories.

def update(self, **values):                                     def update(self, value, n=1):
    for name, value in values.items():                              self.sum += value * n
        self.rows[name].append(value)

``float(value)``, ``value.item()`` and ``value.detach()`` keep a number.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from crashcart.readers.code.source import name_of, parent, parents

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.readers.code.source import Function

__all__ = ["CUTS", "handed", "stores"]

CUTS = {
    "item", "detach", "detach_", "float", "int", "tolist", "numpy", "isnan", "isfinite", "str", "format", "round", "len", "numel", "size",
    "dim", "nelement", "is_tensor", "isinstance",
}  # fmt: skip
ADDS = {"append", "extend", "add", "appendleft"}


def handed(function: Function, call: ast.Call) -> Iterator[tuple[str, ast.expr]]:
    """Each parameter of a function with what a call gives for it; ``**values`` under the name of all that are left."""
    names = [one.arg for one in (*function.args.posonlyargs, *function.args.args)]
    names = names[1:] if names[:1] in (["self"], ["cls"]) else names
    rest, more = function.args.kwarg, function.args.vararg
    for at, value in enumerate(call.args):
        if at < len(names) or more is not None:
            yield (names[at] if at < len(names) else getattr(more, "arg", "")), value
    known = {*names, *(one.arg for one in function.args.kwonlyargs)}
    for word in call.keywords:
        if word.arg in known:
            yield str(word.arg), word.value
        elif rest is not None:
            yield rest.arg, word.value


def stores(function: Function, parameter: str) -> list[str]:
    """The attributes in which a parameter, or what is in it, is kept as it is."""
    names = {parameter}
    for node in ast.walk(function):
        if isinstance(node, (ast.For, ast.comprehension)):
            over = node.iter.func if isinstance(node.iter, ast.Call) else node.iter
            inner = over.value if isinstance(node.iter, ast.Call) and isinstance(over, ast.Attribute) else over
            parts = node.target.elts if isinstance(node.target, ast.Tuple) else [node.target]
            names |= {one.id for one in parts[-1:] if isinstance(one, ast.Name)} if name_of(inner) in names else set()
    if _set_anew(function, names):
        return []
    found: list[str] = []
    for node in ast.walk(function):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in ADDS and node.args:
            into, value = name_of(node.func.value), node.args[0]
        elif isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Add):
            into, value = name_of(node.target), node.value
        else:
            continue
        if into.startswith("self.") and _goes_in(value, names):
            found.append(into)
    return found


def _set_anew(function: Function, names: set[str]) -> bool:
    """Whether the value is made a number first: ``if torch.is_tensor(value): value = value.item()``."""
    stored = [one.id for one in ast.walk(function) if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store)]
    targets = [
        one.id
        for node in ast.walk(function)
        if isinstance(node, (ast.For, ast.comprehension))
        for one in ast.walk(node.target)
        if isinstance(one, ast.Name)
    ]
    return any(stored.count(name) > targets.count(name) for name in names)


def _goes_in(value: ast.expr, names: set[str]) -> bool:
    """Whether one of the names becomes part of a value with its graph."""
    return any(isinstance(one, ast.Name) and one.id in names and not _cut(one, value) for one in ast.walk(value))


def _cut(name: ast.Name, top: ast.expr) -> bool:
    above = parent(name)
    if isinstance(above, (ast.Attribute, ast.Compare)) and not isinstance(parent(above), ast.Call):
        return True  # value.shape
    for one in parents(name):
        called = one.func.attr if isinstance(one, ast.Call) and isinstance(one.func, ast.Attribute) else ""
        called = name_of(one.func) if isinstance(one, ast.Call) and not called else called
        if called.rpartition(".")[2] in CUTS:
            return True
        if one is top:
            return False
    return False
