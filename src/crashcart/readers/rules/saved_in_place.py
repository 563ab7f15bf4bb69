"""Checkpoints written in place, under one name again and again: a job that is killed while it saves has lost the old and the new.

A file of its own for each step is no such thing, nor is one that is written beside and renamed, nor weights that nothing reads back.
"""

from __future__ import annotations

import ast
import os
from typing import TYPE_CHECKING

from crashcart.model import Edit
from crashcart.readers.code.edits import indent_of, missing_imports, own_lines
from crashcart.readers.code.source import keyword, name_of, parents
from crashcart.readers.rules._checkpoints import Saved, path_parts, saves_of, written_file
from crashcart.readers.rules._library import handed_to
from crashcart.readers.rules._statements import know_parents, statement_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.model import Fact
    from crashcart.readers.interpreter.execution import Execution
    from crashcart.readers.interpreter.trace import Call

_RENAMES = ("os.replace", "os.rename", "shutil.move", "pathlib.Path.replace", "pathlib.Path.rename")
_PURE_CALLS = frozenset({"join", "str", "Path", "format", "fspath"})


def look(execution: Execution) -> Iterator[Fact]:
    """``code.saved_in_place``: the write, and the place that reads the same file when the job goes on."""
    saves = saves_of(execution)
    seen: set[int] = set()
    for saved in saves:
        read = _read_before(execution, saved)
        is_only_copy = "optimizer" in saved.parts and not any(_is_other_copy(other, saved) for other in saves)
        if id(saved.call.node) in seen or not (read or is_only_copy) or not _is_overwritten(execution, saved, saves):
            continue
        seen.add(id(saved.call.node))
        know_parents([saved.call])
        everyone = not saved.call.region.ranks() and saved.call.region.is_certain()
        several = everyone and execution.ranks != 1
        edits = () if _uses_library(execution) else _edits(execution, saved.call, everyone=several)
        handed = _handed(saved.call) if not edits and not several else ()
        value = {
            "name": os.path.basename(saved.path[-1]) if saved.path else "",
            "read": read.evidence if read is not None else None,
            "everyone": everyone,
            "edits": edits or handed,
            "handed": bool(handed),
        }
        yield saved.call.fact("code.saved_in_place", value)


def _is_other_copy(other: Saved, saved: Saved) -> bool:
    """Whether another save may keep the state in another file."""
    return other.path != saved.path and ("optimizer" in other.parts or not other.parts)


def _is_overwritten(execution: Execution, saved: Saved, saves: list[Saved]) -> bool:
    """Whether the same file is written again and again, and not renamed afterwards."""
    if (
        saved.path is None
        or "{}" in saved.path
        or saved.changes
        or not saved.call.region.loops()
        or saved.call.region.kind == "handler"
    ):
        return False
    if any(other.call.node is saved.call.node and other.path != saved.path for other in saves):
        return False  # called with several names
    for call in execution.trace.named(*_RENAMES):
        source = call.receiver if call.name.startswith("pathlib.") else call.argument(0, "src")
        if call.number > saved.call.number and path_parts(source) == saved.path:
            return False
    return True


def _read_before(execution: Execution, saved: Saved) -> Call | None:
    """The load of the same file, before the first save."""
    for call in execution.trace.named("torch.load"):
        if call.number < saved.call.number and saved.path is not None and path_parts(written_file(call)) == saved.path:
            return call
    return None


def _uses_library(execution: Execution) -> bool:
    sources = [source for source in execution.interpreter.modules.sources.values() if source is not None]
    return any(name.startswith("crashcart.train") for source in sources for name in source.names.values())


def _handed(call: Call) -> tuple[Edit, ...]:
    """The call given to `save_atomic`, which takes the object and the path."""
    node = call.node
    is_plain = isinstance(node, ast.Call) and len(node.args) == 2 and not node.keywords  # noqa: PLR2004 - the object and the path
    return handed_to(call.source, node, "save_atomic") if is_plain and isinstance(node, ast.Call) else ()


def _edits(execution: Execution, call: Call, *, everyone: bool) -> tuple[Edit, ...]:
    """Written beside it and put in its place; with a name of its own for each process where all write."""
    node, source = call.node, call.source
    if not isinstance(node, ast.Call):
        return ()
    path, opening = _opened(keyword(node, "f", 1))
    statement = statement_of(node)
    whole = opening or statement
    is_plain = isinstance(statement, ast.Expr) and statement.value is node and own_lines(source, whole)
    if path is None or not is_plain or not _is_pure(execution, path) or "\n" in source.written(path):
        return ()
    text, indent = source.written(path), indent_of(source, whole.lineno)
    calls = [name_of(inner.func).split(".")[-1] for inner in ast.walk(path) if isinstance(inner, ast.Call)]
    is_text = isinstance(path, (ast.JoinedStr, ast.Constant)) or calls[:1] in (["join"], ["str"], ["format"])
    ending = 'f".{os.getpid()}.tmp"' if everyone else '".tmp"'
    if isinstance(path, ast.Name):
        beside = f'f"{{{text}}}.{{os.getpid()}}.tmp"' if everyone else f'f"{{{text}}}.tmp"'
    else:
        beside = f"{text} + {ending}" if is_text else f"str({text}) + {ending}"
    span, inner_span = source.span(whole), source.span(path)
    imports = "".join(f"{line}\n{indent}" for line in missing_imports(source, "os"))
    new = imports + source.text[span.start : inner_span.start] + beside + source.text[inner_span.end : span.end]
    return (Edit(span, f"{new}\n{indent}os.replace({beside}, {text})"),)


def _opened(node: ast.expr | None) -> tuple[ast.expr | None, ast.With | None]:
    """The path behind a file that a ``with`` opens, and the ``with``, where it opens nothing else; anything else as it is."""
    if not isinstance(node, ast.Name):
        return node, None
    for above in parents(node):
        for item in above.items if isinstance(above, ast.With) else ():
            opens = item.context_expr
            if isinstance(opens, ast.Call) and item.optional_vars is not None and name_of(item.optional_vars) == node.id:
                is_open = (
                    name_of(opens.func) == "open"
                    and bool(opens.args)
                    and isinstance(above, ast.With)
                    and len(above.items) == 1
                )
                return (opens.args[0], above) if is_open and isinstance(above, ast.With) else (None, None)
    return node, None


def _is_pure(execution: Execution, path: ast.expr) -> bool:
    """Whether a path can be written twice: only names are put together, also by a function that does nothing else."""
    for inner in ast.walk(path):
        if not isinstance(inner, ast.Call) or name_of(inner.func).split(".")[-1] in _PURE_CALLS:
            continue
        functions = [call.function for call in execution.trace.calls if call.node is inner and call.function is not None]
        if not functions or not all(
            isinstance(statement, ast.Return)
            for function in functions
            for statement in ([] if isinstance(function.node, ast.Lambda) else function.node.body)
        ):
            return False
    return True
