"""How many samples a data set holds, and which sampler deals them out, where the code says it in plain numbers or settings.

    class Frames(Dataset):
        def __init__(self, count): self.count = count
        def __len__(self): return self.count             Frames(cfg["num_samples"])
    TensorDataset(torch.randn(64, 3), ...)               FakeData(size=32)

A length that depends on files, filters or splits is not known here; what it counts is told by its name, ``len(self.files)``.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from crashcart.readers.code._callers import function_of, last_name
from crashcart.readers.code._given import argument, default_of
from crashcart.readers.code._paths import given_to
from crashcart.readers.code.source import keyword, name_of

if TYPE_CHECKING:
    from crashcart.readers.code._given import Given, Giving, Site
    from crashcart.readers.code.program import Program
    from crashcart.readers.code.source import Source

__all__ = ["length_of", "sampler_of"]

FILLED = {"randn", "rand", "zeros", "ones", "empty", "arange", "randint", "range", "full"}
_DEPTH = 5


def length_of(program: Program, giving: Giving, source: Source, node: ast.expr | None, site: Site | None) -> Given:
    """The length of a data set as a constant or the key of a setting; empty where it is not known."""
    made = _made(source, node, site, _DEPTH)
    if made is None:
        return {}
    home, call = made
    name = last_name(call.func)
    if name == "FakeData":
        return giving.of(home, keyword(call, "size", 0))
    if name in FILLED:
        return _items(giving, home, call)
    if name == "TensorDataset":
        return _items(giving, home, call.args[0] if call.args else None)
    for own in program.sources:
        for owner in own.nodes(ast.ClassDef):
            if owner.name == name:
                return _told(giving, own, owner, (home, call))
    return {}


def sampler_of(source: Source, call: ast.Call, *, complete: bool) -> str:
    """The class of the sampler that a loader is given; empty for none, ``?`` where it cannot be told."""
    if keyword(call, "batch_sampler", 4) is not None or not complete:
        return "?"
    node = keyword(call, "sampler", 3)
    if node is None or (isinstance(node, ast.Constant) and node.value is None):
        return ""
    given = given_to(source, name_of(node), function_of(node)) if isinstance(node, (ast.Name, ast.Attribute)) else [node]
    kinds = {last_name(one.func) if isinstance(one, ast.Call) else "?" for one in given}
    return kinds.pop() if len(kinds) == 1 else "?"


def _made(source: Source, node: ast.expr | None, site: Site | None, depth: int) -> Site | None:
    """The call that makes an object, names and parameters followed to the one thing that they were given."""
    if isinstance(node, ast.Call):
        return source, node
    if not isinstance(node, (ast.Name, ast.Attribute)) or not depth:
        return None
    function = function_of(node)
    given = given_to(source, name_of(node), function)
    if given:
        return _made(source, given[0], site, depth - 1) if len(given) == 1 else None
    if isinstance(node, ast.Name) and function is not None and site is not None:
        return _made(site[0], argument(function, site[1], node.id), None, depth - 1)
    return None


def _told(giving: Giving, source: Source, owner: ast.ClassDef, site: Site) -> Given:
    """What ``__len__`` gives of an object that was made there."""
    methods = {one.name: one for one in owner.body if isinstance(one, ast.FunctionDef)}
    length, made = methods.get("__len__"), methods.get("__init__")
    returned = [one.value for one in ast.walk(length) if isinstance(one, ast.Return)] if length is not None else []
    if len(returned) != 1 or returned[0] is None:
        return {}
    node = returned[0]
    counted = _counted(node)
    inner = isinstance(node, ast.Call) and name_of(node.func) == "len" and len(node.args) == 1
    node = node.args[0] if inner and isinstance(node, ast.Call) else node
    if isinstance(node, ast.Attribute) and name_of(node.value) == "self" and made is not None:
        own = [one for one in given_to(source, name_of(node), None) if function_of(one) in methods.values()]
        if len(own) != 1 or function_of(own[0]) is not made:
            return counted
        node = own[0]
    if inner:
        return _items(giving, source, node, made, site) or counted
    if isinstance(node, ast.Name) and made is not None:
        handed = argument(made, site[1], node.id)
        if handed is not None:
            return giving.of(site[0], handed)
        return giving.of(source, default_of(made, node.id))
    return giving.of(source, node)


def _counted(node: ast.expr) -> Given:
    """The name of what is counted: ``episode_ids`` of ``len(self.episode_ids)``."""
    if isinstance(node, ast.Call) and name_of(node.func) == "len" and len(node.args) == 1:
        return {"counted": name_of(node.args[0]).rpartition(".")[2]}
    return {}


def _items(
    giving: Giving,
    source: Source,
    node: ast.expr | None,
    made: ast.FunctionDef | None = None,
    site: Site | None = None,
) -> Given:
    """How many items something has that is filled with a plain number of them."""
    found = _made(source, node, None, _DEPTH)
    if found is None:
        return {}
    home, call = found
    if last_name(call.func) == "list" and call.args and isinstance(call.args[0], ast.Call):
        call = call.args[0]
    if last_name(call.func) not in FILLED:
        return {}
    first = next((one for one in call.args if isinstance(one, (ast.Tuple, ast.List))), None)
    size = first.elts[0] if first is not None and first.elts else call.args[0] if call.args else None
    several = len(call.args) > 1 and last_name(call.func) in {"range", "arange"}
    if last_name(call.func) == "randint" and first is None:
        return {}
    if size is None or several or isinstance(size, ast.Starred):
        return {}
    if isinstance(size, ast.Name) and made is not None and site is not None and home is source:
        handed = argument(made, site[1], size.id)
        return giving.of(site[0], handed) if handed is not None else giving.of(source, default_of(made, size.id))
    return giving.of(home, size)
