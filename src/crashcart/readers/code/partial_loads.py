"""Weights of which only what fits is taken, and nobody looks at what did not: ``model.load_state_dict(state, strict=False)``.

Where the answer is kept, printed or counted the program has looked; where keys were picked before, it knows what is left out.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from crashcart.readers.code.source import keyword, parent

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.model import Fact
    from crashcart.readers.code.program import Program


def look(program: Program) -> Iterator[Fact]:
    """``code.loads_what_fits``: the call, as it is written."""
    for source in program.sources:
        for call in source.calls("load_state_dict"):
            strict = keyword(call, "strict", 1)
            unseen = isinstance(strict, ast.Constant) and strict.value is False and isinstance(parent(call), ast.Expr)
            if unseen and call.args and not isinstance(call.args[0], (ast.DictComp, ast.Dict)):
                yield source.fact("code.loads_what_fits", ast.unparse(call.func), call)
