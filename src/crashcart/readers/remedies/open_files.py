"""Too many open files: archives that are kept open, tensors that workers hand over by descriptor.

self.archives[i] = np.load(path)        dict(np.load(path)) has the arrays, and the file is closed
received 0 items of ancdata             torch's other way to share tensors needs no descriptor for each
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from crashcart.readers.code.edits import line_after, replaced
from crashcart.readers.remedies._scene import remedy

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.model import Fact
    from crashcart.readers.code.source import Source
    from crashcart.readers.remedies._scene import Scene

_CAUSES = ("host-memory/fds",)
_SAID = ("Too many open files", "ancdata", "EMFILE")
_ADDING = frozenset({"append", "add", "insert", "setdefault"})


def look(scene: Scene) -> Iterator[Fact]:
    """The archives first, then how tensors are shared."""
    if not any(words in raised.words for raised in scene.raises for words in _SAID):
        return
    yield from _archives(scene)
    if any("ancdata" in raised.words for raised in scene.raises):
        yield from _shared_by_name(scene)


def _archives(scene: Scene) -> Iterator[Fact]:
    """`np.load` of an npz gives a file that stays open as long as somebody has it."""
    for source in scene.sources:
        opened = [call for call in source.nodes(ast.Call) if source.called(call.func) == "numpy.load" and _is_kept(call)]
        edits = [
            replaced(source, call, f"dict({source.written(call)})") for call in opened if ".npy" not in source.written(call)
        ]
        if edits and _is_archive(scene):
            why = "the arrays are the same; they stay in memory instead of an open file"
            yield from remedy(
                _CAUSES, "Read the arrays and close the archive", "exact", why, edits, source.evidence(opened[0])
            )


def _is_archive(scene: Scene) -> bool:
    """Whether the data are archives: only these stay open."""
    return any(".npz" in source.text for source in scene.sources)


def _is_kept(call: ast.Call) -> bool:
    """Whether what a call gives is put into an attribute or a container as it is."""
    above = getattr(call, "parent", None)
    if isinstance(above, ast.Assign):
        return any(isinstance(target, (ast.Attribute, ast.Subscript)) for target in above.targets)
    if isinstance(above, ast.Call) and isinstance(above.func, ast.Attribute):
        return above.func.attr in _ADDING and call in above.args
    return isinstance(above, (ast.ListComp, ast.DictComp)) and isinstance(getattr(above, "parent", None), ast.Assign)


def _shared_by_name(scene: Scene) -> Iterator[Fact]:
    source = next((source for source in scene.sources if source.path == scene.plan.program.entry), None)
    if source is None or any("set_sharing_strategy" in each.text for each in scene.sources):
        return
    imported = _import_of_torch(source)
    if imported is not None:
        edits = [line_after(source, imported, 'torch.multiprocessing.set_sharing_strategy("file_system")')]
        why = "workers share tensors by name in /dev/shm; files stay there if a process is killed"
        yield from remedy(
            _CAUSES, "Share tensors by name and not by descriptor", "exact", why, edits, source.evidence(imported)
        )


def _import_of_torch(source: Source) -> ast.Import | None:
    return next(
        (
            node
            for node in source.tree.body
            if isinstance(node, ast.Import)
            and any(each.name.split(".")[0] == "torch" and each.asname is None for each in node.names)
        ),
        None,
    )
