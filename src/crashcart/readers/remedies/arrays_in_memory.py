"""Arrays that each process holds whole, where the file would do, or half of the width.

    self.table = np.load("table.npy")                   mmap_mode="r": the pages of the file, which all processes share
    raw = np.load(path)
    self.table = raw.astype(np.float64)                 np.float32, where each sample is made float32 in the end
    return torch.from_numpy(self.table[i]).float()

An array that the program writes into is not mapped.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from crashcart.readers.code.edits import replaced
from crashcart.readers.remedies._scene import remedy
from crashcart.readers.remedies.unanswered_waits import with_argument

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.model import Edit, Fact
    from crashcart.readers.code.source import Source
    from crashcart.readers.remedies._scene import Scene

_NARROW = {
    "numpy.float64": "float32",
    "numpy.double": "float32",
    "torch.float64": "float32",
    "torch.double": "float32",
}
_CAUSES = ("host-memory/oom-kill", "host-memory/shm")


def look(scene: Scene) -> Iterator[Fact]:
    """In the files of data sets."""
    for source in scene.sources:
        if not any(each.name == "__getitem__" for each in source.nodes(ast.FunctionDef)):
            continue
        mapped = list(_mapped(source))
        wide = list(_wide(source)) if _ends_narrow(source) else []
        edits = [*(edit for edit, _ in mapped), *(edit for edit, _ in wide)]
        if not edits:
            continue
        title = "Store the data as float32" if wide else "Memory-map the array instead of reading it all"
        why = (
            "half the memory in each process; each sample is converted to float32 anyway"
            if wide
            else "the values are the same"
        )
        why += (
            "; all processes share the pages of a mapped file, and the kernel frees them when memory is short"
            if mapped
            else ""
        )
        seen = source.evidence((wide or mapped)[0][1])
        yield from remedy(_CAUSES, title, "changes-training" if wide else "exact", why, edits, seen)
        return


def _mapped(source: Source) -> Iterator[tuple[Edit, ast.expr]]:
    """Loads of whole arrays that nothing writes into."""
    for assign in source.nodes(ast.Assign):
        call = assign.value
        if (
            not isinstance(call, ast.Call)
            or source.called(call.func) != "numpy.load"
            or len(call.args) != 1
            or call.keywords
        ):
            continue
        if ".npy" not in source.written(call) or len(assign.targets) != 1:
            continue
        target = assign.targets[0]
        is_plain = isinstance(target, (ast.Name, ast.Attribute))
        if is_plain and not _is_changed(source, ast.unparse(target), assign):
            yield with_argument(source, call, 'mmap_mode="r"'), call


def _is_changed(source: Source, name: str, assign: ast.Assign) -> bool:
    """Whether anything writes into an array, or hands it on under another name."""
    writes: list[ast.Assign | ast.AugAssign] = [*source.nodes(ast.AugAssign), *source.nodes(ast.Assign)]
    for node in writes:
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        owners = {ast.unparse(target.value if isinstance(target, ast.Subscript) else target) for target in targets}
        if node is not assign and (name in owners or ast.unparse(node.value) == name):
            return True
    in_place = {"sort", "fill", "resize", "partition", "itemset", "put"}
    return any(
        isinstance(call.func, ast.Attribute) and call.func.attr in in_place and ast.unparse(call.func.value) == name
        for call in source.nodes(ast.Call)
    )


def _ends_narrow(source: Source) -> bool:
    """Whether samples are made float32 in the end."""
    return any(
        isinstance(node.func, ast.Attribute) and node.func.attr == "float" and not node.args
        for node in source.nodes(ast.Call)
    )


def _wide(source: Source) -> Iterator[tuple[Edit, ast.expr]]:
    for call in source.nodes(ast.Call):
        for node in _types(call):
            if source.called(node) in _NARROW:
                yield (
                    replaced(source, node, f"{source.written(node).rpartition('.')[0]}.{_NARROW[source.called(node)]}"),
                    node,
                )


def _types(call: ast.Call) -> list[ast.expr]:
    """The type that a call gives its data: ``x.astype(np.float64)``, ``np.zeros(n, dtype=np.float64)``."""
    is_cast = isinstance(call.func, ast.Attribute) and call.func.attr in {"astype", "to"}
    given = [keyword.value for keyword in call.keywords if keyword.arg == "dtype"]
    given += call.args[:1] if is_cast else []
    return [node for node in given if isinstance(node, (ast.Attribute, ast.Name))]
