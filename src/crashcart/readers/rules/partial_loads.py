"""Weights of which only what fits is taken, and nobody looks at what did not: ``model.load_state_dict(state, strict=False)``.

Where the answer is kept, printed or counted the program has looked; where it picked the keys itself, it knows what is left out. Only what
comes from a file counts.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from crashcart.readers.code.source import parent
from crashcart.readers.interpreter.values import Container, constant_of
from crashcart.readers.rules._statements import know_parents

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.model import Fact
    from crashcart.readers.interpreter.execution import Execution


def look(execution: Execution) -> Iterator[Fact]:
    """``code.loads_what_fits``: the call, as it is written."""
    seen: set[int] = set()
    for call in execution.trace.methods("load_state_dict"):
        is_loose = call.function is None and constant_of(call.argument(1, "strict")) is False
        state = call.argument(0, "state_dict")
        is_whole_file = state is not None and "checkpoint" in state.tags and not isinstance(state, Container)
        know_parents([call])
        is_unseen = isinstance(call.node, ast.Call) and isinstance(parent(call.node), ast.Expr)
        if is_loose and is_unseen and is_whole_file and id(call.node) not in seen:
            seen.add(id(call.node))
            yield call.fact("code.loads_what_fits", ast.unparse(call.node.func))  # type: ignore[attr-defined]
