"""Checkpoints written into a folder that nobody makes: the first save, hours into the run, finds no such folder."""

from __future__ import annotations

import ast
import os
import re
from typing import TYPE_CHECKING

from crashcart.model import Edit, Span
from crashcart.readers.code._blocks import indent_of, missing_imports, own_lines
from crashcart.readers.code._callers import callers_of, function_of, statement_of
from crashcart.readers.code._paths import given_to
from crashcart.readers.code.source import keyword, name_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.model import Fact
    from crashcart.readers.code.program import Program
    from crashcart.readers.code.source import Source

MAKES = re.compile(
    r"make_?dirs?|mkdir|(?:create|ensure|check|prepare|setup|init|get)_\w{0,60}(?:dir|folder|path|output)s?\b|copytree|SummaryWriter|snapshot_download"
    r"|save_pretrained|save_to_disk|TrainingArguments"
)
FRAMEWORKS = (
    "lightning",
    "pytorch_lightning",
    "mmengine",
    "hydra",
    "composer",
    "accelerate",
    "tensorboardX",
    "fairseq",
    "detectron2",
)


def look(program: Program) -> Iterator[Fact]:
    """``code.folder_not_made``: the save, and the folder as it is written."""
    if program.imports(*FRAMEWORKS) or any(MAKES.search(source.text) for source in program.sources):
        return
    callers = callers_of(program)
    for source in program.sources:
        for call in source.calls("torch.save"):
            path = keyword(call, "f", 1)
            folder = _folder(source, call, path) if path is not None else None
            if path is None or folder is None or _is_there(folder) or _is_temporary(source, call, folder):
                continue
            value = {
                "folder": ast.unparse(folder),
                "sure": callers.certain(source, call),
                "edits": _edits(source, call, path),
            }
            yield source.fact("code.folder_not_made", value, call)


def _folder(source: Source, call: ast.Call, path: ast.expr) -> ast.expr | None:
    """The folder of a path as the code writes it: the first part of a join, or what stands before a slash."""
    if isinstance(path, ast.Name):
        given = given_to(source, path.id, function_of(call))
        return _folder(source, call, given[0]) if len(given) == 1 and not isinstance(given[0], ast.Name) else None
    if isinstance(path, ast.Call) and name_of(path.func).split(".")[-1] == "join" and len(path.args) > 1:
        return path.args[0]
    if isinstance(path, ast.BinOp) and isinstance(path.op, ast.Div):
        return path.left
    if isinstance(path, ast.Constant) and "/" in str(path.value).lstrip("./"):
        return ast.Constant(value=str(path.value).rsplit("/", 1)[0])
    if isinstance(path, ast.JoinedStr) and path.values:
        first = path.values[0]
        texts = [one.value for one in path.values if isinstance(one, ast.Constant) and isinstance(one.value, str)]
        if isinstance(first, ast.FormattedValue) and texts and texts[0].startswith("/"):
            return first.value
        if isinstance(first, ast.Constant) and isinstance(first.value, str) and "/" in first.value:
            return ast.Constant(value=first.value.rsplit("/", 1)[0])
    return None


def _is_there(folder: ast.expr) -> bool:
    return isinstance(folder, ast.Constant) and os.path.isdir(str(folder.value) or ".")


def _is_temporary(source: Source, call: ast.Call, folder: ast.expr) -> bool:
    """A folder that ``tempfile`` has made: ``with TemporaryDirectory() as folder``, ``folder = mkdtemp()``."""
    name = name_of(folder).split(".")[0]
    held = [
        item.context_expr
        for block in source.nodes(ast.With)
        for item in block.items
        if item.optional_vars is not None and name_of(item.optional_vars) == name
    ]
    given = [*held, *given_to(source, name, function_of(call))] if name else []
    return any(re.search(r"(?i)temp_?file|temporary_?dir|mkdtemp|temp_?dir", ast.unparse(one)) for one in given)


def _edits(source: Source, call: ast.Call, path: ast.expr) -> tuple[Edit, ...]:
    statement = statement_of(call)
    if not own_lines(source, statement) or "\n" in source.written(path) or (isinstance(path, ast.Call) and not path.args):
        return ()
    indent = indent_of(source, statement.lineno)
    at = source.offset(statement.lineno, 0)
    lines = [*missing_imports(source, "os"), f"os.makedirs(os.path.dirname({source.written(path)}), exist_ok=True)"]
    return (Edit(Span(source.path, at, at, statement.lineno), "".join(f"{indent}{line}\n" for line in lines)),)
