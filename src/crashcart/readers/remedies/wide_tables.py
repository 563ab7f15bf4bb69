"""Data that are held in memory twice as wide as the network takes them: float64, and `.float()` for each sample.

self.table = np.load(path).astype(np.float64)       np.float32: half the memory in each worker
return torch.from_numpy(self.table[i]).float()
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from crashcart.readers.code.edits import replaced
from crashcart.readers.remedies._scene import remedy

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.model import Fact
    from crashcart.readers.remedies._scene import Scene

_WIDE = {"numpy.float64": "float32", "numpy.double": "float32", "torch.float64": "float32", "torch.double": "float32"}


def look(scene: Scene) -> Iterator[Fact]:
    """In the files of data sets whose samples are made float32 in the end."""
    for source in scene.sources:
        if not any(
            isinstance(each, ast.FunctionDef) and each.name == "__getitem__" for each in source.nodes(ast.FunctionDef)
        ):
            continue
        if not any(
            isinstance(node.func, ast.Attribute) and node.func.attr == "float" and not node.args
            for node in source.nodes(ast.Call)
        ):
            continue
        wide = [node for call in source.nodes(ast.Call) for node in _types(call) if source.called(node) in _WIDE]
        edits = [
            replaced(source, node, f"{source.written(node).rpartition('.')[0]}.{_WIDE[source.called(node)]}")
            for node in wide
        ]
        if edits:
            why = "half the memory in each process that holds it; each sample is made float32 in any case"
            yield from remedy(
                ("host-memory/oom-kill", "host-memory/leak", "host-memory/shm"),
                "Hold the data as float32",
                "changes-training",
                why,
                edits,
                source.evidence(wide[0]),
            )
            return


def _types(call: ast.Call) -> list[ast.expr]:
    """The type that a call gives its data: ``x.astype(np.float64)``, ``np.zeros(n, dtype=np.float64)``."""
    is_cast = isinstance(call.func, ast.Attribute) and call.func.attr in {"astype", "to"}
    given = [keyword.value for keyword in call.keywords if keyword.arg == "dtype"]
    given += call.args[:1] if is_cast else []
    return [node for node in given if isinstance(node, (ast.Attribute, ast.Name))]
