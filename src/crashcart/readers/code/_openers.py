"""Calls that open an HDF5 or LMDB file: the libraries' own, and functions of the program that hand on what these opened.

def open_episode(folder, number):
    return h5py.File(os.path.join(folder, f"episode_{number}.hdf5"), "r")

def open_all(folder, numbers):
    return {number: open_episode(folder, number) for number in numbers}       many
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from crashcart.readers.code._callers import callers_of
from crashcart.readers.code.source import FUNCTIONS, inside, name_of

if TYPE_CHECKING:
    from crashcart.readers.code.program import Program
    from crashcart.readers.code.source import Function, Source

__all__ = ["GATHERED", "Openers"]

OPENERS = {"h5py.File": "HDF5", "lmdb.open": "LMDB", "lmdb.Environment": "LMDB", "tables.open_file": "HDF5"}
GATHERED = (ast.ListComp, ast.DictComp, ast.List, ast.Dict)
_DEPTH = 3


class Openers:
    """What a call opens, by library, and whether it is more than one file."""

    def __init__(self, program: Program) -> None:
        self.callers = callers_of(program)
        self.known: dict[Function, tuple[str, bool] | None] = {}

    def of(self, source: Source, node: ast.AST, depth: int = _DEPTH) -> tuple[str, bool] | None:
        """The library, and whether there are many; None for a call that opens nothing of the kind."""
        if not isinstance(node, ast.Call):
            return None
        if library := OPENERS.get(source.called(node.func)):
            return library, False
        if not depth or name_of(node.func).startswith("self."):
            return None
        found = [self._handed_on(at, function, depth - 1) for at, function in self.callers.meant(source, node)]
        return found[0] if len(found) == 1 else None

    def _handed_on(self, source: Source, function: Function, depth: int) -> tuple[str, bool] | None:
        """What a function opens and answers with; nothing of one that yields, or that closes what it opened."""
        if function not in self.known:
            self.known[function] = None  # a function that calls itself
            answers = [
                one for one in ast.walk(function) if isinstance(one, ast.Return) and inside(one, *FUNCTIONS) is function
            ]
            found = [self._opened(source, function, one.value, depth) for one in answers if one.value is not None]
            kept = [one for one in found if one is not None]
            yields = any(isinstance(one, (ast.Yield, ast.YieldFrom)) for one in ast.walk(function))
            self.known[function] = kept[0] if kept and len(kept) == len(found) and not yields else None
        return self.known[function]

    def _opened(self, source: Source, function: Function, value: ast.expr, depth: int) -> tuple[str, bool] | None:
        if isinstance(value, ast.Name):
            given = [
                one.value
                for one in ast.walk(function)
                if isinstance(one, ast.Assign) and any(name_of(target) == value.id for target in one.targets)
            ]
            return self.of(source, given[0], depth) if len(given) == 1 else None
        if isinstance(value, (ast.ListComp, ast.DictComp)):
            inner = self.of(source, value.elt if isinstance(value, ast.ListComp) else value.value, depth)
            return (inner[0], True) if inner is not None else None
        return self.of(source, value, depth)
