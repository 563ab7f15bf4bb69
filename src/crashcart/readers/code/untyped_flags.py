"""Numbers that come from outside as text: flags that are declared without a type, and variables of the environment.

``parser.add_argument("--lr", default=1e-3)`` gives the number 0.001 where nobody says otherwise, and the text ``3e-4`` for
``--lr 3e-4``. ``os.environ["LR"]`` is always text.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from crashcart.model import Edit, Span
from crashcart.readers.code._environment import GETTERS
from crashcart.readers.code._optimizers import spread_names
from crashcart.readers.code._settings import readings_of
from crashcart.readers.code.setting_use import numbers_in
from crashcart.readers.code.source import keyword, name_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.model import Fact
    from crashcart.readers.code._settings import Reading
    from crashcart.readers.code.program import Program
    from crashcart.readers.code.source import Source

TYPED = {"type", "action", "nargs", "choices"}


def look(program: Program) -> Iterator[Fact]:
    """``code.untyped_flag``: its names, key, default, the variable that the default is, and the edit that gives it a type.

    ``code.environment_number``: the variable, its default, what needs a number, and the edit that makes one.
    """
    spread = spread_names(program)
    for reading in readings_of(program):
        source = reading.source
        for call in source.calls("add_argument"):
            names = [one.value for one in call.args if isinstance(one, ast.Constant) and isinstance(one.value, str)]
            if (
                names
                and len(names) == len(call.args)
                and not any(one.arg in TYPED or one.arg is None for one in call.keywords)
            ):
                yield _flag(reading, call, names)
        for value, how, _ in numbers_in(source, spread):
            made = _from_environment(reading, value)
            if made is not None:
                variable, default = made
                told = {"name": variable, "default": default, "how": how, "edits": _as_float(source, value)}
                yield source.fact("code.environment_number", told, value)


def _flag(reading: Reading, call: ast.Call, names: list[str]) -> Fact:
    source = reading.source
    default, dest = keyword(call, "default"), keyword(call, "dest")
    flag = next((name for name in names if name.startswith("--")), names[0])
    key = (
        dest.value if isinstance(dest, ast.Constant) and isinstance(dest.value, str) else flag.lstrip("-").replace("-", "_")
    )
    value = default.value if isinstance(default, ast.Constant) else None
    kind = "int" if isinstance(value, int) and not isinstance(value, bool) else "float"
    span = source.span(call.args[-1])
    edits = (Edit(Span(source.path, span.end, span.end, span.line), f", type={kind}"),)
    made = _from_environment(reading, default) if default is not None else None
    told = {"names": names, "key": key, "default": value, "variable": made[0] if made else "", "edits": edits}
    return source.fact("code.untyped_flag", told, call)


def _from_environment(reading: Reading, node: ast.expr) -> tuple[str, object] | None:
    """The variable of the environment that an expression is, and what it is where that is not set; ``...`` for an error."""
    if isinstance(node, ast.Name):
        values = reading.values.get(reading.place(node), [])
        return _from_environment(reading, values[0]) if len(values) == 1 and not isinstance(values[0], ast.Name) else None
    if isinstance(node, ast.Subscript) and reading.source.called(node.value) in {"os.environ", "environ"}:
        name = node.slice
        return (name.value, ...) if isinstance(name, ast.Constant) and isinstance(name.value, str) else None
    if isinstance(node, ast.Subscript) and reading.source.called(node.value) == "sys.argv":
        at = node.slice
        return (f"sys.argv[{at.value}]", ...) if isinstance(at, ast.Constant) and isinstance(at.value, int) else None
    if isinstance(node, ast.Call) and reading.source.called(node.func) in GETTERS and node.args:
        name, default = node.args[0], node.args[1] if len(node.args) > 1 else None
        given = default.value if isinstance(default, ast.Constant) else None
        return (name.value, given) if isinstance(name, ast.Constant) and isinstance(name.value, str) else None
    return None


def _as_float(source: Source, value: ast.expr) -> tuple[Edit, ...]:
    written = source.written(value)
    return (Edit(source.span(value), f"float({written})"),) if name_of(value) or "\n" not in written else ()
