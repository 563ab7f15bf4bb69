"""Settings that the program takes from its environment, where they are numbers.

    accumulate: int = field(default_factory=lambda: int(os.environ.get("GRAD_ACCUM", "1")))
    parser.add_argument("--batch_size", default=int(os.getenv("BATCH", 8)))
    ACCUM = int(os.environ["ACCUM"])

What the launch sets is known there; here only which variable feeds which setting, and what it is where nobody sets it.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any

from crashcart.names import is_secret
from crashcart.readers.code._environment import GETTERS
from crashcart.readers.code.source import keyword, name_of, parents

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.model import Fact
    from crashcart.readers.code.program import Program
    from crashcart.readers.code.source import Source

NUMBERS: dict[str, Any] = {"int": int, "float": float}


def look(program: Program) -> Iterator[Fact]:
    """``code.from_environment``: the variable, the name under which the program keeps it, and its default."""
    for source in program.sources:
        for call in source.calls(*GETTERS):
            if call.args:
                yield from _told(source, call, call.args[0], keyword(call, "default", 1))
        for node in source.nodes(ast.Subscript):
            if source.called(node.value) in {"os.environ", "environ"} and isinstance(node.ctx, ast.Load):
                yield from _told(source, node, node.slice, None)


def _told(source: Source, node: ast.expr, variable: ast.expr, default: ast.expr | None) -> Iterator[Fact]:
    if not isinstance(variable, ast.Constant) or not isinstance(variable.value, str) or is_secret(variable.value):
        return
    kind, kept = _kept(node)
    if kind is None:
        return
    given = default.value if isinstance(default, ast.Constant) else None
    try:
        number = NUMBERS[kind](given) if given is not None else None
    except (TypeError, ValueError):
        number = None
    yield source.fact("code.from_environment", {"variable": variable.value, "key": kept, "default": number}, node)


def _kept(node: ast.expr) -> tuple[str | None, str]:
    """The type that a value is converted to, and what it is kept as: a field, a flag, a name, a key."""
    kind, at = None, node
    for above in parents(node):
        if isinstance(above, ast.Call) and name_of(above.func) in NUMBERS and above.args == [at]:
            kind = name_of(above.func)
        elif isinstance(above, ast.Call) and name_of(above.func).endswith("add_argument"):
            flags = [one.value for one in above.args if isinstance(one, ast.Constant) and isinstance(one.value, str)]
            typed = keyword(above, "type")
            kind = kind or (name_of(typed) if typed is not None and name_of(typed) in NUMBERS else None)
            return kind, next((flag for flag in flags if flag.startswith("--")), "")
        elif isinstance(above, ast.Dict):
            keys = [key.value for key, value in zip(above.keys, above.values, strict=True)
                    if value is at and isinstance(key, ast.Constant)]  # fmt: skip
            return kind, str(keys[0]) if keys else ""
        elif isinstance(above, ast.keyword):
            if above.arg not in {"default_factory", "default"}:
                return kind, above.arg or ""
        elif isinstance(above, (ast.Assign, ast.AnnAssign)):
            target = above.targets[0] if isinstance(above, ast.Assign) else above.target
            return kind, name_of(target).rpartition(".")[2]
        elif isinstance(above, ast.stmt):
            return kind, ""
        at = above if isinstance(above, ast.expr) else at
    return kind, ""
