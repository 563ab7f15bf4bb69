"""The time-out that the code gives its process group, in seconds: in words, or by a setting that the code itself holds."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from crashcart.model import Edit
from crashcart.readers.code._settings import readings_of
from crashcart.readers.code.source import keyword, name_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.model import Fact, Span
    from crashcart.readers.code.program import Program

UNITS = {"seconds": 1, "minutes": 60, "hours": 3600, "days": 86400, "weeks": 604800, "milliseconds": 0.001}
STARTS = ("init_process_group", "new_group", "InitProcessGroupKwargs", "init_distributed", "DDPStrategy")
ENOUGH = 7200


def look(program: Program) -> Iterator[Fact]:
    """``code.group_timeout``: the seconds that the code says, the longest where it says several.

    ``code.group_limit``: the same with ``key`` and ``unit`` where it is a setting, and the edits that make it two hours.
    """
    for reading in readings_of(program):
        source = reading.source
        for call in source.calls(*STARTS):
            given = keyword(call, "timeout")
            if not (isinstance(given, ast.Call) and source.called(given.func).endswith("timedelta")):
                continue
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
                ((unit, value),) = parts.items()
                if key := reading.plain(value):
                    yield source.fact("code.group_limit", _held(program, key, UNITS.get(unit, 0)), given)


def _held(program: Program, key: str, unit: float) -> dict[str, object]:
    """What dicts and classes of the program hold under a key, where each is a number."""
    found = [(value.value, span) for value, span in _values(program, key) if isinstance(value, ast.Constant)]
    numbers = [(value, span) for value, span in found if isinstance(value, (int, float)) and not isinstance(value, bool)]
    whole = bool(numbers) and len(numbers) == len(list(_values(program, key))) and unit > 0
    edits = tuple(Edit(span, str(int(ENOUGH / unit))) for value, span in numbers if value * unit < ENOUGH) if whole else ()
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
