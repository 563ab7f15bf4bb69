"""A thread that died of one item, while others wait for it: the item is left out, and its error printed.

    while True:                                        for path in paths:
        record = queue.get()                               queue.put(load(path))       raised here
        send(record)          raised here
        queue.task_done()                              the body goes into try, and what ends an item stays outside of it

Only where the thread works off items in a loop that ends or waits for its next item: else it would raise for ever.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from crashcart.readers.code.edits import tried
from crashcart.readers.remedies._scene import remedy, statement_at
from crashcart.readers.rules._lazy_handles import add_imports

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.model import Edit, Fact
    from crashcart.places import Spot
    from crashcart.readers.code.source import Source
    from crashcart.readers.remedies._scene import Scene

_WAITS = frozenset({"get", "recv", "popleft", "wait", "accept", "readline"})
_ENDS = frozenset({"task_done"})
_CAUSES = ("hang/dead-thread", "tracker/blocked", "hang/exit")
_ENDLESS = frozenset({"count", "cycle", "repeat"})


def look(scene: Scene) -> Iterator[Fact]:
    """By the loop around the outermost frame of the thread that has one."""
    for raised in scene.thread_raises:
        if raised.kind in {"KeyboardInterrupt", "SystemExit", "MemoryError", "OutOfMemoryError"}:
            continue
        for spot in raised.frames:
            source = scene.source(spot.file)
            found = _loop_around(source, spot) if source is not None else None
            if source is None or found is None:
                continue
            loop, begin, end = found
            edits = guarded(source, loop.body[begin : end + 1])
            if edits:
                title = f"Skip an item if the thread raises {raised.kind}"
                why = "the error is printed with its traceback and the next item follows; you still have to find out what is wrong with that item"
                yield from remedy(_CAUSES, title, "changes-training", why, edits, source.evidence(loop.body[begin]))
                return


def _loop_around(source: Source, spot: Spot) -> tuple[ast.For | ast.While, int, int] | None:
    """The loop over items around a line, and the first and last statement of its body that work on an item."""
    statement = statement_at(source, spot.line)
    if statement is None or source.around(statement, ast.FunctionDef) is None:
        return None
    loop = source.around(statement, ast.For, ast.While)
    if not isinstance(loop, (ast.For, ast.While)) or source.around(loop, ast.FunctionDef) is not source.around(
        statement, ast.FunctionDef
    ):
        return None
    failed = next((at for at, each in enumerate(loop.body) if _holds(each, statement)), None)
    if failed is None:
        return None
    ends = [at for at, each in enumerate(loop.body) if at > failed and _calls(each, _ENDS)]
    last = (ends[0] if ends else len(loop.body)) - 1
    if isinstance(loop, ast.For):
        iterates = loop.iter.func if isinstance(loop.iter, ast.Call) else None
        is_endless = iterates is not None and source.called(iterates).rpartition(".")[2] in _ENDLESS
        waits = is_endless and any(takes_item(each) for each in loop.body[:failed])
        return (loop, 0 if not ends else failed, last) if not is_endless or waits else None
    if not any(takes_item(each) for each in loop.body[:failed]):
        return None
    return loop, failed, last


def _holds(statement: ast.stmt, other: ast.stmt) -> bool:
    return any(node is other for node in ast.walk(statement))


def takes_item(statement: ast.stmt) -> bool:
    """Whether a statement waits for the next item."""
    return _calls(statement, _WAITS)


def _calls(statement: ast.stmt, names: frozenset[str]) -> bool:
    return any(
        isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in names
        for node in ast.walk(statement)
    )


def guarded(source: Source, statements: list[ast.stmt]) -> list[Edit]:
    """Statements in a ``try`` that prints what goes wrong and lets the way go on behind them."""
    edits = tried(source, statements[0], statements[-1], "except Exception:", "traceback.print_exc()")
    return [*edits, *add_imports(source, "traceback")] if edits else []
