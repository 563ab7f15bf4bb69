"""A pipe or a queue that is full, while who should empty it waits for its writer.

process = subprocess.Popen(command, stdout=subprocess.PIPE)
process.wait()                                      communicate() reads until the process ends
for line in process.stdout: ...                     and its stderr, a pipe that nobody reads: it goes where ours goes
self.ready = queue.Queue(4)                         put() by the thread that should take: without a limit
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from crashcart.readers.code.edits import replaced
from crashcart.readers.code.source import keyword
from crashcart.readers.remedies._scene import remedy, statement_at
from crashcart.readers.remedies.ended_threads import answering_threads

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.model import Fact
    from crashcart.readers.code.source import Source
    from crashcart.readers.remedies._scene import Scene

_CAUSES = ("hang/lock-or-io", "hang/dead-thread", "hang/exit")
_QUEUES = frozenset(
    {
        "queue.Queue",
        "queue.LifoQueue",
        "queue.PriorityQueue",
        "multiprocessing.Queue",
        "torch.multiprocessing.Queue",
        "multiprocessing.JoinableQueue",
    }
)


def look(scene: Scene) -> Iterator[Fact]:
    """The innermost own line of each process that stands."""
    for frames in scene.stacks:
        spot = frames[0] if frames else None
        source = scene.source(spot.file) if spot is not None else None
        statement = statement_at(source, spot.line) if source is not None and spot is not None else None
        if source is None or statement is None:
            continue
        yield from _of_process(source, statement)
        if not scene.thread_raises:  # one that died does not empty anything
            yield from _of_queue(scene, source, statement)


def _of_process(source: Source, statement: ast.stmt) -> Iterator[Fact]:
    opened = {
        ast.unparse(target): assign.value
        for assign in source.nodes(ast.Assign)
        if isinstance(assign.value, ast.Call) and source.called(assign.value.func) == "subprocess.Popen"
        for target in assign.targets
    }
    opened |= {
        ast.unparse(item.optional_vars): item.context_expr
        for node in source.nodes(ast.With)
        for item in node.items
        if item.optional_vars is not None
        and isinstance(item.context_expr, ast.Call)
        and source.called(item.context_expr.func) == "subprocess.Popen"
    }
    heads: list[ast.AST] = (
        [statement.iter] if isinstance(statement, ast.For) else [] if hasattr(statement, "body") else [statement]
    )
    for node in (each for head in heads for each in ast.walk(head)):
        if not isinstance(node, ast.Attribute):
            continue
        call = opened.get(ast.unparse(node.value))
        if call is None:
            continue
        pipes = [name for name in ("stdout", "stderr") if _is_pipe(source, keyword(call, name))]
        wait = getattr(node, "parent", None)
        if node.attr == "wait" and pipes and isinstance(wait, ast.Call) and not wait.args and not wait.keywords:
            name = source.written(node.value)
            text = (
                f"{name}.communicate()"
                if isinstance(statement, ast.Expr)
                else f"({name}.communicate(), {name}.returncode)[1]"
            )
            why = "a process that fills its pipe blocks until it is read; communicate() reads until the process ends"
            yield from remedy(
                _CAUSES,
                "Read what the process writes while it is waited for",
                "exact",
                why,
                [replaced(source, wait, text)],
                source.evidence(statement),
            )
            return
        error = keyword(call, "stderr")
        if node.attr == "stdout" and "stderr" in pipes and error is not None:
            why = "this pipe is not read while the other one is; the process's errors then go to the log"
            yield from remedy(
                _CAUSES,
                "Send the process's stderr to the log",
                "exact",
                why,
                [replaced(source, error, "None")],
                source.evidence(call),
            )
            return


def _is_pipe(source: Source, node: ast.expr | None) -> bool:
    return node is not None and source.called(node) == "subprocess.PIPE"


def _of_queue(scene: Scene, source: Source, statement: ast.stmt) -> Iterator[Fact]:
    """A `put` that waits for room: the one queue of the program with a limit."""
    puts = (
        [
            node
            for node in ast.walk(statement)
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "put"
        ]
        if not hasattr(statement, "body")
        else []
    )
    if not puts or answering_threads(scene, puts[0]):  # another thread takes, or took: more room only delays the end
        return
    limited = [
        (each, size)
        for each in scene.sources
        for call in each.nodes(ast.Call)
        if each.called(call.func) in _QUEUES
        and (size := keyword(call, "maxsize", 0)) is not None
        and not (isinstance(size, ast.Constant) and size.value == 0)
    ]
    if len(limited) == 1:
        each, size = limited[0]
        why = "the thread that puts items is also the one that should take them, or waits for it. Without a limit a put never blocks; the queue uses more memory instead"
        yield from remedy(
            _CAUSES,
            "Remove the queue's size limit",
            "exact",
            why,
            [replaced(each, size, "0")],
            source.evidence(statement),
        )
