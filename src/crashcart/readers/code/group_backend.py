"""Which library carries the ranks' messages, where the code names it: NCCL needs a card for each rank, gloo needs none."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from crashcart.readers.code.source import keyword

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.model import Fact
    from crashcart.readers.code.program import Program


def look(program: Program) -> Iterator[Fact]:
    """``code.group_backend`` at each start of a process group; None where the name is no constant."""
    for source in program.sources:
        for call in source.calls("init_process_group", "init_distributed"):
            given = keyword(call, "backend", 0) or keyword(call, "dist_backend", 0)
            name = given.value if isinstance(given, ast.Constant) and isinstance(given.value, str) else None
            yield source.fact("code.group_backend", name, call)
