"""Threads that outlive the work: started, not daemons, never ended. The interpreter waits for them at its end."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from crashcart.model import Edit, Span
from crashcart.readers.interpreter.trace import Call, Leave, Region
from crashcart.readers.interpreter.values import Bound, Function, Instance, Partial, Result, constant_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.model import Fact
    from crashcart.readers.interpreter.execution import Execution
    from crashcart.readers.interpreter.values import Value


def look(execution: Execution) -> Iterator[Fact]:
    """``code.endless_thread``: at the place where the thread is made."""
    reported: set[ast.AST] = set()
    for start in execution.trace.named("threading.Thread.start"):
        made = start.receiver.call if isinstance(start.receiver, (Result, Instance)) else None
        if made is None or made.node in reported or _may_be_daemon(execution, start.receiver):
            continue
        threads = [
            child
            for child in start.region.children
            if isinstance(child, Region) and child.kind == "thread" and child.value is start.receiver
        ]
        if any(map(_never_ends, threads)):
            reported.add(made.node)
            value = {
                "target": _name(start.receiver),
                "edits": _as_daemon(made) if isinstance(start.receiver, Result) else (),
            }
            yield made.fact("code.endless_thread", value)


def _never_ends(thread: Region) -> bool:
    """Whether the function of a thread is a loop that nothing ends."""
    bodies = [child.body for child in thread.children if isinstance(child, Call) and child.body is not None]
    return any(
        not body.completes and not any(isinstance(event, Leave) and event.kind == "raise" for event in body.events())
        for body in bodies
    )


def _may_be_daemon(execution: Execution, thread: Value | None) -> bool:
    if thread is None or execution.interpreter.peek(thread, "daemon") is not None:
        return True
    made = [
        call
        for call in execution.trace.named("threading.Thread.__init__", "threading.Thread.setDaemon")
        if call.receiver is thread
    ]
    if isinstance(thread, Result) and thread.call is not None:
        made.append(thread.call)
    return any(
        call.method == "setDaemon"
        or not call.complete
        or constant_of(call.keywords.get("daemon"), "daemon" in call.keywords)
        for call in made
    )


def _name(thread: Value | None) -> str:
    target = thread.argument(1, "target") if isinstance(thread, Result) else None
    while isinstance(target, (Bound, Partial)):
        target = target.function
    if isinstance(target, Function):
        return target.name
    return f"{thread.cls.name}.run" if isinstance(thread, Instance) else "thread"


def _as_daemon(made: Call) -> tuple[Edit, ...]:
    """The thread made a daemon."""
    if not isinstance(made.node, ast.Call):
        return ()
    end = made.span.end - 1
    comma = "" if made.source.text[:end].rstrip().endswith(("(", ",")) else ", "
    return (Edit(Span(made.source.path, end, end, made.node.end_lineno or made.line), f"{comma}daemon=True"),)
