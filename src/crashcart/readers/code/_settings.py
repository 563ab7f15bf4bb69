"""Which setting an expression reads: followed through names, attributes and the parameters of the program's own functions."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from crashcart.readers.code.source import FUNCTIONS, inside, name_of, parent

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.readers.code.program import Program
    from crashcart.readers.code.source import Function, Source

__all__ = ["Reading", "assignments", "readings_of"]

SETTINGS = re.compile(
    r"(?i)(?:^|[._])(?:c|cfg|conf|config|args?|opts?|options?|hparams?|hps?|params?|settings?|flags|hyper\w{0,40}|hyp)(?:$|[._])|(?:cfg|conf|config|args|params|opts)(?:$|\.)"
)
CONFIG_CLASSES = {"BaseModel", "BaseSettings", "dataclass", "Struct", "TypedDict"}

# What is made of settings and gives them as attributes.
HOLDERS = re.compile(
    r"(?i)(?:^|\.)(?:simplenamespace|namespace|easydict|edict|attr(?:ibute)?dict|dotdict|dotmap|box|munch\w*|configdict|parse_args|"
    r"parse_known_args|objectview|bunch)$"
)


_LONG_ENOUGH = 2


def readings_of(program: Program) -> list[Reading]:
    """Every file of the program, with what is passed between its functions; made once for all rules."""
    known: list[Reading] | None = getattr(program, "_settings_readings", None)
    if known is None:
        fields = _config_fields(program)
        known = [Reading(source, fields) for source in program.sources]
        methods = _methods(program)
        for reading in known:
            reading.others, reading.methods = known, methods
        functions = _own_functions(known)
        for _ in range(2):
            for reading in known:
                reading.pass_on(functions)
        program._settings_readings = known  # type: ignore[attr-defined]  # noqa: SLF001 - kept as long as the program
    return known


def _methods(program: Program) -> dict[str, list[tuple[Source, ast.FunctionDef]]]:
    """The methods of all classes that take nothing but their object, by name."""
    found: dict[str, list[tuple[Source, ast.FunctionDef]]] = {}
    for source in program.sources:
        for one in source.nodes(ast.FunctionDef):
            if len(one.args.args) == 1 and one.args.args[0].arg == "self":
                found.setdefault(one.name, []).append((source, one))
    return found


def _config_fields(program: Program) -> frozenset[str]:
    """The fields of the program's own config classes: ``s.data.horizon`` reads a setting, whatever ``s`` is called."""
    found: set[str] = set()
    for source in program.sources:
        for owner in source.nodes(ast.ClassDef):
            said = [name_of(one.func if isinstance(one, ast.Call) else one) for one in (*owner.decorator_list, *owner.bases)]
            if any(one.rpartition(".")[2] in CONFIG_CLASSES for one in said):
                found |= {
                    one.target.id
                    for one in owner.body
                    if isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name)
                }
    return frozenset(found)


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

    def __init__(self, source: Source, fields: frozenset[str] = frozenset()) -> None:
        self.source = source
        self.config_fields = fields
        self.others: list[Reading] = [self]
        self.methods: dict[str, list[tuple[Source, ast.FunctionDef]]] = {}
        self.attributes: dict[str, str] = {}
        self.names: dict[tuple[ast.AST, str], str] = {}
        self.values: dict[tuple[ast.AST, str], list[ast.expr]] = {}
        self.derived: set[tuple[ast.AST, str]] = set()
        self.fields = {node: set(_fields(source, node)) for node in source.nodes(ast.ClassDef)}
        self.assigned = list(assignments(source))
        for target, value in self.assigned:
            if isinstance(target, ast.Name):
                self.values.setdefault((self.scope(target), target.id), []).append(value)
        for _ in range(2):
            for target, value in self.assigned:
                if not (key := self.key(value)):
                    continue
                if isinstance(target, ast.Name):
                    self.names[self.scope(target), target.id] = key
                    if isinstance(value, ast.BinOp):
                        self.derived.add((self.scope(target), target.id))
                elif isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name):
                    self.attributes[target.attr] = key

    def scope(self, node: ast.AST) -> ast.AST:
        """The function in which a node stands, else the file."""
        return inside(node, *FUNCTIONS) or self.source.tree

    def place(self, node: ast.Name) -> tuple[ast.AST, str]:
        """Where a name is set: in its own function, else in the file."""
        own = (self.scope(node), node.id)
        return own if own in self.names or own in self.values else (self.source.tree, node.id)

    def key(self, node: ast.AST) -> str:
        """The setting that an expression reads; empty where it reads none."""
        if isinstance(node, ast.Subscript):
            return _spelled(node.slice)
        if isinstance(node, ast.Call):
            return _asked(node)
        if isinstance(node, ast.Attribute):
            return self.attribute(node)
        if isinstance(node, ast.Name):
            return self.names.get(self.place(node), "")
        if isinstance(node, ast.NamedExpr):
            return self.key(node.value)
        if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Mult, ast.Add)):
            return self.key(node.left) or self.key(node.right)
        if isinstance(node, ast.IfExp):  # the same setting either way: ``lr * ranks if ranks > 1 else lr``
            return found if (found := self.key(node.body)) == self.key(node.orelse) else ""
        return ""

    def attribute(self, node: ast.Attribute) -> str:
        """``cfg.lr``, ``self.lr`` of what was assigned or is a field, ``t.lr`` where t holds settings."""
        written = name_of(node.value)
        if written == "self":
            owner = inside(node, ast.ClassDef)
            own = node.attr if owner is not None and node.attr in self.fields[owner] else ""
            return self.attributes.get(node.attr, own)
        if SETTINGS.search(written) or self.key(node.value) or node.attr in self.config_fields:
            return node.attr
        return node.attr if isinstance(node.value, ast.Name) and self.holds_settings(node.value) else ""

    def holds_settings(self, node: ast.Name) -> bool:
        """``t = SimpleNamespace(**cfg["train"])``, ``a = parser.parse_args()``: an object whose attributes are settings."""
        values = self.values.get(self.place(node), [])
        calls = [one for one in values if isinstance(one, ast.Call)]
        return bool(calls) and len(calls) == len(values) and all(self.is_holder(one) for one in calls)

    def is_holder(self, call: ast.Call) -> bool:
        """A namespace, or an object of a class of fields to which a part of the settings is handed: ``Training(**cfg["train"])``."""
        if HOLDERS.search(name_of(call.func)):
            return True
        classes = {one.name for one, fields in self.fields.items() if fields}
        spread = not call.args and len(call.keywords) == 1 and call.keywords[0].arg is None
        return spread and name_of(call.func) in classes and bool(self.key(call.keywords[0].value))

    def plain(self, node: ast.AST) -> str:
        """The setting that an expression is, and not only what it was calculated from."""
        if isinstance(node, ast.BinOp) or (isinstance(node, ast.Name) and self.place(node) in self.derived):
            return ""
        return self.key(node)

    def above(self, node: ast.AST) -> str:
        """The section in which an expression finds its setting: ``optim`` of ``cfg["optim"]["lr"]``; empty where unknown."""
        if isinstance(node, (ast.Subscript, ast.Attribute)) and self.key(node):
            return self.key(node.value)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and self.key(node):
            return self.key(node.func.value)
        if isinstance(node, ast.Name):
            values = self.values.get(self.place(node), [])
            return self.above(values[0]) if len(values) == 1 and not isinstance(values[0], ast.Name) else ""
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


def assignments(source: Source) -> Iterator[tuple[ast.expr, ast.expr]]:
    """Every target with its value: ``a = b``, ``a: float = b``, ``(a := b)``, ``a, b = c, d``, ``for a in b``."""
    for node in source.nodes(ast.Assign):
        for target in node.targets:
            if (
                isinstance(target, (ast.Tuple, ast.List))
                and isinstance(node.value, (ast.Tuple, ast.List))
                and len(target.elts) == len(node.value.elts)
            ):
                yield from zip(target.elts, node.value.elts, strict=True)
            else:
                yield target, node.value
    for one in source.nodes(ast.AnnAssign):
        if one.value is not None:
            yield one.target, one.value
    for named in source.nodes(ast.NamedExpr):
        yield named.target, named.value
    loops: list[ast.For | ast.comprehension] = [*source.nodes(ast.For), *source.nodes(ast.comprehension)]
    for loop in loops:  # for rate in cfg["rates"]: each is what the list holds
        if isinstance(loop.target, ast.Name) and isinstance(loop.iter, (ast.Subscript, ast.Attribute, ast.Name)):
            yield loop.target, loop.iter


def _asked(call: ast.Call) -> str:
    """``cfg.get("lr", 0.1)``, ``cfg.pop("lr")``, ``getattr(cfg, "lr", 0.1)``."""
    if isinstance(call.func, ast.Attribute) and call.func.attr in {"get", "pop"}:
        first = call.args[0] if call.args else None
    else:
        first = call.args[1] if name_of(call.func) == "getattr" and len(call.args) > 1 else None
    return _spelled(first) if first is not None else ""


def _spelled(node: ast.expr) -> str:
    """A key as it is written; of one that is put together around one part, ``f"{name}_lr"``, what is known: ``*_lr``."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else ""
    if isinstance(node, ast.JoinedStr):
        parts = [str(one.value) if isinstance(one, ast.Constant) else "*" for one in node.values]
    elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        parts = [_spelled(node.left) or "*", _spelled(node.right) or "*"]
    else:
        return ""
    told = "".join(parts)
    return told if told.count("*") == 1 and len(told) > _LONG_ENOUGH else ""


def _fields(source: Source, node: ast.ClassDef) -> Iterator[str]:
    """The fields of a dataclass, which hold what its maker was given, as it was."""
    if not any(
        source.called(one).split(".")[-1] in {"dataclass", "define", "frozen", "attrs", "s"} for one in node.decorator_list
    ):
        return
    for one in node.body:
        if isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name):
            yield one.target.id
