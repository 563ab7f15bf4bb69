"""The time-out that the code gives its process group, in seconds: in words, by a setting that the code itself holds, or by a variable."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any

from crashcart.model import Edit
from crashcart.numbers import to_float, to_int
from crashcart.readers.code._callers import function_of
from crashcart.readers.code._constants import constant
from crashcart.readers.code._environment import GETTERS
from crashcart.readers.code._given import Giving
from crashcart.readers.code._paths import given_to
from crashcart.readers.code._settings import readings_of
from crashcart.readers.code.source import keyword, name_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.model import Fact, Span
    from crashcart.readers.code._given import Site
    from crashcart.readers.code._settings import Reading
    from crashcart.readers.code.program import Program
    from crashcart.readers.code.source import Source

UNITS = {"seconds": 1, "minutes": 60, "hours": 3600, "days": 86400, "weeks": 604800, "milliseconds": 0.001}
STARTS = ("init_process_group", "InitProcessGroupKwargs", "init_distributed", "DDPStrategy")
ENOUGH = 7200
_DEPTH = 4
Variable = tuple[str, "float | None", "Span | None"]  # its name, the number where nobody sets it, and where that stands


def look(program: Program) -> Iterator[Fact]:
    """``code.group_timeout``: the seconds that the code says, the longest where it says several.

    ``code.group_limit``: the same with ``key`` and ``unit`` where it is a setting, and the edits that make it two hours.
    """
    giving: Giving | None = None
    for reading in readings_of(program):
        for call in reading.source.calls(*STARTS):
            told = _told(program, reading.source, keyword(call, "timeout"))
            if told is None:
                continue
            source, given = told
            parts = {one.arg or "": one.value for one in given.keywords}
            parts.update(dict(zip(("days", "seconds"), given.args, strict=False)))
            if parts and all(
                isinstance(one, ast.Constant) and isinstance(one.value, (int, float)) for one in parts.values()
            ):
                total = sum(UNITS.get(name, 0) * one.value for name, one in parts.items())  # type: ignore[attr-defined]
                yield source.fact("code.group_timeout", total, given)
                longer = Edit(source.span(given), f"{name_of(given.func)}(hours=2)")
                yield source.fact("code.group_limit", {"seconds": [total], "key": "", "unit": 1, "edits": (longer,)}, given)
            elif len(parts) == 1:
                giving = giving or Giving(program)
                ((unit, value),) = parts.items()
                limit = _limit(giving, reading, source, value, UNITS.get(unit, 0))
                if limit is not None:
                    yield source.fact("code.group_limit", limit, given)


def _told(program: Program, source: Source, given: ast.expr | None) -> tuple[Source, ast.Call] | None:
    """The ``timedelta(...)`` that is given, also by a name of its own."""
    if isinstance(given, (ast.Name, ast.Attribute)):
        values = [(source, one) for one in given_to(source, name_of(given), function_of(given))]
        known = constant(program, source, given)
        values += [known] if known is not None else []
        if len(values) != 1:
            return None
        source, given = values[0]
    return (source, given) if isinstance(given, ast.Call) and source.called(given.func).endswith("timedelta") else None


def _limit(giving: Giving, reading: Reading, source: Source, value: ast.expr, unit: float) -> dict[str, object] | None:
    """What a time-out is made of: a variable of the environment, a number that is handed over, or a setting."""
    if (variable := _variable(giving, source, value)) is not None:
        name, default, at = variable
        seconds = [] if default is None else [default * unit]
        short = at is not None and unit > 0 and bool(seconds) and seconds[0] < ENOUGH
        edits = (Edit(at, f'"{to_int(ENOUGH / unit)}"'),) if short and at is not None else ()
        return {"seconds": seconds, "key": name, "unit": unit, "edits": edits}
    if source is reading.source and (key := reading.plain(value)):
        return _held(giving.program, key, unit)
    function = function_of(value)
    sites: list[Site | None] = [
        (at, call)
        for at, call in (giving.callers.calling(source, function) if function is not None else ())
        if isinstance(call, ast.Call)
    ]
    found = [giving.of(source, value, site) for site in sites or [None]]
    numbers = [one["value"] for one in found if _is_number(one.get("value"))]
    keys = {str(one["key"]) for one in found if "key" in one}
    if numbers and len(numbers) == len(found):
        longer = {Edit(one["span"], str(to_int(ENOUGH / unit))) for one in found if unit and one["value"] * unit < ENOUGH}
        return {"seconds": sorted({one * unit for one in numbers}), "key": "", "unit": unit, "edits": tuple(longer)}
    return _held(giving.program, keys.pop(), unit) if len(keys) == 1 and not numbers else None


def _is_number(value: Any) -> bool:  # noqa: ANN401 - a value of any type
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _variable(giving: Giving, source: Source, node: ast.expr, depth: int = _DEPTH) -> Variable | None:
    """The variable of the environment that an expression reads, and the number where nobody sets it."""
    if isinstance(node, ast.Call) and name_of(node.func) in {"int", "float"} and len(node.args) == 1:
        return _variable(giving, source, node.args[0], depth)
    if isinstance(node, ast.Call) and source.called(node.func) in GETTERS and node.args:
        return _named(source, node.args[0], keyword(node, "default", 1))
    if isinstance(node, ast.Subscript) and source.called(node.value) in {"os.environ", "environ"}:
        return _named(source, node.slice, None)
    if not isinstance(node, (ast.Name, ast.Attribute)) or not depth:
        return None
    values = [(source, one) for one in given_to(source, name_of(node), function_of(node))]
    known = constant(giving.program, source, node)
    values += [known] if known is not None else []
    return _variable(giving, *values[0], depth - 1) if len(values) == 1 else None


def _named(source: Source, variable: ast.expr, default: ast.expr | None) -> Variable | None:
    if not isinstance(variable, ast.Constant) or not isinstance(variable.value, str):
        return None
    if not isinstance(default, ast.Constant) or not isinstance(default.value, (str, int, float)):
        return variable.value, None, None
    seconds = to_float(default.value)
    return variable.value, seconds, source.span(default) if seconds is not None else None


def _held(program: Program, key: str, unit: float) -> dict[str, object]:
    """What dicts and classes of the program hold under a key, where each is a number."""
    found = [(value.value, span) for value, span in _values(program, key) if isinstance(value, ast.Constant)]
    numbers = [(value, span) for value, span in found if isinstance(value, (int, float)) and not isinstance(value, bool)]
    whole = bool(numbers) and len(numbers) == len(list(_values(program, key))) and unit > 0
    edits = (
        tuple(Edit(span, str(to_int(ENOUGH / unit))) for value, span in numbers if value * unit < ENOUGH) if whole else ()
    )
    seconds = sorted({value * unit for value, _ in numbers}) if whole else []
    return {"seconds": seconds, "key": key, "unit": unit, "edits": edits}


def _values(program: Program, key: str) -> Iterator[tuple[ast.expr, Span]]:
    for source in program.sources:
        for table in source.nodes(ast.Dict):
            for name, value in zip(table.keys, table.values, strict=True):
                if isinstance(name, ast.Constant) and name.value == key:
                    yield value, source.span(value)
        for call in source.nodes(ast.Call):
            if name_of(call.func) == "dict":
                yield from ((one.value, source.span(one.value)) for one in call.keywords if one.arg == key)
        for field in source.nodes(ast.AnnAssign):
            if name_of(field.target) == key and field.value is not None:
                yield field.value, source.span(field.value)
