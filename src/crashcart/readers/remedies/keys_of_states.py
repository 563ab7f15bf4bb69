"""Parts of a checkpoint that are saved under one name and looked for under another, so that a resume passes them over.

    torch.save({"model": ..., "optim": optimizer.state_dict()}, path)
    state = torch.load(path)
    if "optimizer" in state: optimizer.load_state_dict(state["optimizer"])         "optim"

Changed where it is looked for, so that files that were saved before can be read.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from crashcart.readers.code.edits import replaced
from crashcart.readers.code.source import FUNCTIONS, name_of
from crashcart.readers.remedies._scene import remedy

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.model import Fact
    from crashcart.readers.code.source import Source
    from crashcart.readers.remedies._scene import Scene

_CAUSES = ("silent/resume-state-lost", "silent/partial-load", "checkpoint/incompatible", "code/bug")
_SHORTEST = 3  # letters


def look(scene: Scene) -> Iterator[Fact]:
    """The one place that saves, and the one that loads."""
    saved = [keys for source in scene.sources for keys in _saved(source)]
    loads = [
        (source, function)
        for source in scene.sources
        for call in source.nodes(ast.Call)
        if source.called(call.func) == "torch.load" and (function := source.around(call, *FUNCTIONS)) is not None
    ]
    if len(saved) != 1 or len(loads) != 1:
        return
    source, function = loads[0]
    asked = [*_asked(function)]
    unasked = saved[0] - {str(node.value) for node in asked}
    names = {str(node.value): [key for key in unasked if _are_alike(key, str(node.value))] for node in asked}
    wrong = [node for node in asked if node.value not in saved[0] and len(names[str(node.value)]) == 1]
    if wrong:
        edits = [replaced(source, node, f'"{names[str(node.value)][0]}"') for node in wrong]
        said = ", ".join(f"{keys[0]!r} (looked for as {name!r})" for name, keys in names.items() if len(keys) == 1 and name not in saved[0])  # fmt: skip
        why = f"the checkpoint has {said}; files that were saved before can then be read too"
        yield from remedy(_CAUSES, "Look for the state under the names that it is saved under", "exact", why, edits, source.evidence(wrong[0]))  # fmt: skip


def _saved(source: Source) -> Iterator[set[str]]:
    """The keys of each dictionary that is saved."""
    for call in source.nodes(ast.Call):
        state: ast.expr | None = call.args[0] if source.called(call.func) == "torch.save" and call.args else None
        if isinstance(state, ast.Name):
            function = source.around(call, *FUNCTIONS) or source.tree
            made = [
                each.value
                for each in ast.walk(function)
                if isinstance(each, ast.Assign) and name_of(each.targets[0]) == state.id
            ]
            state = made[0] if len(made) == 1 else None
        if isinstance(state, ast.Dict) and all(isinstance(key, ast.Constant) for key in state.keys):
            yield {str(key.value) for key in state.keys if isinstance(key, ast.Constant)}


def _asked(function: ast.AST) -> Iterator[ast.Constant]:
    """The texts by which a function looks into what it loaded: as an index, in ``get`` or ``in``, or in a loop over names."""
    for node in ast.walk(function):
        found: list[ast.expr] = []
        if isinstance(node, ast.Subscript):
            found = [node.slice]
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in {"get", "pop"}:
            found = node.args[:1]
        elif isinstance(node, ast.Compare) and isinstance(node.ops[0], (ast.In, ast.NotIn)):
            found = [node.left]
        elif isinstance(node, ast.For) and isinstance(node.iter, (ast.Tuple, ast.List)):
            found = [part for each in node.iter.elts for part in (each.elts[:1] if isinstance(each, ast.Tuple) else [each])]
        yield from (each for each in found if isinstance(each, ast.Constant) and isinstance(each.value, str))


def _are_alike(key: str, name: str) -> bool:
    """``optim`` and ``optimizer``, ``model`` and ``model_state``."""
    short, long = sorted((key.lower(), name.lower()), key=len)
    return len(short) >= _SHORTEST and long.startswith(short) and key != name and key.isidentifier()
