"""A lock for which the process that holds it waits: taken twice on one way through the program, or held by a thread at a fork.

    with Guard(folder):                         with self.lock:                     with self.lock:       in a thread, while the
        ...                                         self.flush()                        write()           loader forks its workers
        self.prune()    takes Guard(folder)     def flush(self): with self.lock:    with self.lock:       in the worker, for ever

What ends the block and takes the lock again goes behind the block; a lock of threads becomes one that its thread may take again; and
around a fork Python's own recipe (as `logging` does) takes the lock first and gives it back on both sides.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from crashcart.model import Edit, Span
from crashcart.readers.code.edits import indent_of, line_after, own_lines
from crashcart.readers.code.source import FUNCTIONS
from crashcart.readers.remedies._scene import remedy, statement_at
from crashcart.readers.rules._lazy_handles import add_imports

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.model import Fact
    from crashcart.readers.code.source import Source
    from crashcart.readers.remedies._scene import Scene

_CAUSES = ("hang/lock-or-io", "hang/dataloader", "hang/dead-thread", "hang/exit")
_LOCKS = frozenset({"threading.Lock", "threading.RLock"})


def look(scene: Scene) -> Iterator[Fact]:
    """The stacks of the standstill, process by process."""
    for frames in scene.stacks:
        entered = [
            (source, node)
            for spot in frames
            if (source := scene.source(spot.file))
            for node in [statement_at(source, spot.line)]
        ]
        waits = next(((source, node) for source, node in entered if node is not None and _taken(node)), None)
        if waits is None:
            continue
        source, node = waits
        taken = _taken(node)
        outer = next(
            (
                (other, block, call)
                for other, call in entered
                if call is not None and call is not node
                for block in other.parents(call)
                if isinstance(block, ast.With) and other is source and _same(block, taken)
            ),
            None,
        )
        if outer is not None:
            yield from _taken_twice(*outer, taken)
        elif isinstance(node, ast.With) and len(frames) > 1 and scene.is_worker(frames):
            yield from _held_at_fork(source, taken)


def _taken(node: ast.stmt) -> str:
    """What a ``with`` or ``acquire()`` takes, as it is written."""
    if isinstance(node, ast.With):
        return ast.unparse(node.items[0].context_expr)
    call = node.value if isinstance(node, ast.Expr) else None
    if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr == "acquire":
        return ast.unparse(call.func.value)
    return ""


def _same(block: ast.With, taken: str) -> bool:
    return bool(taken) and any(ast.unparse(item.context_expr) == taken for item in block.items)


def _lock_of(source: Source, taken: str) -> ast.Call | None:
    """Where a lock of threads is made, if it is one: ``self.guard = threading.Lock()``."""
    for assign in source.nodes(ast.Assign):
        made = assign.value
        if (
            isinstance(made, ast.Call)
            and source.called(made.func) in _LOCKS
            and any(ast.unparse(target) == taken for target in assign.targets)
        ):
            return made
    return None


def _taken_twice(source: Source, block: ast.With, call: ast.stmt, taken: str) -> Iterator[Fact]:
    made = _lock_of(source, taken)
    if made is not None and source.called(made.func) == "threading.Lock":
        written = source.written(made.func)
        new = f"{written.removesuffix('Lock')}RLock"
        edits = [
            Edit(source.span(made.func), new if "." in written else "threading.RLock"),
            *([] if "." in written else add_imports(source, "threading")),
        ]
        why = f"the thread that holds {taken} can then acquire it again; other threads wait as before"
        yield from remedy(_CAUSES, f"Make {taken} reentrant", "exact", why, edits, source.evidence(made))
        return
    edits = _behind(source, block, call)
    why = f"{source.line(call.lineno).strip()} acquires {taken} while it is already held, so it waited for its own process"
    yield from remedy(_CAUSES, "Make the call after the lock is released", "exact", why, edits, source.evidence(call))


def _behind(source: Source, block: ast.With, call: ast.stmt) -> list[Edit]:
    """The last statement of a block one step further out."""
    last = block.body[-1]
    if len(block.body) < 2 or not any(node is call for node in ast.walk(last)) or not own_lines(source, last):  # noqa: PLR2004 - else nothing is left in it
        return []
    outer = indent_of(source, block.lineno)
    first, end = last.lineno, last.end_lineno or last.lineno
    lines = [source.line(number) for number in range(first, end + 1)]
    inner = indent_of(source, first)
    if not inner.startswith(outer) or any(line.strip() and not line.startswith(inner) for line in lines):
        return []
    start = source.offset(first, 0)
    stop = source.offset(end, 0) + len(source.line(end))
    text = "\n".join(outer + line[len(inner) :] if line.strip() else line for line in lines)
    return [Edit(Span(source.path, start, stop, first), text)]


def _held_at_fork(source: Source, taken: str) -> Iterator[Fact]:
    """A lock that a thread of the parent held when the worker was forked."""
    made = _lock_of(source, taken)
    statement = source.around(made, ast.Assign) if made is not None else None
    if made is None or statement is None or not own_lines(source, statement) or source.called(made.func) != "threading.Lock":
        return
    function = source.around(statement, *FUNCTIONS)
    if function is None and source.around(statement, ast.ClassDef) is not None:
        return
    text = f"os.register_at_fork(before={taken}.acquire, after_in_parent={taken}.release, after_in_child={taken}.release)"
    why = "a fork then waits until no thread holds the lock; before, the worker inherited it locked, from a thread it does not have"
    edits = [line_after(source, statement, text), *add_imports(source, "os")]
    yield from remedy(_CAUSES, f"Hold {taken} around each fork", "exact", why, edits, source.evidence(made))
