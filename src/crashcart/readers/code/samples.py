"""What a data set reads for one sample, and whether it survives a bad file.

root["/observations/images/top"][t]           one step of a table            code.sample_read
root["/action"][()]                           the whole of it
try: ... except OSError: ...                  a bad file is got over         code.reading_guarded
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from crashcart.readers.code._sample_code import data_sets, followed
from crashcart.readers.code.source import name_of, parent, parents

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.model import Fact
    from crashcart.readers.code.program import Program
    from crashcart.readers.code.source import Function

ITEMS = ("__getitem__", "__iter__", "get_item", "sample", "get_sample", "load_episode", "parse_hdf5_file")
WHOLE = {"__getitem__", "__iter__"}
COMPREHENSIONS = (ast.DictComp, ast.ListComp, ast.GeneratorExp, ast.SetComp)


def look(program: Program) -> Iterator[Fact]:
    """The facts above, each once."""
    seen: set[ast.AST] = set()
    for source, owner in data_sets(program):
        items = followed(program, source, owner, *ITEMS)
        for at, function in items:
            for node in ast.walk(function):
                if isinstance(node, ast.Subscript) and node not in seen and (read := read_of(node)):
                    seen.add(node)
                    if read["form"] == "whole" and _goes_out(function, node):
                        read["form"] = "all"
                    yield at.fact("code.sample_read", {**read, "class": owner.name}, node)
                elif isinstance(node, ast.Try) and node not in seen and _opens(node):
                    seen.add(node)
                    yield at.fact("code.reading_guarded", {"class": owner.name}, node)


def read_of(node: ast.Subscript) -> dict[str, str] | None:
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
