"""Which names of a program hold an object of one of its own classes, and nothing else.

``self.amp = Stepper(...)`` makes ``self.amp.apply(net)`` the method of that class, also where ``apply`` alone could mean many
things. Classes that are made from others of the program count with those; one that is made from a foreign class is left out,
since nobody here knows what that brings.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from crashcart.readers.code.program import Program

__all__ = ["last_name", "objects"]

_PLAIN = frozenset({"object", "ABC"})


def objects(program: Program) -> dict[str, set[str]]:
    """The classes behind each such name, by its last word."""
    classes = {node.name: node for source in program.sources for node in source.nodes(ast.ClassDef)}
    held: dict[str, set[str]] = {}
    for source in program.sources:
        for node in source.nodes(ast.Assign):
            made = last_name(node.value.func) if isinstance(node.value, ast.Call) else ""
            for target in node.targets:
                if isinstance(target, (ast.Name, ast.Attribute)):
                    held.setdefault(last_name(target), set()).add(made)
    found = {name: _with_bases(kinds, classes) for name, kinds in held.items() if kinds <= classes.keys()}
    return {name: kinds for name, kinds in found.items() if kinds}


def _with_bases(kinds: set[str], classes: dict[str, ast.ClassDef]) -> set[str]:
    found: set[str] = set()
    waiting = list(kinds)
    while waiting:
        kind = waiting.pop()
        if kind not in classes:
            return set()
        if kind not in found:
            found.add(kind)
            waiting += [last_name(base) for base in classes[kind].bases if last_name(base) not in _PLAIN]
    return found


def last_name(node: ast.AST) -> str:
    """The last word of a name: ``step`` of ``self.scaler.step``."""
    if isinstance(node, ast.Attribute):
        return node.attr
    if isinstance(node, ast.Subscript):
        return last_name(node.value)
    return node.id if isinstance(node, ast.Name) else ""
