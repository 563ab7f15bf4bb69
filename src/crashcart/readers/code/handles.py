"""Handles of HDF5 and LMDB that a data set opens in ``__init__`` and keeps.

    self.file = h5py.File(path, "r")                kept: every forked worker has the same one, a spawned one cannot be sent it
    self.images = h5py.File(path, "r")["images"]    the same
    self.files = [h5py.File(p) for p in paths]      as many descriptors as there are files, too
    f = h5py.File(path); self.files.append(f)       the same

One that is closed again in ``__init__``, dropped by ``__getstate__``, or read to its end at once is none.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from crashcart.readers.code._lazily import opened_lazily
from crashcart.readers.code._lazily_many import gathered_lazily
from crashcart.readers.code._openers import GATHERED, Openers
from crashcart.readers.code._reopened import opened_again
from crashcart.readers.code.source import FUNCTIONS, inside, name_of, parent, parents
from crashcart.record import replace

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.model import Edit, Fact
    from crashcart.readers.code.program import Program
    from crashcart.readers.code.source import Function, Source

PARTS = {"begin", "cursor", "open_db", "require_group"}
_DEPTH = 2


def look(program: Program) -> Iterator[Fact]:
    """``code.handle``: the library, the class and attribute that keep it, whether there are many, and the lazy form."""
    holders, openers, heirs = _holders(program), Openers(program), _heirs(program)
    if not program.imports("h5py", "lmdb", "tables"):
        return
    for source in program.sources:
        for owner in source.nodes(ast.ClassDef):
            init = next((one for one in owner.body if isinstance(one, ast.FunctionDef) and one.name == "__init__"), None)
            around = holders.get(owner.name, [])
            if init is not None and (_gives_samples(owner) or around):
                for fact in _kept(openers, source, owner, init):
                    yield replace(fact, value={**fact.value, "held_by": [owner.name, *heirs.get(owner.name, ()), *around]})


def _heirs(program: Program) -> dict[str, list[str]]:
    """The classes that are made from each class, and from those."""
    found: dict[str, list[str]] = {}
    for source in program.sources:
        for owner in source.nodes(ast.ClassDef):
            for base in owner.bases:
                found.setdefault(name_of(base).rpartition(".")[2], []).append(owner.name)
    return {name: [*own, *(later for one in own for later in found.get(one, ()))] for name, own in found.items()}


def _holders(program: Program) -> dict[str, list[str]]:
    """The data sets that make an object of a class for themselves: a reader or a buffer that they ask for samples."""
    found: dict[str, list[str]] = {}
    for source in program.sources:
        for owner in source.nodes(ast.ClassDef):
            if _gives_samples(owner):
                for call in ast.walk(owner):
                    if isinstance(call, ast.Call):
                        found.setdefault(name_of(call.func).rpartition(".")[2], []).append(owner.name)
    return found


def _gives_samples(owner: ast.ClassDef) -> bool:
    own = {one.name for one in owner.body if isinstance(one, FUNCTIONS)}
    bases = [name_of(one).rpartition(".")[2] for one in owner.bases]
    return "__getitem__" in own or "__iter__" in own or any(base.endswith("Dataset") for base in bases)


def _kept(openers: Openers, source: Source, owner: ast.ClassDef, init: Function) -> Iterator[Fact]:
    begun = _begun(owner, init)
    local = _local_handles(openers, source, begun)
    for function in begun:
        for node in ast.walk(function):
            known = openers.of(source, node)
            if known is None or not isinstance(node, ast.Call):
                continue
            opened = node
            statement, attribute, many = _keeper(opened)
            held = None
            if statement is None:
                name = local.get(opened, "")
                statement, attribute, held = _passed_on(function, name) if name else (None, "", None)
            if statement is None or _dropped(owner, function, attribute) or _guarded(statement, function):
                continue
            many = many or known[1] or held is not None
            derived = [] if many else _derived(function, attribute)
            edits: tuple[Edit, ...] = ()
            if isinstance(statement, ast.Assign) and function is init and held is None:
                value = statement.value
                alone = value is opened or (isinstance(value, ast.ListComp) and value.elt is opened)
                edits = opened_lazily(source, owner, init, statement, derived) if alone else ()
            if many and not edits and function is init:
                edits = gathered_lazily(source, owner, init, opened, attribute, held)
            if isinstance(statement, ast.Assign) and function is not init and held is None:
                edits = opened_again(source, owner, init, function, [statement, *derived])
            seen = {
                "library": known[0], "class": owner.name, "attribute": attribute, "many": many,
                "edits": edits, "state": _keeps_state(owner),
            }  # fmt: skip
            yield source.fact("code.handle", seen, statement)


def _begun(owner: ast.ClassDef, init: Function) -> list[Function]:
    """``__init__`` and the methods that it calls."""
    methods = {one.name: one for one in owner.body if isinstance(one, ast.FunctionDef)}
    found, waiting = [init], [init]
    for _ in range(_DEPTH):
        called = [
            methods[node.func.attr]
            for one in waiting
            for node in ast.walk(one)
            if isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and name_of(node.func.value) == "self"
            and node.func.attr in methods
        ]
        waiting = [one for one in dict.fromkeys(called) if one not in found and one.name != "__getitem__"]
        found += waiting
    return found


def _keeper(opened: ast.Call) -> tuple[ast.stmt | None, str, bool]:
    """The statement that puts a handle into an attribute of ``self``, and whether there are many."""
    many = False
    at: ast.AST = opened
    for above in parents(opened):
        if isinstance(above, (ast.With, ast.AsyncWith, ast.withitem)):
            return None, "", False
        if isinstance(above, ast.Call) and isinstance(above.func, ast.Attribute) and at is not above.func:
            if above.func.attr == "append" and name_of(above.func).startswith("self."):
                statement = parent(above)
                return (statement if isinstance(statement, ast.stmt) else None), name_of(above.func).split(".")[1], True
            return None, "", False
        if isinstance(above, ast.Subscript) and not (
            isinstance(above.slice, ast.Constant) and isinstance(above.slice.value, str)
        ):
            return None, "", False  # [:] and [()] read it all
        if isinstance(above, ast.Attribute):
            return None, "", False
        many = many or isinstance(above, GATHERED)
        if isinstance(above, ast.Assign):
            target = above.targets[0]
            if isinstance(target, ast.Subscript) and name_of(target).startswith("self."):
                return above, name_of(target).split(".")[1], True
            is_own = isinstance(target, ast.Attribute) and name_of(target.value) == "self"
            return (above, name_of(target).split(".")[1], many) if is_own else (None, "", False)
        if isinstance(above, ast.stmt):
            return None, "", False
        at = above
    return None, "", False


def _local_handles(openers: Openers, source: Source, functions: list[Function]) -> dict[ast.Call, str]:
    """Handles that a local name holds."""
    found: dict[ast.Call, str] = {}
    for function in functions:
        for node in ast.walk(function):
            if not isinstance(node, ast.Assign) or not isinstance(node.value, ast.Call):
                continue
            if isinstance(node.targets[0], ast.Name) and openers.of(source, node.value) is not None:
                found[node.value] = node.targets[0].id
    return found


def _passed_on(function: Function, name: str) -> tuple[ast.stmt | None, str, ast.Name | None]:
    """An attribute that is given a local handle, or a part of one by its name; and the name where many are gathered in it."""
    closed = any(isinstance(node, ast.Call) and name_of(node.func) == f"{name}.close" for node in ast.walk(function))
    for node in ast.walk(function) if not closed else ():
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) and len(node.value.args) == 1:
            into, given = name_of(node.value.func).split("."), node.value.args[0]
            if into[:1] == ["self"] and into[2:] == ["append"] and isinstance(given, ast.Name) and given.id == name:
                return node, into[1], given
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Subscript) and isinstance(node.value, ast.Name):
            into = name_of(node.targets[0]).split(".")
            if into[:1] == ["self"] and into[1:] and not into[2:] and node.value.id == name:
                return node, into[1], node.value
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Attribute) and not closed:
            value = node.value
            while (
                isinstance(value, ast.Subscript)
                and isinstance(value.slice, ast.Constant)
                and isinstance(value.slice.value, str)
            ):
                value = value.value
            if isinstance(value, ast.Name) and value.id == name and name_of(node.targets[0].value) == "self":
                return node, node.targets[0].attr, None
    return None, "", None


def _derived(init: Function, attribute: str) -> list[ast.Assign]:
    """Parts of the handle that are kept as well: ``self.images = self.file["images"]``, ``self.txn = self.env.begin()``."""
    found = []
    for node in ast.walk(init):
        if not isinstance(node, ast.Assign) or len(node.targets) != 1 or not isinstance(node.targets[0], ast.Attribute):
            continue
        value = node.value
        if isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and value.func.attr in PARTS:
            value = value.func.value
        while (
            isinstance(value, ast.Subscript) and isinstance(value.slice, ast.Constant) and isinstance(value.slice.value, str)
        ):
            value = value.value
        if value is not node.value and isinstance(value, ast.Attribute) and name_of(value) == f"self.{attribute}":
            found.append(node)
    return found


def _dropped(owner: ast.ClassDef, function: Function, attribute: str) -> bool:
    """Whether the handle is closed, deleted or replaced before ``__init__`` ends."""
    name = f"self.{attribute}"
    for node in ast.walk(function):
        if isinstance(node, ast.Call) and name_of(node.func) in {f"{name}.close", f"{name}.clear"}:
            return True
        if isinstance(node, ast.Delete) and any(name_of(one) == name for one in node.targets):
            return True
    ended = [
        node
        for one in owner.body
        if isinstance(one, ast.FunctionDef) and one.name == "__init__"
        for node in ast.walk(one)
        if isinstance(node, ast.Assign) and name_of(node.targets[0]) == name and isinstance(node.value, ast.Constant)
    ]
    opened = [
        node.lineno for node in ast.walk(function) if isinstance(node, ast.Assign) and name_of(node.targets[0]) == name
    ]
    return bool(ended) and max(node.lineno for node in ended) >= max(opened, default=0)


def _keeps_state(owner: ast.ClassDef) -> bool:
    return any(isinstance(one, ast.FunctionDef) and one.name in {"__getstate__", "__reduce__"} for one in owner.body)


def _guarded(statement: ast.stmt, function: Function) -> bool:
    """Whether only some settings open it at the start (``if preload:``)."""
    return inside(statement, ast.If) is not None and any(one is function for one in parents(statement))
