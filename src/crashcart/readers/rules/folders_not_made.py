"""Files written into a folder that nothing makes: the first save, hours into the run, finds no such folder.

The folder is the known beginning of the path that reaches ``torch.save``. It is made by a call with that folder, or with one below
it; where a call makes a folder whose path is not known, it may be this one.
"""

from __future__ import annotations

import ast
import os
import re
from typing import TYPE_CHECKING

from crashcart.model import Edit, Span
from crashcart.readers.code.edits import indent_of, missing_imports, own_lines
from crashcart.readers.interpreter.libraries.texts_and_paths import path_text
from crashcart.readers.interpreter.values import Constant, Result, constant_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.model import Fact
    from crashcart.readers.interpreter.execution import Execution
    from crashcart.readers.interpreter.trace import Call
    from crashcart.readers.interpreter.values import Value

# What writes a file, and where its path stands among the arguments.
_SAVES = {"torch.save": 1, "safetensors.torch.save_file": 1}
_WRITES = {**_SAVES, "open": 0, "numpy.save": 0, "numpy.savez": 0}
# Imports of libraries that make the folders of a run, or change into one.
_FRAMEWORKS = re.compile(
    r"(?m)^[ \t]{0,20}(?:import|from)[ \t]{1,20}(?:lightning|pytorch_lightning|mmengine|hydra|composer|accelerate|fairseq|detectron2|deepspeed)\b"
)
# Methods and functions that make a folder, by the last part of their names.
_MAKES = frozenset({
    "makedirs", "mkdir", "copytree", "SummaryWriter", "snapshot_download", "save_pretrained", "save_to_disk", "TrainingArguments",
    "mkdtemp", "TemporaryDirectory", "makedir", "mkdir_p", "mkpath", "ensure_dir", "run", "system", "call", "check_call", "Popen",
})  # fmt: skip


def look(execution: Execution) -> Iterator[Fact]:
    """``code.folder_not_made``: the folder, and whether a checkpoint goes there."""
    if execution.is_cut_short:
        return
    sources = [source for source in execution.interpreter.modules.sources.values() if source is not None]
    if any(_FRAMEWORKS.search(source.text) for source in sources):
        return
    made = [_folders(call) for call in execution.trace.methods(*_MAKES) if call.function is None]
    if any(folder is None for folders in made for folder in folders):
        return
    known = [os.path.normpath(folder) for folders in made for folder in folders if folder is not None]
    seen: set[int] = set()
    for call in execution.trace.named(*_WRITES):
        folder = _folder(call.argument(_WRITES[call.name]) or call.argument(None, "f")) if _is_written(call) else None
        if not folder or id(call.node) in seen or os.path.isdir(folder) or _is_made(os.path.normpath(folder), known):
            continue
        seen.add(id(call.node))
        yield call.fact("code.folder_not_made", {"folder": folder, "is_save": call.name in _SAVES, "edits": _edits(call)})


def _is_written(call: Call) -> bool:
    mode = constant_of(call.argument(1, "mode", Constant("r")))
    return call.name != "open" or (isinstance(mode, str) and mode[:1] in {"w", "x", "a"})


def _folders(call: Call) -> list[str | None]:
    """The folders that a call may make; None for one that is not known."""
    if call.receiver is not None and call.method == "mkdir":
        return [path_text(call.receiver)]
    values = [*call.arguments, *call.keywords.values()]
    return [path_text(value) for value in values if not isinstance(value, Constant) or isinstance(value.value, str)] or [
        None
    ]


def _folder(path: Value | None) -> str | None:
    """The folder of a path, as far as it is known; empty for the working folder."""
    text = path_text(path)
    if text is not None:
        return os.path.dirname(text)
    parts = path.data if isinstance(path, Result) and isinstance(path.data, list) else []
    known = ""
    for part in parts:
        piece = path_text(part)
        if piece is None:
            break
        known += piece + ("/" if isinstance(path, Result) and path.name == "pathlib.Path" else "")
    return os.path.dirname(known) if "/" in known else None


def _is_made(folder: str, known: list[str]) -> bool:
    return any(folder == each or each.startswith(folder + os.sep) for each in known)


def _edits(call: Call) -> tuple[Edit, ...]:
    node, source = call.node, call.source
    statement = source.around(node, ast.stmt)
    place = _WRITES[call.name]
    path = node.args[place] if isinstance(node, ast.Call) and len(node.args) > place else None
    if (
        path is None
        or not isinstance(statement, ast.stmt)
        or not own_lines(source, statement)
        or "\n" in source.written(path)
    ):
        return ()
    indent = indent_of(source, statement.lineno)
    start = source.offset(statement.lineno, 0)
    lines = [*missing_imports(source, "os"), f"os.makedirs(os.path.dirname({source.written(path)}), exist_ok=True)"]
    return (Edit(Span(source.path, start, start, statement.lineno), "".join(f"{indent}{line}\n" for line in lines)),)
