"""Data that a loop over files reads as a whole and keeps in memory for good.

A list that only feeds a mean is let go again; what counts is what an attribute of the data set holds in the end, and what goes
into it as it was read: ``file["x"][()].shape`` keeps a number. A function of the program that does the reading is followed.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any

from crashcart.readers.code.samples import key_of
from crashcart.readers.code.source import FUNCTIONS, inside, name_of, parent, parents

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.readers.code._callers import Callers
    from crashcart.readers.code.source import Source

__all__ = ["LOOPS", "Loop", "held_whole"]

Loop = ast.For | ast.ListComp | ast.DictComp | ast.GeneratorExp | ast.Call
LOOPS = (ast.For, ast.ListComp, ast.DictComp, ast.GeneratorExp, ast.Call)
READS = {"numpy.load", "np.load", "torch.load", "pickle.load", "cv2.imread", "Image.open", "PIL.Image.open", "imread"}
JOINS = {"stack", "concatenate", "cat", "array", "vstack", "list", "tuple", "asarray", "dict", "hstack"}
SAME = {"astype", "copy", "float", "half", "long", "numpy", "contiguous", "to", "permute", "transpose", "items", "values"}
ARRAYS = {"numpy.array", "numpy.asarray", "numpy.stack"}
EVERY = "*"  # every table of a file
_DEPTH = 2


def held_whole(callers: Callers, source: Source, loop: Loop) -> dict[str, Any] | None:
    """Tables by their names, or whole files; nothing where none stays."""
    keys: list[str] = []
    files = False
    for value in _kept(loop):
        for key, file in _read(callers, source, value, loop, _DEPTH):
            keys += [key] if key else []
            files = files or file
    return {"keys": list(dict.fromkeys(keys)), "files": files} if keys or files else None


def _read(callers: Callers, source: Source, value: ast.expr, within: ast.AST, depth: int) -> Iterator[tuple[str, bool]]:
    """The tables and files that become part of a value whole."""
    named: dict[str, list[ast.AST]] = {}
    for node in ast.walk(within):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            named.setdefault(node.targets[0].id, []).append(node.value)
    names = {one.id for one in ast.walk(value) if isinstance(one, ast.Name) and _as_it_is(one, value)}
    for one in (value, *(found for name in names for found in named.get(name, ()))):
        for node in ast.walk(one):
            if isinstance(node, ast.Subscript) and _whole(node) and _as_it_is(node, one):
                key = key_of(node.value) if isinstance(node.value, ast.Subscript) else None
                yield key or (EVERY if _of_each(node.value) else ""), False
            elif isinstance(node, ast.Call) and _as_it_is(node, one):
                if source.called(node.func) in READS:
                    yield "", not any(word.arg == "mmap_mode" for word in node.keywords)
                elif source.called(node.func) in ARRAYS and node.args and isinstance(node.args[0], ast.Subscript):
                    yield key_of(node.args[0]) or "", False
                elif depth:
                    yield from _answered(callers, source, node.func, depth - 1)


def _answered(callers: Callers, source: Source, func: ast.expr, depth: int) -> Iterator[tuple[str, bool]]:
    """What a function of the program reads and answers with."""
    meant = callers.meant(source, func)
    for at, function in meant if len(meant) == 1 else ():
        for node in ast.walk(function):
            if isinstance(node, ast.Return) and node.value is not None:
                yield from _read(callers, at, node.value, function, depth)


def _kept(loop: Loop) -> Iterator[ast.expr]:
    """What goes into an attribute, at once or through a list of the function."""
    if not isinstance(loop, ast.For):
        if _stays(loop):
            yield from _elements(loop)
        return
    function = inside(loop, *FUNCTIONS)
    for node in ast.walk(loop):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr in {"append", "extend"}
            and node.args
        ):
            into = name_of(node.func.value)
            if into.startswith("self.") or (function is not None and _given_away(function, into)):
                yield node.args[0]
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Subscript):
            into = name_of(node.targets[0].value)
            if into.startswith("self.") or (function is not None and _given_away(function, into)):
                yield node.value


def _elements(loop: Loop) -> Iterator[ast.expr]:
    """What each round gives: of a comprehension, or of ``map(read, paths)``, which is the call of the function it is given."""
    if isinstance(loop, ast.DictComp):
        yield loop.value
    elif isinstance(loop, (ast.ListComp, ast.GeneratorExp)):
        yield loop.elt
    elif isinstance(loop, ast.Call) and name_of(loop.func).rpartition(".")[2] == "map" and len(loop.args) > 1:
        made = ast.Call(func=loop.args[0], args=[], keywords=[])
        made.parent = parent(loop)  # type: ignore[attr-defined]
        yield made


def _stays(loop: ast.expr) -> bool:
    """Whether what a comprehension gives becomes an attribute, or part of what the function answers with."""
    at: ast.AST = loop
    for above in parents(loop):
        joined = isinstance(above, ast.Call) and name_of(above.func).rpartition(".")[2] in JOINS
        if isinstance(above, ast.Assign):
            target = name_of(above.targets[0])
            function = inside(above, *FUNCTIONS)
            return target.startswith("self.") or (function is not None and _given_away(function, target))
        if isinstance(above, ast.Return):
            return not isinstance(loop, ast.GeneratorExp) or at is not loop
        if not joined and not isinstance(above, ast.Starred | ast.List):
            return False
        at = above
    return False


def _given_away(function: ast.AST, name: str) -> bool:
    """Whether an attribute is given the list, or one array of all of it; or the function answers with it."""
    if not name:
        return False
    for node in ast.walk(function):
        made_of = node.args if isinstance(node, ast.Call) and name_of(node.func).endswith("TensorDataset") else []
        if any(isinstance(one, ast.Name) and one.id == name for part in made_of for one in ast.walk(part)):
            return True
        own = isinstance(node, ast.Assign) and name_of(node.targets[0]).startswith("self.")
        made = isinstance(node, ast.Return) and getattr(function, "name", "") != "__init__" and not _counts(function)
        if own or made:
            value = node.value if isinstance(node, (ast.Assign, ast.Return)) else None
            if isinstance(value, ast.Call) and name_of(value.func).rpartition(".")[2] in JOINS and value.args:
                value = value.args[0]
            if isinstance(value, ast.Name) and value.id == name:
                return True
    return False


def _counts(function: ast.AST) -> bool:
    """Whether a function is one for statistics, which reads everything and lets it go."""
    name = str(getattr(function, "name", ""))
    return any(word in name for word in ("stat", "norm", "mean", "count", "length"))


def _as_it_is(node: ast.AST, top: ast.AST) -> bool:
    """Whether a node becomes part of a value whole: nothing above it takes a shape, a length or an item of it."""
    if node is top:
        return True
    for above in parents(node):
        if isinstance(above, ast.Attribute) and above.attr not in SAME:
            return False
        if isinstance(above, ast.Subscript) or (
            isinstance(above, ast.Call) and name_of(above.func) in {"len", "int", "float", "max", "min", "sum"}
        ):
            return False
        if above is top:
            return True
    return True


def _of_each(node: ast.expr) -> bool:
    """``file[key]`` of ``for key in file``, ``table`` of ``for key, table in file.items()``: every table of a file."""
    name = name_of(node.slice) if isinstance(node, ast.Subscript) else name_of(node)
    for above in parents(node):
        for one in getattr(above, "generators", ()):
            over = one.iter.func if isinstance(one.iter, ast.Call) else one.iter
            whose, _, how = name_of(over).rpartition(".") if isinstance(one.iter, ast.Call) else (name_of(over), "", "keys")
            parts = one.target.elts if isinstance(one.target, ast.Tuple) else [one.target]
            if name and name == name_of(parts[-1]) and isinstance(node, ast.Subscript):
                return how == "keys" and whose == name_of(node.value)
            if name and name == name_of(parts[-1]):
                return how in {"items", "values"}
    return False


def _whole(node: ast.Subscript) -> bool:
    """``[()]``, ``[:]`` and ``[...]`` of a table by its name."""
    if not isinstance(node.value, ast.Subscript) and not _of_each(node.value):
        return False
    at = node.slice
    empty = isinstance(at, ast.Tuple) and not at.elts
    return (
        empty
        or (isinstance(at, ast.Slice) and at.lower is None and at.upper is None)
        or (isinstance(at, ast.Constant) and at.value is Ellipsis)
    )
