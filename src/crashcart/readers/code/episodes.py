"""Whole episodes in the code: which are left out without a word, and where all must have one length.

for t in range(max(0, n - chunk + 1))         nothing of a short episode     code.short_left_out
if n < chunk: continue                        the same
torch.stack(all_actions)                      whole episodes, of one length  code.stacked_whole
f"episode_{i}.hdf5"                           files by their number          code.numbered_file
the same in `for i in range(num_episodes)`    each of them, before the rest  code.numbered_all
"""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING, Any

from crashcart.readers.code._given import Giving
from crashcart.readers.code.data_paths import COUNTS
from crashcart.readers.code.samples import read_of
from crashcart.readers.code.source import name_of, parent, parents

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.model import Fact
    from crashcart.readers.code.program import Program
    from crashcart.readers.code.source import Function, Source

STACKS = {"torch.stack", "numpy.stack"}
NUMBERED = re.compile(r"(?:^|/)\w+_#\.(?:hdf5|h5)$")
CHUNK = re.compile(r"(?i)chunk|horizon|window|seq|context|clip|block|length|len|steps|frames")
LENGTH = re.compile(r"(?i)len|num|steps|size|count|horizon|frames|shape|(?:^|_)[ntl]$")


def look(program: Program) -> Iterator[Fact]:
    """The facts above, each once."""
    giving = Giving(program)
    seen: set[ast.AST] = set()
    for source in program.sources:
        if "h5py" not in source.text and "episode" not in source.text.lower():
            continue
        for text in source.nodes(ast.JoinedStr):
            parts = [str(one.value) if isinstance(one, ast.Constant) else "#" for one in text.values]
            if NUMBERED.search("".join(parts)):
                yield source.fact("code.numbered_file", "".join(parts), text)
                if _is_each(text) and giving.callers.certain(source, text):
                    yield source.fact("code.numbered_all", "".join(parts), text)
        for function in source.nodes(ast.FunctionDef):
            for node in ast.walk(function):
                value = None if node in seen else _left_out(giving, source, function, node)
                if value is not None and isinstance(node, (ast.Call, ast.If)):
                    seen.add(node)
                    yield source.fact("code.short_left_out", value, node)
            for call, key in _stacked(source, function):
                sure = giving.callers.certain(source, call)
                yield source.fact("code.stacked_whole", {"key": key, "sure": sure}, call)


def _is_each(text: ast.JoinedStr) -> bool:
    """Whether the number goes through all that a table of tasks or a flag promises, and nothing catches what is not there."""
    numbers = {name_of(one.value) for one in text.values if isinstance(one, ast.FormattedValue)}
    for above in parents(text):
        if isinstance(above, ast.Try):
            return False
        if isinstance(above, ast.For) and name_of(above.target) in numbers:
            over = above.iter
            alone = isinstance(over, ast.Call) and name_of(over.func) == "range" and len(over.args) == 1
            return alone and isinstance(over, ast.Call) and _last_word(over.args[0]) in COUNTS
    return False


def _last_word(count: ast.expr) -> str:
    """Of `num_episodes`, `args.num_episodes` and `task["num_episodes"]` alike."""
    if isinstance(count, ast.Subscript) and isinstance(count.slice, ast.Constant):
        return str(count.slice.value)
    return name_of(count).rpartition(".")[2]


def _stacked(source: Source, function: Function) -> Iterator[tuple[ast.Call, str]]:
    """Whole tables of all files that are put into a list and stacked: their lengths must be equal."""
    read: dict[str, str] = {}
    listed: dict[str, str] = {}
    for node in ast.walk(function):
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Subscript) and isinstance(node.targets[0], ast.Name):
            found = read_of(node.value)
            if found is not None and found["form"] == "whole":
                read[node.targets[0].id] = found["key"]
    for node in ast.walk(function):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "append" and node.args:
            inner = next((one.id for one in ast.walk(node.args[0]) if isinstance(one, ast.Name) and one.id in read), "")
            cut = any(isinstance(one, ast.Subscript) for one in ast.walk(node.args[0]))
            if inner and not cut and any(isinstance(above, ast.For) for above in parents(node)):
                listed[name_of(node.func.value)] = read[inner]
    for node in ast.walk(function):
        if (
            isinstance(node, ast.Call)
            and source.called(node.func) in STACKS
            and node.args
            and name_of(node.args[0]) in listed
        ):
            yield node, listed[name_of(node.args[0])]


def _left_out(giving: Giving, source: Source, function: Function, node: ast.AST) -> dict[str, Any] | None:
    """A range that is empty, or a test that goes on, for what is shorter than a chunk."""
    if isinstance(node, ast.Call) and (end := _end(function, node)) is not None:
        room = _room(source, function, end)
        return _known(giving.of(source, room[0]), room[1], windows=True) if room is not None else None
    if isinstance(node, ast.If) and isinstance(node.test, ast.Compare) and len(node.test.ops) == 1:
        leaves = node.body[-1]
        if not isinstance(leaves, (ast.Continue, ast.Return)) or not isinstance(node.test.ops[0], (ast.Lt, ast.LtE)):
            return None
        wanted = node.test.comparators[0]
        room = _room(source, function, _once_set(function, node.test.left))
        if room is not None and isinstance(wanted, ast.Constant) and isinstance(wanted.value, int):
            more = room[1] - wanted.value + isinstance(node.test.ops[0], ast.Lt)
            return _known(giving.of(source, room[0]), more, windows=False)
        plain = isinstance(wanted, ast.Constant) and isinstance(wanted.value, int) and wanted.value > 1
        if (plain or CHUNK.search(source.written(wanted))) and _is_length(source, function, node.test.left):
            return _known(giving.of(source, wanted), 1 - isinstance(node.test.ops[0], ast.LtE), windows=False)
    return None


def _room(source: Source, function: Function, node: ast.expr) -> tuple[ast.expr, int] | None:
    """The chunk and what is added, of ``n - chunk + 1`` with the length of an episode for n."""
    more = 0
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add) and isinstance(node.right, ast.Constant):
        more, node = int(node.right.value) if isinstance(node.right.value, int) else 0, node.left
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Sub) and CHUNK.search(source.written(node.right)):
        return (node.right, more) if _is_length(source, function, node.left) else None
    return None


def _once_set(function: Function, node: ast.expr) -> ast.expr:
    """What a variable is set to, where that is done once in a function; anything else as it is."""
    if not isinstance(node, ast.Name):
        return node
    given = [
        one.value
        for one in ast.walk(function)
        if isinstance(one, ast.Assign) and any(name_of(target) == node.id for target in one.targets)
    ]
    return given[0] if len(given) == 1 else node


def _end(function: Function, node: ast.Call) -> ast.expr | None:
    """The end of a range, or a number of samples that is put into a list; ``max(0, ...)`` around it is taken off."""
    name = name_of(node.func).rpartition(".")[2]
    if name in {"range", "arange"} and node.args:
        end = _once_set(function, node.args[min(1, len(node.args) - 1)])
        if isinstance(end, ast.Call) and name_of(end.func) == "max" and len(end.args) > 1:
            return next((one for one in end.args if not isinstance(one, ast.Constant)), None)
        return end
    counted = name == "max" and any(isinstance(one, ast.Constant) and one.value == 0 for one in node.args)
    above = parent(node)
    listed = isinstance(above, ast.Call) and name_of(above.func).endswith(".append")
    if counted and (listed or isinstance(above, (ast.ListComp, ast.GeneratorExp))):
        return next((one for one in node.args if not isinstance(one, ast.Constant)), None)
    return None


def _known(given: dict[str, Any], more: int, *, windows: bool) -> dict[str, Any]:
    """The chunk; ``windows`` where each place at which it fits is a sample, and the samples can be counted."""
    return {"chunk": given, "more": more, "windows": windows}


def _is_length(source: Source, function: Function, node: ast.expr) -> bool:
    """Whether an expression is the length of something that was read."""
    if isinstance(node, ast.Call):
        return name_of(node.func) == "len" and bool(node.args)
    if "shape" in name_of(node):
        return True
    if not isinstance(node, ast.Name):
        return False
    given = [
        one.value
        for one in ast.walk(function)
        if isinstance(one, ast.Assign) and any(name_of(target) == node.id for target in one.targets)
    ]
    if not given:
        return bool(LENGTH.search(node.id))
    return any("shape" in source.written(one) or "len(" in source.written(one) for one in given)
