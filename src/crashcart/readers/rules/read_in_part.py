"""Files that are copied only in part: one ``read(n)`` outside of any loop, and what it gave is written into another file.

with open(src, "rb") as a, open(dst, "wb") as b:
b.write(a.read(1 << 20))            a file of more than a megabyte is cut
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from crashcart.model import Edit, Span
from crashcart.readers.interpreter.values import Constant, constant_of
from crashcart.readers.rules._statements import know_parents, loop_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.model import Fact
    from crashcart.readers.interpreter.execution import Execution

_LEAST = 512  # bytes; less is a head that is looked at


def look(execution: Execution) -> Iterator[Fact]:
    """``code.read_in_part``: how many bytes are taken, and the edit that takes all."""
    seen: set[int] = set()
    reads = [call for call in execution.trace.methods("read") if call.function is None]
    know_parents(reads)
    for call in reads:
        size = constant_of(call.argument(0))
        node = call.node
        if type(size) is not int or size < _LEAST or id(node) in seen or not isinstance(node, ast.Call):
            continue
        seen.add(id(node))
        is_copied = any(
            write.arguments and (write.argument(0) is call.result or _is_same_name(write.node, node))
            for write in execution.trace.methods("write")
            if write.source is call.source
        )
        if is_copied and loop_of(node) is None and len(node.args) == 1 and not node.keywords:
            span = call.source.span(node.args[0])
            edits = (Edit(Span(span.file, span.start, span.end, span.line), ""),)
            origin = call.argument(0)
            named = isinstance(origin, Constant) and origin.source is not None and origin.node is not None
            place = origin.source.evidence(origin.node) if named else call.evidence  # type: ignore[union-attr]
            yield call.fact("code.read_in_part", {"size": size, "size_place": place, "edits": edits})


def _is_same_name(write: ast.AST, read: ast.Call) -> bool:
    """Whether what is written is the name to which the read is assigned."""
    above = getattr(read, "parent", None)
    targets = above.targets if isinstance(above, ast.Assign) else []
    names = {target.id for target in targets if isinstance(target, ast.Name)}
    argument = write.args[0] if isinstance(write, ast.Call) and write.args else None
    return isinstance(argument, ast.Name) and argument.id in names
