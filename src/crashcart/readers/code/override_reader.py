"""What the program makes of ``--set optim.lr=1e-4``: the text as it stands, what PyYAML makes of it, or something of its own.

Seen where a text is cut at its ``=`` (``key, _, raw = word.partition("=")``) and in what is done with its second part there.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from crashcart.readers.code.source import FUNCTIONS, inside, parent

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.model import Fact
    from crashcart.readers.code.program import Program
    from crashcart.readers.code.source import Source

CUTS = {"partition", "rpartition", "split"}
PYYAML = ("yaml.safe_load", "yaml.load", "yaml.full_load")


def look(program: Program) -> Iterator[Fact]:
    """``code.override_reader``: ``pyyaml``, ``text`` or ``other``."""
    for source in program.sources:
        for call in source.calls(*CUTS):
            if not call.args or not isinstance(call.args[0], ast.Constant) or call.args[0].value != "=":
                continue
            raw = _second(call)
            if raw is not None:
                scope = inside(call, *FUNCTIONS) or source.tree
                yield source.fact("code.override_reader", _read(source, scope, raw), call)


def _second(call: ast.Call) -> str | None:
    """The name of what stands after the ``=``."""
    above = parent(call)
    target = above.targets[0] if isinstance(above, ast.Assign) else getattr(above, "target", None)
    last = target.elts[-1] if isinstance(target, (ast.Tuple, ast.List)) and target.elts[1:] else None
    return last.id if isinstance(last, ast.Name) else None


def _read(source: Source, scope: ast.AST, raw: str) -> str:
    """How the part after the ``=`` is read: by PyYAML alone, kept as it is, or otherwise."""
    kinds: set[str] = set()
    for node in ast.walk(scope):
        if not isinstance(node, ast.Name) or node.id != raw or not isinstance(node.ctx, ast.Load):
            continue
        above = parent(node)
        if isinstance(above, ast.Call) and node in above.args:
            kinds.add("pyyaml" if source.called(above.func) in PYYAML and len(above.args) == 1 else "other")
        elif isinstance(above, ast.Assign) and above.value is node and isinstance(above.targets[0], ast.Subscript):
            kinds.add("text")
        else:
            kinds.add("other")
    return kinds.pop() if len(kinds) == 1 else "other"
