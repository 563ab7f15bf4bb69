"""What an argument of a call is in the end: a constant, a setting by its key, or not known.

A name is followed to the one thing that it was given, an attribute of ``self`` to its one assignment, and a parameter to what a
certain caller hands over, else to its default. Nothing is guessed: a name that is set twice is not known.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any

from crashcart.readers.code._callers import callers_of, function_of, last_name
from crashcart.readers.code._constants import constant
from crashcart.readers.code._paths import given_to
from crashcart.readers.code._settings import readings_of
from crashcart.readers.code._trees import tree_of
from crashcart.readers.code.source import inside, keyword, name_of, parent

if TYPE_CHECKING:
    from crashcart.readers.code.program import Program
    from crashcart.readers.code.source import Function, Source

__all__ = ["Given", "Giving", "Site"]

Given = dict[
    str, Any
]  # value and span of a constant, key of a setting, or tree of a calculation; empty where it is not known
Site = tuple["Source", ast.Call]
CALCULATED = {"int", "max", "min"}
PLAIN = {"int", "float", "bool", "str", "Path"}
_DEPTH = 6


class Giving:
    """Follows arguments within one program."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.callers = callers_of(program)
        self.readings = {reading.source.path: reading for reading in readings_of(program)}
        self._handed: dict[str, list[tuple[Source, ast.expr]]] | None = None

    def of(self, source: Source, node: ast.expr | None, site: Site | None = None, depth: int = _DEPTH) -> Given:
        """What a node is, where the function around it was called from ``site``."""
        if node is None or depth == 0:
            return {}
        if isinstance(node, ast.Constant):
            return {"value": node.value, "span": source.span(node)}
        if isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.Gt):
            return {"value": True}  # persistent_workers=workers > 0: true wherever it matters
        if (tree := self.calculated(source, node)) is not None:
            return {"tree": tree}
        if isinstance(node, ast.Call) and name_of(node.func) in PLAIN and node.args:
            return self.of(source, node.args[0], site, depth - 1)
        if (known := constant(self.program, source, node)) is not None and isinstance(known[1], ast.Constant):
            return self.of(*known, None, depth - 1)
        if isinstance(node, ast.Name):
            return self.name(source, node, site, depth)
        if isinstance(node, ast.Attribute) and name_of(node.value) == "self":
            owner = inside(node, ast.ClassDef)
            given = [one for one in given_to(source, name_of(node), None) if inside(one, ast.ClassDef) is owner]
            found = self.of(source, given[0], self.built(owner), depth - 1) if len(given) == 1 else {}
            return found or self.key(source, node)
        return self.key(source, node)

    def calculated(self, source: Source, node: ast.expr) -> tuple[Any, ...] | None:
        """A number that is made of settings: ``max(1, cfg.images // cfg.sequence)``, ``int(cfg.batch / world_size)``."""
        made = isinstance(node, ast.BinOp) or (
            isinstance(node, ast.Call) and name_of(node.func) in CALCULATED and bool(node.args)
        )
        reading = self.readings.get(source.path) if made else None
        inner = (
            isinstance(node, ast.Call)
            and name_of(node.func) == "int"
            and not isinstance(node.args[0], (ast.BinOp, ast.Call))
        )
        return tree_of(node, reading) if reading is not None and not inner else None

    def built(self, owner: ast.ClassDef | None) -> Site | None:
        """The one place that makes an object of a class."""
        places = [one for one in self.callers.built(owner.name) if isinstance(one[1], ast.Call)] if owner is not None else []
        return (places[0][0], places[0][1]) if places and isinstance(places[0][1], ast.Call) else None

    def key(self, source: Source, node: ast.expr) -> Given:
        """The setting that a node reads."""
        reading = self.readings.get(source.path)
        key = reading.key(node) if reading is not None and not isinstance(node, ast.BinOp) else ""
        return {"key": key} if key else {}

    def name(self, source: Source, node: ast.Name, site: Site | None, depth: int) -> Given:
        """A variable or a parameter."""
        function = function_of(node)
        given = given_to(source, node.id, function)
        if given:
            return self.of(source, given[0], site, depth - 1) if len(given) == 1 else {}
        if function is not None and site is not None:
            handed = argument(function, site[1], node.id)
            if handed is not None:
                return self.of(site[0], handed, None, depth - 1)
        if function is not None and (default := default_of(function, node.id)) is not None and site is not None:
            return self.of(source, default, None, depth - 1)
        return self.key(source, node) or self.unseen(function, node.id, depth)

    def unseen(self, function: Function | None, name: str, depth: int) -> Given:
        """A parameter of a class that nothing builds by its name: a registry or a config does.

        What some call hands over under that name is it, where all say the same; else, where it must be given, the setting of
        that name.
        """
        owner = parent(function) if function is not None and function.name == "__init__" else None
        if function is None or not isinstance(owner, ast.ClassDef) or self.callers.built(owner.name):
            return {}
        if name not in [one.arg for one in (*function.args.args, *function.args.kwonlyargs)]:
            return {}
        every = [self.of(at, value, None, depth - 1) for at, value in self.handed.get(name, ())]
        found = [{key: one[key] for key in ("key", "value") if key in one} for one in every]
        if found and found[0] and all(one == found[0] for one in found):
            return every[0]
        return {"key": name, "by_name": True} if default_of(function, name) is None and not found else {}

    @property
    def handed(self) -> dict[str, list[tuple[Source, ast.expr]]]:
        """What calls of things that are not the program's own classes hand over by a name; found once."""
        if self._handed is None:
            self._handed = {}
            for source in self.program.sources:
                for call in source.nodes(ast.Call):
                    if not self.callers.built(last_name(call.func)):
                        for word in call.keywords:
                            self._handed.setdefault(word.arg or "", []).append((source, word.value))
        return self._handed


def argument(function: Function, call: ast.Call, name: str) -> ast.expr | None:
    """What a call hands to a parameter."""
    names = [one.arg for one in function.args.args]
    at = names.index(name) - (names[:1] == ["self"]) if name in names else None
    return keyword(call, name, at)


def default_of(function: Function, name: str) -> ast.expr | None:
    """The default of a parameter."""
    names = [one.arg for one in function.args.args]
    behind = names.index(name) - (len(names) - len(function.args.defaults)) if name in names else -1
    if behind >= 0:
        return function.args.defaults[behind]
    only = [one.arg for one in function.args.kwonlyargs]
    return function.args.kw_defaults[only.index(name)] if name in only else None
