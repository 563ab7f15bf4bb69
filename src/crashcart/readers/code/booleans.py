"""Flags of a command line that take any text for true: ``argparse`` calls ``bool("False")``, which is True."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from crashcart.readers.code.source import keyword, name_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.model import Fact
    from crashcart.readers.code.program import Program


def look(program: Program) -> Iterator[Fact]:
    """``code.bool_flag``: the flags declared with ``type=bool``; the value is their names, the span the word ``bool``."""
    for source in program.sources:
        for call in source.calls("add_argument"):
            kind = keyword(call, "type")
            if kind is None or name_of(kind) != "bool" or not isinstance(kind, ast.Name):
                continue
            names = [one.value for one in call.args if isinstance(one, ast.Constant) and isinstance(one.value, str)]
            if names:
                fact = source.fact("code.bool_flag", names, kind)
                yield fact
