"""Lists that get longer with every sample or batch, in the code that loaders run: in each worker, for as long as it lives.

    self.seen.append(image)          in __getitem__, in a transform, in __call__ of a collator
    self.seen += list(images)        SEEN.extend(images)        self.all = torch.cat([self.all, images])

Only what may be as large as a sample is meant: a part of what comes in, was read, or goes out. Numbers, paths and means are
small, and a list that is cut, emptied or bounded somewhere does not grow.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from crashcart.readers.code._callers import callers_of, last_name, statement_of
from crashcart.readers.code._edits import alone, line_after
from crashcart.readers.code._paths import given_to
from crashcart.readers.code._sample_code import data_sets, followed
from crashcart.readers.code.samples import ITEMS
from crashcart.readers.code.source import FUNCTIONS, name_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.model import Edit, Fact
    from crashcart.readers.code.program import Program
    from crashcart.readers.code.source import Function, Source

HANDED = {"collate_fn", "data_collator", "transform", "transforms", "batch_transform", "preprocess"}
CALLED = ("__call__", "torch_call", "forward")
ADDS = {"append", "extend", "add", "insert", "appendleft"}
AT_THE_END = {"append", "extend"}
JOINS = {"cat", "concatenate", "concat", "vstack", "hstack"}
TAKES_OUT = {"pop", "popleft", "clear", "popitem", "remove"}
SMALL = {
    "item", "len", "int", "float", "str", "bool", "mean", "sum", "std", "var", "max", "min", "norm", "time", "perf_counter", "hash", "median",
    "get_worker_info", "basename", "join", "keys", "argmax", "nbytes", "numel", "size", "format", "any", "all",
}  # fmt: skip
SMALL_PARTS = {"shape", "ndim", "dtype", "size", "nbytes", "name"}
KEPT = 4
Part = tuple["Source", "Function"]


def look(program: Program) -> Iterator[Fact]:
    """``code.grows``: whose code, in what, and the line that bounds it."""
    seen: set[ast.AST] = set()
    for name, parts in _run_by_loaders(program):
        for source, function in parts:
            for node, into, value in _added(function):
                if node in seen or not _grows(source, function, into) or not _large(source, function, value):
                    continue
                seen.add(node)
                statement = statement_of(node)
                last = isinstance(node, ast.AugAssign) or (isinstance(node, ast.Call) and last_name(node.func) in AT_THE_END)
                edits = _bounded(source, statement, into) if last and is_list(source, into) else ()
                yield source.fact("code.grows", {"class": name, "holder": into, "edits": edits}, statement)


def _run_by_loaders(program: Program) -> Iterator[tuple[str, list[Part]]]:
    """What runs for every sample or batch: data sets, and what loaders and data sets are handed to collate and transform."""
    for source, owner in data_sets(program):
        yield owner.name, followed(program, source, owner, *ITEMS)
    callers = callers_of(program)
    classes = {one.name: (source, one) for source in program.sources for one in source.nodes(ast.ClassDef)}
    for source in program.sources:
        for call in source.nodes(ast.Call):
            for word in call.keywords:
                if word.arg not in HANDED:
                    continue
                for given in (word.value, *given_to(source, name_of(word.value), None)):
                    name = last_name(given.func if isinstance(given, ast.Call) else given)
                    if isinstance(given, ast.Call) and name in classes:
                        yield name, followed(program, *classes[name], *CALLED)
                    elif name == "partial" and isinstance(given, ast.Call) and given.args:
                        yield last_name(given.args[0]), callers.meant(source, given.args[0])
                    elif not isinstance(given, ast.Call):
                        yield name, callers.meant(source, given)


def _added(function: Function) -> Iterator[tuple[ast.AST, str, ast.expr]]:
    """What is put at the end of something that outlives the call: the node, the holder, the value."""
    for node in ast.walk(function):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in ADDS and node.args:
            yield node, name_of(node.func.value), node.args[-1]
        elif isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Add):
            if not isinstance(node.value, (ast.Constant, ast.BinOp)):
                yield node, name_of(node.target), node.value
        elif isinstance(node, ast.Assign) and isinstance(node.value, (ast.BinOp, ast.Call)):
            target = name_of(node.targets[0])
            both = [node.value.left] if isinstance(node.value, ast.BinOp) and isinstance(node.value.right, ast.List) else []
            if isinstance(node.value, ast.Call) and last_name(node.value.func) in JOINS and node.value.args:
                first = node.value.args[0]
                both = first.elts if isinstance(first, (ast.List, ast.Tuple)) else []
            if target and any(name_of(one) == target for one in both):
                yield node, target, node.value


def _grows(source: Source, function: Function, into: str) -> bool:
    """Whether the holder is a list of the object or of the file, and nothing ever takes any out."""
    owner = getattr(function, "parent", None)
    if into.startswith("self.") and into.count(".") == 1 and isinstance(owner, ast.ClassDef):
        home: ast.AST = owner
        begun = [one for one in ast.walk(owner) if isinstance(one, FUNCTIONS) and one.name in {"__init__", "__post_init__"}]
        places = [one for part in begun for one in ast.walk(part)]
    elif into.isidentifier() and not _is_local(function, into):
        home, places = source.tree, list(source.tree.body)
    else:
        return False
    made = [
        one.value
        for one in places
        if isinstance(one, (ast.Assign, ast.AnnAssign))
        and any(name_of(target) == into for target in (one.targets if isinstance(one, ast.Assign) else [one.target]))
    ]
    return bool(made) and all(_is_empty(one) for one in made) and not _taken_out(home, into, len(made))


def _is_local(function: Function, name: str) -> bool:
    said = {one for node in ast.walk(function) if isinstance(node, ast.Global) for one in node.names}
    stored = any(
        isinstance(one, ast.Name) and one.id == name and isinstance(one.ctx, ast.Store) for one in ast.walk(function)
    )
    given = [*function.args.args, *function.args.kwonlyargs, *function.args.posonlyargs]
    return name not in said and (stored or any(one.arg == name for one in given))


def _is_empty(node: ast.expr | None) -> bool:
    """``[]``, ``list()``, ``set()``, ``torch.empty(0)``; a queue with a bound is none."""
    if isinstance(node, ast.List):
        return not node.elts
    if isinstance(node, ast.Call) and last_name(node.func) in {"list", "set", "deque"}:
        return not node.args and not node.keywords
    if isinstance(node, ast.Call) and last_name(node.func) in {"empty", "zeros"} and node.args:
        first = node.args[0].elts[0] if isinstance(node.args[0], ast.Tuple) and node.args[0].elts else node.args[0]
        return isinstance(first, ast.Constant) and first.value == 0
    return False


def is_list(source: Source, name: str) -> bool:
    """Whether a holder is a list and nothing else: of a set or a queue no slice can be deleted."""
    given = given_to(source, name, None)
    return bool(given) and all(
        isinstance(one, (ast.List, ast.BinOp)) or (isinstance(one, ast.Call) and last_name(one.func) == "list")
        for one in given
    )


def _taken_out(home: ast.AST, name: str, made: int) -> bool:
    """Whether anything cuts, empties, replaces or counts it."""
    given = 0
    for node in ast.walk(home):
        if isinstance(node, ast.Call) and name_of(node.func).rpartition(".") in [(name, ".", one) for one in TAKES_OUT]:
            return True
        if isinstance(node, ast.Delete) and any(name_of(one).startswith(name) for one in node.targets):
            return True
        if isinstance(node, ast.Compare) and f"len({name})" in ast.unparse(node):
            return True
        if isinstance(node, ast.Assign) and any(name_of(one) == name for one in node.targets):
            value = ast.unparse(node.value)
            given += 1 if not value.startswith(f"{name} + ") and f"[{name}, " not in value else 0
    return given > made


def _large(source: Source, function: Function, value: ast.expr) -> bool:
    """Whether a value may be as large as a sample: made of what comes in, was read or goes out, and not cut down to a number."""
    if any(_cuts_down(one) for one in ast.walk(value)):
        return False
    names = {name_of(one) for one in ast.walk(value) if isinstance(one, ast.Name)} - {"self"}
    going = {
        one.id
        for node in ast.walk(function)
        if isinstance(node, (ast.Return, ast.Yield)) and node.value is not None
        for one in ast.walk(node.value)
        if isinstance(one, ast.Name)
    }
    read = isinstance(value, ast.Subscript) and isinstance(value.value, ast.Subscript)
    return read or any(name in going and not _is_small(source, function, name) for name in names)


def _is_small(source: Source, function: Function, name: str) -> bool:
    """Whether a name is an index, a path or a number."""
    arguments = [one.arg for one in function.args.args if one.arg != "self"]
    if function.name in ITEMS and name in arguments:
        return True
    given = given_to(source, name, function)
    return bool(given) and all(
        isinstance(one, ast.Constant) or any(_cuts_down(part) for part in ast.walk(one)) or _by_index(one) for one in given
    )


def _by_index(node: ast.expr) -> bool:
    """``self.paths[at]``: an entry of an index."""
    return isinstance(node, ast.Subscript) and name_of(node).startswith("self.") and not isinstance(node.slice, ast.Slice)


def _cuts_down(node: ast.AST) -> bool:
    if isinstance(node, ast.Call):
        last = node.func.attr if isinstance(node.func, ast.Attribute) else name_of(node.func)
        return last in SMALL
    return isinstance(node, ast.Attribute) and node.attr in SMALL_PARTS


def _bounded(source: Source, statement: ast.stmt, into: str) -> tuple[Edit, ...]:
    """A line that lets all but the last few go."""
    return (line_after(source, statement, f"del {into}[:-{KEPT}]"),) if alone(source, statement) else ()
