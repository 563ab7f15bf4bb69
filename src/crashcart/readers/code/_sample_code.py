"""The code that makes one sample: ``__getitem__`` of a data set, and what it calls of the program's own."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from crashcart.readers.code._callers import callers_of
from crashcart.readers.code.source import FUNCTIONS, name_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.readers.code._callers import Callers
    from crashcart.readers.code.program import Program
    from crashcart.readers.code.source import Function, Source

__all__ = ["begun", "data_sets", "followed"]

_DEPTH = 3
Part = tuple["Source", "Function"]


def data_sets(program: Program) -> Iterator[tuple[Source, ast.ClassDef]]:
    """The classes that give samples."""
    for source in program.sources:
        for owner in source.nodes(ast.ClassDef):
            own = {one.name for one in owner.body if isinstance(one, FUNCTIONS)}
            bases = [name_of(one).rpartition(".")[2] for one in owner.bases]
            named = any(base.endswith("Dataset") for base in bases)
            if (
                ("__getitem__" in own and (named or "__len__" in own))
                or (named and "__iter__" in own)
                or _gives_items(owner, own)
            ):
                yield source, owner


def _gives_items(owner: ast.ClassDef, own: set[str]) -> bool:
    """A buffer or reader that a data set holds: named like one, with a method that gets an item."""
    return "ataset" in owner.name and any(name.startswith(("get_", "sample", "load_", "parse_", "read_")) for name in own)


def followed(program: Program, source: Source, owner: ast.ClassDef, *names: str) -> list[Part]:
    """Methods of a class by name, and the functions of the program that they call."""
    callers = callers_of(program)
    found: list[Part] = [(source, one) for one in owner.body if isinstance(one, FUNCTIONS) and one.name in names]
    waiting = list(found)
    for _ in range(_DEPTH):
        waiting = [part for one in waiting for part in _called(callers, *one) if part not in found]
        found += [part for at, part in enumerate(waiting) if part not in waiting[:at]]
    return found


def begun(program: Program, source: Source, owner: ast.ClassDef) -> list[Part]:
    """What runs once, when the data set is made."""
    return followed(program, source, owner, "__init__", "__post_init__")


def _called(callers: Callers, source: Source, function: Function) -> Iterator[Part]:
    for call in ast.walk(function):
        if isinstance(call, ast.Call):
            yield from callers.meant(source, call)
