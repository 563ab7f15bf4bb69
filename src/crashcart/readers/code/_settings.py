"""Which setting an expression reads: followed through names, attributes and the parameters of the program's own functions."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from crashcart.readers.code.source import FUNCTIONS, inside, name_of, parent

if TYPE_CHECKING:
    from crashcart.readers.code.program import Program
    from crashcart.readers.code.source import Function, Source

__all__ = ["Reading", "readings_of"]

SETTINGS = re.compile(
    r"(?i)(?:^|[._])(?:c|cfg|conf|config|args?|opts?|options?|hparams?|hps?|params?|settings?|flags|hyper\w*|hyp)(?:$|[._])|(?:cfg|conf|config|args|params|opts)(?:$|\.)"
)


def readings_of(program: Program) -> list[Reading]:
    """Every file of the program, with what is passed between its functions; made once for all rules."""
    known: list[Reading] | None = getattr(program, "_settings_readings", None)
    if known is None:
        known = [Reading(source) for source in program.sources]
        functions = _own_functions(known)
        for _ in range(2):
            for reading in known:
                reading.pass_on(functions)
        program._settings_readings = known  # type: ignore[attr-defined]  # noqa: SLF001 - kept as long as the program
    return known


def _own_functions(known: list[Reading]) -> dict[str, tuple[Reading, Function]]:
    """The program's own functions by name, where the name means one; a class is called by its ``__init__``."""
    found: dict[str, list[tuple[Reading, Function]]] = {}
    for reading in known:
        nodes: list[Function] = [*reading.source.nodes(ast.FunctionDef), *reading.source.nodes(ast.AsyncFunctionDef)]
        for node in nodes:
            above = parent(node)
            name = above.name if node.name == "__init__" and isinstance(above, ast.ClassDef) else node.name
            found.setdefault(name, []).append((reading, node))
    return {name: nodes[0] for name, nodes in found.items() if len(nodes) == 1}


class Reading:
    """One file: which names and attributes stand for which setting."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.attributes: dict[str, str] = {}
        self.names: dict[tuple[ast.AST, str], str] = {}
        self.values: dict[tuple[ast.AST, str], list[ast.expr]] = {}
        for node in source.nodes(ast.Assign):
            if isinstance(node.targets[0], ast.Name):
                self.values.setdefault((self.scope(node), node.targets[0].id), []).append(node.value)
        for _ in range(2):
            for node in source.nodes(ast.Assign):
                key = self.key(node.value)
                for target in node.targets if key else ():
                    if isinstance(target, ast.Name):
                        self.names[self.scope(node), target.id] = key
                    elif isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name):
                        self.attributes[target.attr] = key

    def scope(self, node: ast.AST) -> ast.AST:
        """The function in which a node stands, else the file."""
        return inside(node, *FUNCTIONS) or self.source.tree

    def key(self, node: ast.AST) -> str:
        """The setting that an expression reads; empty where it reads none."""
        if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant) and isinstance(node.slice.value, str):
            return node.slice.value
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in {"get", "pop"}:
            first = node.args[0] if node.args else None
            return first.value if isinstance(first, ast.Constant) and isinstance(first.value, str) else ""
        if isinstance(node, ast.Attribute):
            written = name_of(node.value)
            if written == "self":
                return self.attributes.get(node.attr, "")
            return node.attr if SETTINGS.search(written) or self.key(node.value) else ""
        if isinstance(node, ast.Name):
            return self.names.get((self.scope(node), node.id)) or self.names.get((self.source.tree, node.id), "")
        if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Mult, ast.Add)):
            return self.key(node.left) or self.key(node.right)
        return ""

    def pass_on(self, functions: dict[str, tuple[Reading, Function]]) -> None:
        """Give the parameters of our own functions the keys that a call passes them."""
        for call in self.source.nodes(ast.Call):
            meant = functions.get(name_of(call.func).rpartition(".")[2])
            if meant is None:
                continue
            reading, target = meant
            names = [one.arg for one in target.args.args]
            names = names[1:] if names[:1] == ["self"] else names
            if any(one.arg is None for one in call.keywords):  # Trainer(**cfg): each parameter is the key of its name
                left = [*names[len(call.args) :], *(one.arg for one in target.args.kwonlyargs)]
                reading.names.update({(target, one): one for one in left if (target, one) not in reading.names})
            for name, value in [*zip(names, call.args, strict=False), *((one.arg, one.value) for one in call.keywords)]:
                if name and (key := self.key(value)):
                    reading.names[target, name] = key
