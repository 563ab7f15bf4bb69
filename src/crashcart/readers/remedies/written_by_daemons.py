"""A file that a daemon thread writes: the end of the program cuts it off.

    threading.Thread(target=write, args=(state, path), daemon=True).start()

The interpreter does not wait for daemon threads. One that is none is waited for, and the file is whole.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from crashcart.readers.code.edits import replaced
from crashcart.readers.code.source import keyword
from crashcart.readers.remedies._scene import remedy

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.model import Fact
    from crashcart.readers.code.source import Source
    from crashcart.readers.remedies._scene import Scene

_WRITING = frozenset(
    {
        "write",
        "save",
        "dump",
        "savez",
        "savez_compressed",
        "copyfileobj",
        "copyfile",
        "copy",
        "copy2",
        "write_bytes",
        "save_file",
    }
)
_ITEMS = frozenset({"get", "wait", "recv"})


def look(scene: Scene) -> Iterator[Fact]:
    """Threads that write one file and end."""
    edits, places = [], []
    for source in scene.sources:
        for call in source.nodes(ast.Call):
            daemon = keyword(call, "daemon")
            is_daemon = isinstance(daemon, ast.Constant) and daemon.value is True
            if (
                source.called(call.func) == "threading.Thread"
                and daemon is not None
                and is_daemon
                and _writes_and_ends(source, call)
            ):
                edits.append(replaced(source, daemon, "False"))
                places.append(source.evidence(call))
    if edits:
        why = "the interpreter then waits for it at exit; delete a file that is already truncated, or use an older one"
        title = "Make the program wait for the thread that writes the file"
        yield from remedy(
            ("checkpoint/corrupt", "data/corrupt-or-missing", "checkpoint/save-failed"),
            title,
            "exact",
            why,
            edits,
            places[0],
        )


def _writes_and_ends(source: Source, call: ast.Call) -> bool:
    """Whether the function of a thread writes, and does not wait for more: such a thread would never end."""
    target = keyword(call, "target", 1)
    name = target.attr if isinstance(target, ast.Attribute) else target.id if isinstance(target, ast.Name) else ""
    functions = [node for node in source.nodes(ast.FunctionDef) if node.name == name]
    if len(functions) != 1:
        return (
            source.called(target).endswith(("torch.save", "shutil.copyfile", "shutil.copy")) if target is not None else False
        )
    called = {
        node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        for node in ast.walk(functions[0])
        if isinstance(node, ast.Call)
    }
    endless = any(isinstance(node, ast.While) and isinstance(node.test, ast.Constant) for node in ast.walk(functions[0]))
    return bool(called & _WRITING) and not endless and not called & _ITEMS
