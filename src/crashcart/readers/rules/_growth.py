"""What grows with every round of a loop: items put into a container that was made before the loop and that nothing takes out again.

    history = []                          made here,
    for batch in loader:
        history.append(model(batch))      and longer with each batch

The code of a data set runs once for each sample, so that for a worker everything made before it is outside of the loop.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from crashcart.readers.interpreter.trace import Call, Write
from crashcart.readers.interpreter.values import Choice, Constant, Container, Instance, Result, Value, constant_of, tags_of
from crashcart.record import record

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.readers.interpreter.execution import Execution
    from crashcart.readers.interpreter.trace import Event, Region

__all__ = ["Growth", "deep_tags", "growths", "holder_text", "is_bounded"]

_ADDING = frozenset({"append", "extend", "add", "insert", "appendleft", "update", "setdefault"})
_TAKING = frozenset({"pop", "popleft", "popitem", "clear", "remove", "discard", "del"})
_MOST = 64


@record
class Growth:
    """Something that is put into a container; ``is_keyed`` where it is put under a key."""

    event: Event
    container: Container
    value: Value
    is_keyed: bool

    def outlives(self, region: Region) -> bool:
        """Whether the container was there before a region began."""
        return self.container.number <= region.number


_KNOWN: WeakKeyDictionary[Execution, list[Growth]] = WeakKeyDictionary()


def growths(execution: Execution) -> list[Growth]:
    """Everything that is put into a list, set or dictionary, in order."""
    if execution not in _KNOWN:
        _KNOWN[execution] = list(_growths(execution))
    return _KNOWN[execution]


def _growths(execution: Execution) -> Iterator[Growth]:
    for event in execution.events():
        if isinstance(event, Call) and event.method in _ADDING and isinstance(event.receiver, Container):
            position = 1 if event.method in {"insert", "setdefault"} else 0
            value = event.argument(position)
            if value is not None:
                yield Growth(event, event.receiver, value, is_keyed=event.receiver.kind != "list")
        elif isinstance(event, Write) and isinstance(event.owner, Container):
            is_list = event.owner.kind == "list"
            if event.name == "+=" or not (is_list or isinstance(event.name, Constant)):
                yield Growth(event, event.owner, event.value, is_keyed=event.name != "+=")


def is_bounded(execution: Execution, container: Container, loop: Region) -> bool:
    """Whether anything keeps a container small: a limit, something that takes items out, a new one in its place, or a look at its size."""
    if execution.interpreter.store.get(container, "maxlen") is not None:
        return True
    for call in execution.trace.methods(*_TAKING):
        if call.receiver is container:
            return True
    for write in execution.trace.writes:
        if write.owner is container and isinstance(constant_of(_plain(write.name)), slice):
            return True
        before = write.before.options if isinstance(write.before, Choice) else (write.before,)
        is_held = any(option is container for option in before)
        is_replaced = is_held and write.value is not container and write.owner is not container
        if is_replaced and loop.holds(write.region):
            return True
    return any(call.argument(0) is container and loop.holds(call.region) for call in execution.trace.named("len"))


def _plain(name: object) -> Value | None:
    return name if isinstance(name, Value) else None


def deep_tags(execution: Execution, value: Value | None, depth: int = 3) -> frozenset[str]:
    """What is known of a value and of all that a container holds."""
    if isinstance(value, Container) and depth:
        content = execution.interpreter.items(value)
        items = list(content.values() if isinstance(content, dict) else content)[:_MOST]
        items += execution.interpreter.libraries.others(execution.interpreter, value)
        return frozenset().union(*(deep_tags(execution, item, depth - 1) for item in items))
    if isinstance(value, Instance) and depth == 3:  # noqa: PLR2004 - an object of the program with data in it
        names = execution.interpreter.store.names(value)
        return frozenset().union(*(deep_tags(execution, execution.interpreter.peek(value, name), 1) for name in names))
    if isinstance(value, Result) and value.name in {"functools.partial", "zip", "enumerate"} and value.call is not None:
        return tags_of(*value.call.arguments)
    return tags_of(value)


def holder_text(event: Event) -> str:
    """The container as the code calls it: ``self.history``."""
    node = event.node
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        return event.source.written(node.func.value)
    target = node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "target", None)
    if isinstance(target, ast.Subscript):
        return event.source.written(target.value)
    return event.source.written(target) if target is not None else "a container"
