"""A file that the end of the program cuts off: a daemon thread writes it, or nobody closes it.

    threading.Thread(target=write, args=(state, path), daemon=True).start()        daemon=False
    self.stream = open(path, "wb")
    for piece in pieces: self.stream.write(piece)                                  self.stream.close() behind it

The interpreter does not wait for daemon threads. What was written to an open file may still be in its buffer when the program ends, by
``os._exit`` or a signal for sure.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from crashcart.readers.code.edits import line_after, own_lines, replaced
from crashcart.readers.code.source import FUNCTIONS, keyword, name_of
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
_CAUSES = ("checkpoint/corrupt", "data/corrupt-or-missing", "checkpoint/save-failed")
_ITEMS = frozenset({"get", "wait", "recv"})


def look(scene: Scene) -> Iterator[Fact]:
    """Files that are not closed, and threads that write one file and end."""
    for source in scene.sources:
        yield from _never_closed(source)
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
        yield from remedy(_CAUSES, title, "exact", why, edits, places[0])


def _never_closed(source: Source) -> Iterator[Fact]:
    """A file that is opened for writing by a name, written in the same function, and closed nowhere."""
    for assign in source.nodes(ast.Assign):
        call, name, function = assign.value, name_of(assign.targets[0]), source.around(assign, *FUNCTIONS)
        mode = keyword(call, "mode", 1) if isinstance(call, ast.Call) and source.called(call.func) == "open" else None
        is_written = isinstance(mode, ast.Constant) and str(mode.value) in {"wb", "xb", "wb+"}
        if (
            not is_written
            or not name
            or function is None
            or f"{name}.close(" in source.text
            or f"{name}.flush(" in source.text
        ):
            continue
        block = getattr(getattr(assign, "parent", None), "body", [])
        uses = [each for each in block if any(name_of(node) == f"{name}.write" for node in ast.walk(each))]
        if uses and own_lines(source, uses[-1]):
            why = "what is still in its buffer is lost if the program ends by os._exit or a signal"
            edits = [line_after(source, uses[-1], f"{name}.close()")]
            yield from remedy(_CAUSES, "Close the file when it is written", "exact", why, edits, source.evidence(assign))


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
