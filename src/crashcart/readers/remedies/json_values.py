"""A value that `json` cannot write: a number of numpy, a tensor, a path.

    json.dump({"loss": np.float32(0.3)}, file)       TypeError: Object of type float32 is not JSON serializable

``default=`` says what becomes of such a value; all others are written as before.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from crashcart.pattern import Pattern
from crashcart.readers.remedies._scene import remedy, statement_at
from crashcart.readers.remedies.unanswered_waits import with_argument

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.model import Fact
    from crashcart.readers.remedies._scene import Scene

_SAID = Pattern(r"Object of type (\w{1,60}) is not JSON serializable")
_NUMBERS = frozenset({
    "float16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "bool_", "bool", "ndarray", "Tensor", "Parameter", "longdouble",
})  # fmt: skip
_TEXTS = frozenset(
    {"PosixPath", "WindowsPath", "Path", "datetime", "date", "timedelta", "UUID", "device", "dtype", "Decimal"}
)
_CAUSES = ("hang/dead-thread", "code/bug", "tracker/failed", "checkpoint/save-failed", "hang/exit")


def look(scene: Scene) -> Iterator[Fact]:
    """The innermost own line that hands something to `json`."""
    for raised in (*scene.raises[:1], *scene.thread_raises):
        match = _SAID.search(raised.words)
        spot = raised.frames[-1] if raised.frames else None
        source = scene.source(spot.file) if spot is not None else None
        statement = statement_at(source, spot.line) if source is not None and spot is not None else None
        if match is None or source is None or statement is None:
            continue
        calls = [
            node
            for node in ast.walk(statement)
            if isinstance(node, ast.Call)
            and source.called(node.func) in {"json.dump", "json.dumps"}
            and not any(each.arg in {"default", "cls", None} for each in node.keywords)
        ]
        how = "lambda value: value.tolist()" if match[1] in _NUMBERS else "str" if match[1] in _TEXTS else ""
        if len(calls) == 1 and how:
            why = f"a {match[1]} is then written as the {'plain number or list' if how != 'str' else 'text'} that it stands for"
            yield from remedy(
                _CAUSES,
                "Convert this value for JSON",
                "exact",
                why,
                [with_argument(source, calls[0], f"default={how}")],
                source.evidence(statement),
            )
            return
