"""What a data set reads for one sample, whether it survives a bad file, and which items it leaves out without a word.

root["/observations/images/top"][t]           one step of a table            code.sample_read
root["/action"][()]                           the whole of it
try: ... except OSError: ...                  a bad file is got over         code.reading_guarded
for t in range(max(0, n - chunk + 1))         nothing of a short episode     code.short_left_out
if n < chunk: continue                        the same
"""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING, Any

from crashcart.readers.code._given import Giving
from crashcart.readers.code._sample_code import data_sets, followed
from crashcart.readers.code.source import name_of, parent, parents

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.model import Fact
    from crashcart.readers.code.program import Program
    from crashcart.readers.code.source import Function, Source

ITEMS = ("__getitem__", "__iter__", "get_item", "sample", "get_sample", "load_episode", "parse_hdf5_file")
WHOLE = {"__getitem__", "__iter__"}
COMPREHENSIONS = (ast.DictComp, ast.ListComp, ast.GeneratorExp, ast.SetComp)
CHUNK = re.compile(r"(?i)chunk|horizon|window|seq|context|clip|block|length|len|steps|frames")
LENGTH = re.compile(r"(?i)len|num|steps|size|count|horizon|frames|shape|(?:^|_)[ntl]$")


def look(program: Program) -> Iterator[Fact]:
    """The three facts above, each once."""
    giving = Giving(program)
    seen: set[ast.AST] = set()
    for source, owner in data_sets(program):
        items = followed(program, source, owner, *ITEMS)
        for at, function in items:
            for node in ast.walk(function):
                if isinstance(node, ast.Subscript) and node not in seen and (read := _read(node)):
                    seen.add(node)
                    if read["form"] == "whole" and _goes_out(function, node):
                        read["form"] = "all"
                    yield at.fact("code.sample_read", {**read, "class": owner.name}, node)
                elif isinstance(node, ast.Try) and node not in seen and _opens(node):
                    seen.add(node)
                    yield at.fact("code.reading_guarded", {"class": owner.name}, node)
    for source in program.sources:
        if "h5py" not in source.text and "episode" not in source.text.lower():
            continue
        for function in source.nodes(ast.FunctionDef):
            for node in ast.walk(function):
                value = None if node in seen else _left_out(giving, source, function, node)
                if value is not None and isinstance(node, (ast.Call, ast.If)):
                    seen.add(node)
                    yield source.fact("code.short_left_out", value, node)


def _read(node: ast.Subscript) -> dict[str, str] | None:
    """A table of a file by its name, and how much of it is taken."""
    inner = node.value
    if not isinstance(inner, ast.Subscript) or (isinstance(parent(node), ast.Subscript) and key_of(node) is not None):
        return None
    key, form = key_of(inner), node.slice
    if key is None or key_of(node) is not None:
        return None
    if isinstance(form, ast.Slice):
        return {"key": key, "form": "whole" if form.lower is None and form.upper is None else "slice"}
    if isinstance(form, ast.Tuple):
        return {"key": key, "form": "slice" if form.elts else "whole"}
    if isinstance(form, ast.Constant) and form.value is Ellipsis:
        return {"key": key, "form": "whole"}
    return {"key": key, "form": "step"}


def _goes_out(function: Function, node: ast.Subscript) -> bool:
    """Whether the whole of what is read becomes the sample: it has a name of its own, and nothing is cut out of that."""
    if function.name not in WHOLE or any(isinstance(one, COMPREHENSIONS) for one in parents(node)):
        return False
    statement = next(one for one in parents(node) if isinstance(one, ast.stmt))
    if isinstance(statement, ast.Return):
        return not any(isinstance(one, ast.Subscript) for one in parents(node))
    if not isinstance(statement, ast.Assign) or not isinstance(statement.targets[0], ast.Name):
        return False
    name = statement.targets[0].id
    return not any(isinstance(one, ast.Subscript) and name_of(one.value).split(".")[0] == name for one in ast.walk(function))


def key_of(node: ast.Subscript) -> str | None:
    """The name of a table; ``#`` for what is put in when it runs."""
    at = node.slice
    if isinstance(at, ast.Constant) and isinstance(at.value, str):
        return at.value
    if isinstance(at, ast.JoinedStr):
        return "".join(str(one.value) if isinstance(one, ast.Constant) else "#" for one in at.values)
    return None


def _opens(node: ast.Try) -> bool:
    return any(isinstance(one, (ast.Call, ast.With, ast.Subscript)) for part in node.body for one in ast.walk(part))


def _left_out(giving: Giving, source: Source, function: Function, node: ast.AST) -> dict[str, Any] | None:
    """A range that is empty, or a test that goes on, for what is shorter than a chunk."""
    if isinstance(node, ast.Call) and (end := _end(node)) is not None:
        more = 0
        if isinstance(end, ast.BinOp) and isinstance(end.op, ast.Add) and isinstance(end.right, ast.Constant):
            more, end = int(end.right.value) if isinstance(end.right.value, int) else 0, end.left
        if isinstance(end, ast.BinOp) and isinstance(end.op, ast.Sub) and CHUNK.search(source.written(end.right)):
            return _known(giving.of(source, end.right), more) if _is_length(source, function, end.left) else None
    if isinstance(node, ast.If) and isinstance(node.test, ast.Compare) and len(node.test.ops) == 1:
        leaves = node.body[-1]
        if not isinstance(leaves, (ast.Continue, ast.Return)) or not isinstance(node.test.ops[0], (ast.Lt, ast.LtE)):
            return None
        wanted = node.test.comparators[0]
        plain = isinstance(wanted, ast.Constant) and isinstance(wanted.value, int) and wanted.value > 1
        if (plain or CHUNK.search(source.written(wanted))) and _is_length(source, function, node.test.left):
            return _known(giving.of(source, wanted), 1 - isinstance(node.test.ops[0], ast.LtE))
    return None


def _end(node: ast.Call) -> ast.expr | None:
    """The end of a range, or a number of samples that is put into a list; ``max(0, ...)`` around it is taken off."""
    name = name_of(node.func).rpartition(".")[2]
    if name in {"range", "arange"} and node.args:
        end = node.args[min(1, len(node.args) - 1)]
        if isinstance(end, ast.Call) and name_of(end.func) == "max" and len(end.args) > 1:
            return next((one for one in end.args if not isinstance(one, ast.Constant)), None)
        return end
    counted = name == "max" and any(isinstance(one, ast.Constant) and one.value == 0 for one in node.args)
    above = parent(node)
    listed = isinstance(above, ast.Call) and name_of(above.func).endswith(".append")
    if counted and (listed or isinstance(above, (ast.ListComp, ast.GeneratorExp))):
        return next((one for one in node.args if not isinstance(one, ast.Constant)), None)
    return None


def _known(given: dict[str, Any], more: int) -> dict[str, Any]:
    return {"chunk": given, "more": more}


def _is_length(source: Source, function: Function, node: ast.expr) -> bool:
    """Whether an expression is the length of something that was read."""
    if isinstance(node, ast.Call):
        return name_of(node.func) == "len" and bool(node.args)
    if "shape" in name_of(node):
        return True
    if not isinstance(node, ast.Name) or not LENGTH.search(node.id):
        return False
    given = [
        one.value
        for one in ast.walk(function)
        if isinstance(one, ast.Assign) and any(name_of(target) == node.id for target in one.targets)
    ]
    return not given or any("shape" in source.written(one) or "len(" in source.written(one) for one in given)
