"""Names that a module of the program sets once, at its own level, and that another one imports.

from settings import LOADER              or   import settings ... settings.LOADER
DataLoader(data, **LOADER)
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from crashcart.readers.code._callers import function_of
from crashcart.readers.code.source import name_of

if TYPE_CHECKING:
    from crashcart.readers.code.program import Program
    from crashcart.readers.code.source import Source

__all__ = ["constant"]


def constant(program: Program, source: Source, node: ast.expr) -> tuple[Source, ast.expr] | None:
    """Where an imported name is set, and to what; None where that is not one thing."""
    if not isinstance(node, (ast.Name, ast.Attribute)) or name_of(node).split(".")[0] not in source.names:
        return None
    *module, name = source.called(node).strip(".").split(".")
    homes = [one for one in program.sources if module and _is_module(one, module)]
    if len(homes) != 1 or homes[0] is source:
        return None
    given = [
        one.value
        for one in homes[0].nodes(ast.Assign)
        if function_of(one) is None and any(name_of(target) == name for target in one.targets)
    ]
    return (homes[0], given[0]) if len(given) == 1 else None


def _is_module(source: Source, module: list[str]) -> bool:
    path = source.path.replace("\\", "/").removesuffix(".py").removesuffix("/__init__").split("/")
    return path[-len(module) :] == module
