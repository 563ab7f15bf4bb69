"""Waits without an end between the steps of a training, for somebody who is not part of it: a tracker, a server that is reported something.

A wait for a thread, a queue or an event counts where what runs beside the training talks to a server: that is what can stand still.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from crashcart.readers.code.source import inside
from crashcart.readers.interpreter.libraries.waits import (
    TRACKER_STARTS,
    is_request,
    is_tracker,
    sends,
    wait_of,
)
from crashcart.readers.interpreter.trace import Call, Leave, Region
from crashcart.readers.interpreter.values import PerRank, Result, Unknown, constant_of
from crashcart.readers.rules._rank_flow import happens
from crashcart.readers.rules._settings import called_as
from crashcart.readers.rules._unwaited import CallSites, unpolled, unwaited

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.model import Edit, Fact
    from crashcart.readers.interpreter.execution import Execution
    from crashcart.readers.interpreter.libraries.waits import Wait
    from crashcart.readers.interpreter.trace import Event
    from crashcart.readers.interpreter.values import Value

_GIVES = ("json", "data", "files", "body", "content")
_ONLY_STATUS = {"raise_for_status", "close", "read", "headers.get", "__enter__", "__exit__"}
_BESIDE = {"thread", "worker", "maybe"}


def look(execution: Execution) -> Iterator[Fact]:
    """``code.tracker_wait``, ``code.tracker_server`` and ``code.tracker_by_all``."""
    waits = _Waits(execution)
    reported: set[ast.AST] = set()
    for call, wait in waits.all:
        if call.node not in reported and waits.holds_up(call, wait):
            reported.add(call.node)
            yield waits.fact(call, wait)
    for loop in _loops(execution):
        if loop.node not in reported and isinstance(loop.node, ast.While) and _polls(loop):
            reported.add(loop.node)
            yield _polling(loop)
    for call in execution.trace.named("mlflow.set_tracking_uri"):
        if not str(constant_of(call.argument(0, "uri"), "http")).startswith(("file", "sqlite", "/", ".")):
            yield call.fact("code.tracker_server", "mlflow")
    if execution.ranks != 1:
        for call in execution.trace.named(*TRACKER_STARTS):
            if not call.region.ranks() and call.node not in reported and not _differs(call):
                reported.add(call.node)
                yield call.fact("code.tracker_by_all", called_as(call))


def _differs(call: Call) -> bool:
    """Whether a tracker is started differently on rank 0, or not at all: ``mode="disabled" if rank else "online"``."""
    values = (*call.arguments, *call.keywords.values())
    return any(isinstance(value, PerRank) for value in values) or constant_of(call.keywords.get("mode")) == "disabled"


class _Waits:
    """The waits of a program, and what runs beside it."""

    def __init__(self, execution: Execution) -> None:
        self.execution = execution
        interpreter = execution.interpreter
        waits = ((call, wait_of(interpreter, call)) for call in execution.trace.calls)
        self.all: list[tuple[Call, Wait]] = [(call, wait) for call, wait in waits if wait is not None]
        self.sites = CallSites(execution)
        self.sending: list[Region] = []  # threads that talk to a server
        for call in execution.trace.calls:
            if is_tracker(call.name) or is_request(call.name):
                self.sending += [
                    region for region in call.region.above() if region.kind == "thread" and region not in self.sending
                ]

    def holds_up(self, call: Call, wait: Wait) -> bool:
        """Whether the training stands still with this wait when a server does not answer."""
        if not _is_between_steps(self.execution, call):
            return False
        receiver = call.receiver
        if wait == "server":
            return _tells(call) and self._goes_nowhere(call)
        if wait == "thread":
            values = (
                [receiver]
                if receiver is not None
                else self.execution.interpreter.listed(call.arguments[0])[0]
                if call.arguments
                else []
            )
            asked = any(region.test is not None and "done" in region.test.tags for region in call.region.above())
            return not asked and any(self._runs_for(region, value) for value in values for region in self.sending)
        if wait == "queue":
            return any(_takes_from(region, receiver) for region in self.sending)
        if wait == "full":
            return any(_takes_from(region, receiver) and self._asks_without_end(region) for region in self.sending)
        if call.method in {"wait", "communicate"} and wait == "process":
            made = receiver.call if isinstance(receiver, Result) else None
            return made is not None and sends(self.execution.interpreter, made)
        return True

    def _runs_for(self, region: Region, value: Value | None) -> bool:
        """Whether a thread is the one that is waited for, or sets the event that is."""
        if value is None:
            return False
        return region.value is value or any(
            isinstance(event, Call) and event.receiver is value and event.method in {"set", "notify", "notify_all"}
            for event in region.events()
        )

    def _asks_without_end(self, region: Region) -> bool:
        return any(wait == "server" and region.holds(call.region) for call, wait in self.all)

    def _goes_nowhere(self, call: Call) -> bool:
        """Whether nothing but the state of an answer is looked at: then something was reported, not asked."""
        prefix = f"{call.name}."
        for other in self.execution.trace.calls:
            if other.receiver is call.result and other.name.removeprefix(prefix) not in _ONLY_STATUS:
                return False
            looks_only = other.name in {"getattr", "hasattr", "isinstance", "print"}
            if not looks_only and any(value is call.result for value in (*other.arguments, *other.keywords.values())):
                return False
        return True

    def fact(self, call: Call, wait: Wait) -> Fact:
        """A wait, with the edits that give it an end."""
        value = {
            "call": called_as(call),
            "kind": wait,
            "library": call.name.split(".")[0],
            "refused_offline": wait == "upload" and call.method == "wait" and not call.name.startswith("neptune."),
            "sure": happens(call),
            "edits": self._edits(call, wait),
        }
        return call.fact("code.tracker_wait", value)

    def _edits(self, call: Call, wait: Wait) -> tuple[Edit, ...]:
        """An end for a wait, and for the others of a class or a thread that sends: else it passes and stands at its end."""
        if not isinstance(call.node, ast.Call):
            return ()
        edits = unwaited(self.sites, call.source, call.node, wait)
        if not edits or wait not in {"queue", "thread", "full"}:
            return edits
        owner = inside(call.node, ast.ClassDef)
        for other, kind in self.all:
            beside = owner is not None and inside(other.node, ast.ClassDef) is owner
            in_thread = any(region.kind == "thread" and region in self.sending for region in other.region.above())
            wanted = other.node is not call.node and (beside or in_thread) and kind in {"server", "thread", "full", "queue"}
            if wanted and isinstance(other.node, ast.Call):
                more = unwaited(self.sites, other.source, other.node, kind)
                edits += tuple(edit for edit in more if edit not in edits)
        return edits


def _tells(call: Call) -> bool:
    """Whether a request gives something to the server."""
    sent = any(name in call.keywords for name in _GIVES) or call.name.startswith(("smtplib.", "ftplib."))
    request = call.argument(0)
    made = request.call if isinstance(request, Result) and request.name == "urllib.request.Request" else None
    return sent or (made is not None and (len(made.arguments) > 1 or "data" in made.keywords))


def _is_between_steps(execution: Execution, event: Event) -> bool:
    """Whether the training itself comes here again and again, and nothing beside it."""
    return execution.is_training(event) and not any(region.kind in _BESIDE for region in event.region.above())


def _takes_from(region: Region, queue: Value | None) -> bool:
    """Whether a thread empties a queue."""
    return queue is not None and any(
        isinstance(event, Call) and event.receiver is queue and event.method in {"get", "get_nowait"}
        for event in region.events()
    )


# ---- loops that ask again and again


def _loops(execution: Execution) -> Iterator[Region]:
    """The loops with a pause in them that a training comes to between its steps."""
    for call in execution.trace.named("time.sleep"):
        for region in call.region.loops()[:1]:
            if _is_between_steps(execution, call) and not any(each is region for each in execution.training_loops):
                yield region


def _polls(loop: Region) -> bool:
    """``while not run.synced: time.sleep(1)``: nothing but the answer of a server ends it."""
    events = list(loop.events())
    leaves = [event for event in events if isinstance(event, Leave) and event.region.loops()[:1] == [loop]]
    node = loop.node
    if node is None or _counts(node) or any(leave.kind == "raise" for leave in leaves):
        return False
    is_endless = isinstance(node, ast.While) and isinstance(node.test, ast.Constant)
    tests = [leave.region.test for leave in leaves if leave.kind in {"break", "return"}]
    if not is_endless:
        tests.append(loop.test)
    return bool(tests) and all(
        isinstance(test, Unknown) and "server" in test.tags and "time" not in test.tags for test in tests
    )


def _counts(loop: ast.AST) -> bool:
    """Whether a number goes up or down in the loop: then it may end by itself."""
    for node in ast.walk(loop):
        if isinstance(node, ast.AugAssign):
            return True
        if isinstance(node, (ast.Assign, ast.AnnAssign)) and isinstance(node.value, ast.BinOp):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            if {ast.unparse(target) for target in targets} & {
                ast.unparse(part) for part in (node.value.left, node.value.right)
            }:
                return True
    return False


def _polling(loop: Region) -> Fact:
    node = loop.node
    assert isinstance(node, ast.While)  # noqa: S101 - asked before
    value = {
        "call": f"while {ast.unparse(node.test)}",
        "kind": "poll",
        "library": "",
        "refused_offline": False,
        "sure": False,
        "edits": unpolled(loop.source, node),
    }
    return loop.source.fact("code.tracker_wait", value, node)
