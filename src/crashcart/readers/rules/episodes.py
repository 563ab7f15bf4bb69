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
from crashcart.readers.code._rooms import asked, counted
from crashcart.readers.code._tables import read_of
from crashcart.readers.code.program import program_of
from crashcart.readers.code.source import name_of, parents

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.model import Fact
    from crashcart.readers.code.source import Function, Source
    from crashcart.readers.interpreter.execution import Execution

COUNTS = {"num_episodes", "n_episodes", "episodes"}
STACKS = {"torch.stack", "numpy.stack"}
NUMBERED = re.compile(r"(?:^|/)\w+_#\.(?:hdf5|h5)$")


def look(execution: Execution) -> Iterator[Fact]:
    """The facts above, each once."""
    program = program_of(execution)
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
                if value is not None and isinstance(node, (ast.Call, ast.Compare)):
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
    room = counted(source, function, node) if isinstance(node, ast.Call) else None
    room = asked(source, function, node) if isinstance(node, ast.Compare) else room
    if room is None:
        return None
    first, *others = sorted(room.chunks, key=lambda one: isinstance(one, ast.Constant))
    also = [giving.of(source, one) for one in others]
    return {"chunk": giving.of(source, first), "also": also, "more": room.more, "windows": room.windows}
