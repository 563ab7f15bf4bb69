"""The time-out that the code gives its process group, in seconds."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from crashcart.readers.code.source import keyword

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.model import Fact
    from crashcart.readers.code.program import Program

UNITS = {"seconds": 1, "minutes": 60, "hours": 3600, "days": 86400, "weeks": 604800, "milliseconds": 0.001}


def look(program: Program) -> Iterator[Fact]:
    """``code.group_timeout`` at each ``timeout=timedelta(...)`` of constants that is given to a process group."""
    for source in program.sources:
        for call in source.calls(
            "init_process_group", "new_group", "InitProcessGroupKwargs", "init_distributed", "DDPStrategy"
        ):
            given = keyword(call, "timeout")
            if isinstance(given, ast.Call) and source.called(given.func).endswith("timedelta"):
                parts = {one.arg: one.value for one in given.keywords}
                parts.update(dict(zip(("days", "seconds"), given.args, strict=False)))
                if all(isinstance(one, ast.Constant) and isinstance(one.value, (int, float)) for one in parts.values()):
                    total = sum(UNITS.get(name or "", 0) * one.value for name, one in parts.items())  # type: ignore[attr-defined]
                    yield source.fact("code.group_timeout", total, given)
