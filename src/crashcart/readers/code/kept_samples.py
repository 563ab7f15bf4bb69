"""What a data set keeps of its samples: caches that only grow, and sets that are read into memory as a whole.

    self.cache[index] = sample              in __getitem__, with nothing that takes any out     code.sample_cache
    @functools.cache def load(path): ...    called for a sample                                 the same
    for path in paths: self.data.append(file["x"][()])                       in __init__        code.held_whole
    self.index.append((path, start))        in a loop of __init__: one object for each step     code.object_index

Each worker process has a cache of its own, and each rank a data set.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from crashcart.readers.code._caches import few, remembers
from crashcart.readers.code._callers import callers_of, function_of
from crashcart.readers.code._edits import alone, line_before
from crashcart.readers.code._held import LOOPS, held_whole
from crashcart.readers.code._on_use import read_on_use
from crashcart.readers.code._on_use_each import each_on_use
from crashcart.readers.code._sample_code import begun, data_sets, followed
from crashcart.readers.code.samples import ITEMS
from crashcart.readers.code.source import name_of, parents

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.model import Edit, Fact
    from crashcart.readers.code._callers import Callers
    from crashcart.readers.code.program import Program
    from crashcart.readers.code.source import Function, Source

TAKES_OUT = {"pop", "popitem", "clear", "popleft", "move_to_end"}
OPENS = {"File", "open", "open_file"}
LOADS = {
    "load",
    "imread",
    "read_image",
    "read_parquet",
    "read_csv",
    "loadtxt",
    "fromfile",
    "loads",
    "decode_jpeg",
    "VideoReader",
}
KEPT = 4
_NESTED = 2  # a loop over files, and one over steps
_DICT = 3  # a dict is larger than a tuple by about so many entries


def look(program: Program) -> Iterator[Fact]:
    """The facts above, each once."""
    seen: set[ast.AST] = set()
    told: set[tuple[str, str]] = set()
    callers = callers_of(program)
    for source, owner in data_sets(program):
        items = followed(program, source, owner, *ITEMS)
        for at, function in items:
            if function not in seen and (decorator := remembers(at, function)) is not None and _reads(function):
                seen.add(function)
                bounded = few(at, decorator, KEPT)
                yield at.fact(
                    "code.sample_cache", {"class": owner.name, "attribute": function.name, "edits": bounded}, decorator
                )
            for node in ast.walk(function):
                if isinstance(node, ast.Assign) and node not in seen and (name := _cached(owner, function, node)):
                    seen.add(node)
                    value = {"class": owner.name, "attribute": name, "edits": _bounded(at, owner, node, name)}
                    yield at.fact("code.sample_cache", value, node)
        for at, function in begun(program, source, owner):
            if function in [one for _, one in items]:
                continue
            for node in ast.walk(function):
                if isinstance(node, ast.stmt) and node not in seen and (parts := _indexed(node)):
                    seen.add(node)
                    yield at.fact("code.object_index", {"class": owner.name, "parts": parts}, node)
            for loop in ast.walk(function):
                kept = held_whole(callers, at, loop) if isinstance(loop, LOOPS) and loop not in seen else None
                if kept is not None and isinstance(loop, LOOPS) and (owner.name, str(kept)) not in told:
                    seen |= {loop, *ast.walk(loop)}
                    told.add((owner.name, str(kept)))  # also by the function that an outer loop calls
                    edits = read_on_use(at, owner, function, loop) or (each_on_use(at, owner, loop) if at is source else ())
                    yield at.fact("code.held_whole", {**kept, "class": owner.name, "edits": edits}, loop)
    yield from _in_tensors(program, callers, seen)


def _in_tensors(program: Program, callers: Callers, seen: set[ast.AST]) -> Iterator[Fact]:
    """A function that reads all files and makes a ``TensorDataset`` of them."""
    for source in program.sources:
        for call in source.calls("TensorDataset"):
            function = function_of(call)
            for loop in ast.walk(function) if function is not None else ():
                kept = held_whole(callers, source, loop) if isinstance(loop, LOOPS) and loop not in seen else None
                if kept is not None and isinstance(loop, LOOPS):
                    seen |= {loop, *ast.walk(loop)}
                    yield source.fact("code.held_whole", {**kept, "class": "TensorDataset", "edits": ()}, loop)


def _reads(function: Function) -> bool:
    """Whether a function answers with what it read from a file, and not with the open file itself."""
    calls = {name_of(one.func).rpartition(".")[2] for one in ast.walk(function) if isinstance(one, ast.Call)}
    answers = [one.value for one in ast.walk(function) if isinstance(one, ast.Return)]
    handles = any(isinstance(one, ast.Call) and name_of(one.func).rpartition(".")[2] in OPENS for one in answers)
    return bool(calls & (OPENS | LOADS)) and not handles


def _cached(owner: ast.ClassDef, function: Function, node: ast.Assign) -> str:
    """The attribute into which a sample is put for good."""
    target = node.targets[0]
    if not isinstance(target, ast.Subscript) or isinstance(target.slice, (ast.Constant, ast.Slice)):
        return ""
    name = name_of(target.value)
    if not name.startswith("self.") or name.count(".") != 1 or isinstance(node.value, ast.Constant):
        return ""
    if not _is_store(owner, name) or _taken_out(owner, name) or not _large(node.value):
        return ""
    return name[5:] if not _optional(node, function, name) else ""


def _is_store(owner: ast.ClassDef, name: str) -> bool:
    """Whether the attribute begins as an empty store."""
    given = [
        one.value
        for one in ast.walk(owner)
        if isinstance(one, ast.Assign) and name_of(one.targets[0]) == name and isinstance(one.targets[0], ast.Attribute)
    ]
    given += [
        one.value for one in ast.walk(owner) if isinstance(one, ast.AnnAssign) and name_of(one.target) == name and one.value
    ]
    empty = [
        one
        for one in given
        if (isinstance(one, ast.Dict) and not one.keys)
        or (
            isinstance(one, ast.Call)
            and name_of(one.func).rpartition(".")[2] in {"dict", "OrderedDict", "defaultdict"}
            and not one.keywords
        )
        or (isinstance(one, ast.BinOp) and isinstance(one.left, ast.List))
    ]
    return bool(given) and len(empty) == len(given)


def _taken_out(owner: ast.ClassDef, name: str) -> bool:
    for node in ast.walk(owner):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and name_of(node.func.value) == name
            and node.func.attr in TAKES_OUT
        ):
            return True
        if isinstance(node, ast.Delete) and any(name_of(one) == name for one in node.targets):
            return True
        if isinstance(node, ast.Compare) and any(
            isinstance(one, ast.Call) and name_of(one.func) == "len" and one.args and name_of(one.args[0]) == name
            for one in ast.walk(node)
        ):
            return True
    return False


def _large(value: ast.expr) -> bool:
    """Whether what is kept may be a sample: it was made by a call or is a name, and is no sum of what was there."""
    return not isinstance(value, (ast.BinOp, ast.Compare, ast.BoolOp, ast.UnaryOp))


def _optional(node: ast.AST, function: Function, name: str) -> bool:
    """Whether a switch of its own turns the cache on: a test that is not about the cache itself."""
    for above in parents(node):
        if above is function:
            break
        if isinstance(above, ast.If) and not any(
            name_of(one) == name for one in ast.walk(above.test) if isinstance(one, ast.Attribute)
        ):
            text = ast.unparse(above.test)
            if "cache" in text or "memory" in text or "preload" in text:
                return True
    return False


def _bounded(source: Source, owner: ast.ClassDef, node: ast.Assign, name: str) -> tuple[Edit, ...]:
    """A cache that lets the oldest go, where it is a mapping."""
    lists = any(
        isinstance(one, ast.Assign) and name_of(one.targets[0]) == f"self.{name}" and isinstance(one.value, ast.BinOp)
        for one in ast.walk(owner)
    )
    if lists or not alone(source, node):
        return ()
    lines = (f"while len(self.{name}) >= {KEPT}:", f"    self.{name}.pop(next(iter(self.{name})))")
    return (line_before(source, node, *lines),)


def _indexed(node: ast.stmt) -> int:
    """How many things each entry of an index holds that is filled in a loop inside a loop; 0 for anything else."""
    loops = sum(isinstance(above, ast.For) for above in parents(node))
    entry: ast.expr | None = None
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) and isinstance(node.value.func, ast.Attribute):
        call = node.value
        if (
            isinstance(call.func, ast.Attribute)
            and call.func.attr in {"append", "extend"}
            and name_of(call.func).startswith("self.")
            and call.args
        ):
            entry = call.args[0]
    elif isinstance(node, ast.AugAssign) and name_of(node.target).startswith("self."):
        entry = node.value
    if isinstance(entry, (ast.ListComp, ast.GeneratorExp)):
        loops, entry = loops + len(entry.generators), entry.elt
    if loops < _NESTED or not isinstance(entry, (ast.Tuple, ast.Dict, ast.List)):
        return 0
    return len(entry.keys) + _DICT if isinstance(entry, ast.Dict) else len(entry.elts)
