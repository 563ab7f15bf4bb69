"""What a data set reads for one sample, and whether it survives a bad file.

root["/observations/images/top"][t]           one step of a table            code.sample_read
root["/action"][()]                           the whole of it
root["images"][camera][t]                     one step of a table whose name is put in later
image / 255, ToTensor()                       8-bit values become floats     code.widened
["left", "right"]                             names that may be put in       code.names_listed
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
    from crashcart.readers.code.source import Function, Source

ITEMS = ("__getitem__", "__iter__", "get_item", "sample", "get_sample", "load_episode", "parse_hdf5_file")
WHOLE = {"__getitem__", "__iter__"}
BYTE = 255
WIDEN = {"ToTensor", "to_tensor", "convert_image_dtype", "to_dtype"}
COMPREHENSIONS = (ast.DictComp, ast.ListComp, ast.GeneratorExp, ast.SetComp)


def look(program: Program) -> Iterator[Fact]:
    """The facts above, each once."""
    seen: set[ast.AST] = set()
    for source, owner in data_sets(program):
        items = followed(program, source, owner, *ITEMS)
        for at, function in items:
            for node in ast.walk(function):
                if isinstance(node, ast.Subscript) and node not in seen and (read := read_of(node) or _named_later(node)):
                    seen.add(node)
                    if read["form"] == "whole" and _goes_out(function, node):
                        read["form"] = "all"
                    yield at.fact("code.sample_read", {**read, "class": owner.name}, node)
                elif isinstance(node, (ast.BinOp, ast.Call)) and node not in seen and _widens(at, node):
                    seen.add(node)
                    yield at.fact("code.widened", {"class": owner.name}, node)
                elif isinstance(node, ast.Try) and node not in seen and _opens(node):
                    seen.add(node)
                    yield at.fact("code.reading_guarded", {"class": owner.name}, node)
    if seen:
        yield from _listed(program)


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


def _named_later(node: ast.Subscript) -> dict[str, str] | None:
    """``root["images"][camera][t]``: a part of a table below a group; whether there is a group, the file says."""
    inner = node.value
    if (
        not isinstance(inner, ast.Subscript)
        or not isinstance(inner.slice, ast.Name)
        or not isinstance(inner.value, ast.Subscript)
    ):
        return None
    if (group := key_of(inner.value)) is None or key_of(node) is not None:
        return None
    whole = isinstance(node.slice, ast.Slice) and node.slice.lower is None and node.slice.upper is None
    whole = whole or (isinstance(node.slice, ast.Tuple) and not node.slice.elts)
    form = "whole" if whole else "slice" if isinstance(node.slice, (ast.Slice, ast.Tuple)) else "step"
    return {"key": f"{group}/#", "form": form}


def _widens(source: Source, node: ast.BinOp | ast.Call) -> bool:
    """Whether 8-bit values are brought between 0 and 1."""
    if isinstance(node, ast.BinOp):
        return isinstance(node.op, ast.Div) and _is_byte(node.right)
    last = source.called(node.func).rpartition(".")[2] or (node.func.attr if isinstance(node.func, ast.Attribute) else "")
    return last in WIDEN or (last in {"div", "div_"} and bool(node.args) and _is_byte(node.args[0]))


def _is_byte(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value == BYTE


def _listed(program: Program) -> Iterator[Fact]:
    """Lists of names that the code itself holds."""
    for source in program.sources:
        nodes: list[ast.List | ast.Tuple] = [*source.nodes(ast.List), *source.nodes(ast.Tuple)]
        for node in nodes:
            names = [one.value for one in node.elts if isinstance(one, ast.Constant) and isinstance(one.value, str)]
            if names and len(names) == len(node.elts):
                yield source.fact("code.names_listed", names, node)


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
