"""Handles of data files that processes share or gather.

    self.file = h5py.File(path)         in __init__, and read in __getitem__: every forked worker has the same one, and a
                                        spawned one cannot be sent it                                       code.handle
    self.open[path] = h5py.File(path)   in __getitem__, and never closed: as many descriptors as files      code.handles_gathered

A handle that a worker opens itself is its own. One that is closed, by hand or by ``with``, is not kept.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from crashcart.readers.code.edits import alone, line_after, line_before
from crashcart.readers.code.source import FUNCTIONS
from crashcart.readers.interpreter.libraries.data_files import LIBRARIES, opened_by
from crashcart.readers.interpreter.trace import Call, Write
from crashcart.readers.interpreter.values import Container, Instance, Result
from crashcart.readers.rules._cached_functions import bounded_cache, cached_functions
from crashcart.readers.rules._growth import deep_tags, growths, holder_text, is_bounded
from crashcart.readers.rules._lazy_handles import open_again_in_each_process, open_lazily, open_many_lazily
from crashcart.record import record

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.model import Edit, Fact
    from crashcart.readers.interpreter.execution import Execution
    from crashcart.readers.interpreter.trace import Event, Region
    from crashcart.readers.interpreter.values import Value

_MOST_OPEN = 16
_MOST_LISTED = 4
_GETSTATE = ("__getstate__", "__reduce__", "__reduce_ex__")


@record
class _Kept:
    """A handle that an object keeps: where it is opened, where it is put, and the first use by a worker."""

    opened: Call
    keeper: Event
    owner: Instance | None
    attribute: str
    use: Call | None


def look(execution: Execution) -> Iterator[Fact]:
    """The facts above, each place once."""
    seen: set[int] = set()
    for kept in _kept_handles(execution):
        if id(kept.keeper.node) not in seen:
            seen.add(id(kept.keeper.node))
            yield kept.keeper.fact("code.handle", _describe(execution, kept))
    yield from _gathered(execution)


# ---- kept from the beginning


def _kept_handles(execution: Execution) -> Iterator[_Kept]:
    if not execution.trace.named(*LIBRARIES):
        return
    closed = _closed(execution)
    uses: dict[int, Call] = {}
    for call in execution.trace.calls:
        if call.receiver is not None and call.receiver.tags and execution.in_worker(call) is not None:
            for number in opened_by(call.receiver):
                uses.setdefault(number, call)
    for opened in execution.trace.named(*LIBRARIES):
        if opened.number in closed or execution.in_worker(opened) is not None:
            continue
        keeper = _keeper(execution, opened)
        if keeper is not None and keeper.region.is_certain():
            yield _Kept(opened, keeper, *_owner(execution, keeper), uses.get(opened.number))


def _closed(execution: Execution) -> set[int]:
    """The handles that are closed again: by ``close()``, or at the end of a ``with``."""
    closed = {
        number
        for call in execution.trace.methods("close")
        if not _is_part(call.receiver)
        for number in opened_by(call.receiver)
    }
    for opened in execution.trace.named(*LIBRARIES):
        node = opened.node
        if any(isinstance(above, ast.withitem) for above in opened.source.parents(node)):
            closed.add(opened.number)
    for event in execution.trace.calls:
        for region in event.region.above():
            if region.kind == "with" and isinstance(region.value, Result) and not _is_part(region.value):
                closed.update(opened_by(region.value))
    return closed


def _is_part(value: Value | None) -> bool:
    """Whether something reads through a handle and is not the handle itself: a transaction that ends leaves the file open."""
    return isinstance(value, Result) and value.name not in LIBRARIES


def _keeper(execution: Execution, opened: Call) -> Event | None:
    """The first place that puts a handle into an attribute or a container, outside of the workers."""
    tag = f"handle:{opened.number}"
    places: list[Event] = [
        write
        for write in execution.trace.writes
        if write.number > opened.number
        and isinstance(write.owner, (Instance, Container))
        and tag in deep_tags(execution, write.value)
    ]
    places += [growth.event for growth in growths(execution) if tag in deep_tags(execution, growth.value)]
    first = min(places, key=lambda event: event.number, default=None)
    return first if first is not None and execution.in_worker(first) is None else None


def _owner(execution: Execution, keeper: Event) -> tuple[Instance | None, str]:
    """The object that keeps it, and under which attribute."""
    if isinstance(keeper, Write) and isinstance(keeper.owner, Instance):
        return keeper.owner, str(keeper.name)
    holder = keeper.owner if isinstance(keeper, Write) else keeper.receiver if isinstance(keeper, Call) else None
    for write in execution.trace.writes:
        if write.value is holder and isinstance(write.owner, Instance):
            return write.owner, str(write.name)
    return None, holder_text(keeper)


def _describe(execution: Execution, kept: _Kept) -> dict[str, object]:
    loader = execution.loader_of(execution.in_worker(kept.use)) if kept.use is not None else None
    owner = kept.owner
    many = bool(kept.opened.region.loops()) or not (
        isinstance(kept.keeper, Write) and isinstance(kept.keeper.owner, Instance)
    )
    return {
        "library": LIBRARIES[kept.opened.name],
        "class": owner.cls.name if owner is not None else "the program",
        "attribute": kept.attribute,
        "many": many,
        "used_by_workers": kept.use is not None,
        "has_state": owner is not None and any(execution.interpreter._find(owner.cls, name) for name in _GETSTATE),  # noqa: SLF001 - a method of a class
        "loader": loader.call.evidence if loader is not None else None,
        "edits": _edits(execution, kept, many=many),
    }


def _edits(execution: Execution, kept: _Kept, *, many: bool) -> tuple[Edit, ...]:
    """The data set opening its files on first use; none where its class is shaped otherwise."""
    keeper, source = kept.keeper, kept.keeper.source
    statement = keeper.node if isinstance(keeper.node, ast.stmt) else source.around(keeper.node, ast.stmt)
    cls, function = source.around(keeper.node, ast.ClassDef), source.around(keeper.node, *FUNCTIONS)
    if not isinstance(cls, ast.ClassDef) or not isinstance(function, ast.FunctionDef):
        return ()
    init = next((part for part in cls.body if isinstance(part, ast.FunctionDef) and part.name == "__init__"), None)
    if init is None:
        return ()
    derived = [] if many else _derived(execution, kept)
    if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Attribute):
        if function is not init:
            return open_again_in_each_process(source, cls, init, function, [statement, *derived])
        edits = open_lazily(source, cls, init, statement, derived)
        if edits:
            return edits
    call, name = _opening(kept)
    if call is None or function is not init:
        return ()
    return open_many_lazily(source, cls, init, call, kept.attribute, name)


def _derived(execution: Execution, kept: _Kept) -> list[ast.Assign]:
    """Parts of the handle that are kept as well: ``self.images = self.file["images"]``."""
    tag = f"handle:{kept.opened.number}"
    return [
        write.node
        for write in execution.trace.writes
        if write.owner is kept.owner
        and write is not kept.keeper
        and tag in write.value.tags
        and isinstance(write.node, ast.Assign)
        and write.source is kept.keeper.source
    ]


def _opening(kept: _Kept) -> tuple[ast.Call | None, ast.Name | None]:
    """The call that opens each of many files, and the name that it has before it is put with the others."""
    node = kept.keeper.node
    value: ast.AST | None = None
    if isinstance(node, ast.Call) and node.args:
        value = node.args[-1]
    elif isinstance(node, ast.Assign):
        value = node.value.value if isinstance(node.value, ast.DictComp) else node.value
    if isinstance(value, ast.Call):
        return value, None
    if isinstance(value, ast.Name) and isinstance(kept.opened.node, ast.Call) and kept.opened.source is kept.keeper.source:
        return kept.opened.node, value
    return None, None


# ---- gathered sample by sample


def _gathered(execution: Execution) -> Iterator[Fact]:
    for growth in growths(execution) if execution.trace.named(*LIBRARIES) else ():
        worker = _worker(growth.event)
        handles = [tag for tag in deep_tags(execution, growth.value) if tag.startswith("handle:")]
        if worker is None or not handles or not growth.outlives(worker) or is_bounded(execution, growth.container, worker):
            continue
        owner = next((write.owner for write in execution.trace.writes if write.value is growth.container), None)
        who = owner.cls.name if isinstance(owner, Instance) else "the program"
        holder = holder_text(growth.event)
        edits = _close_oldest(growth.event, holder, growth.container, is_keyed=growth.is_keyed)
        yield growth.event.fact("code.handles_gathered", {"who": who, "holder": holder, "edits": edits})
    for call, decorator in cached_functions(execution):
        if opened_by(call.result) and call.function is not None:
            edits = bounded_cache(call.function.source, decorator, _MOST_OPEN)
            value = {"who": call.function.name, "holder": "its answers", "edits": edits}
            yield call.function.source.fact("code.handles_gathered", value, decorator)


def _worker(event: Event) -> Region | None:
    return next((region for region in event.region.above() if region.kind == "worker"), None)


def _close_oldest(event: Event, holder: str, container: Value, *, is_keyed: bool) -> tuple[Edit, ...]:
    """Lines that close the oldest, or let it go: a file that nobody has any more is closed."""
    node, source = event.node, event.source
    statement = node if isinstance(node, ast.stmt) else source.around(node, ast.stmt)
    if not isinstance(statement, ast.stmt) or not alone(source, statement):
        return ()
    if isinstance(container, Container) and container.kind == "list":
        return (line_after(source, statement, f"del {holder}[:-{_MOST_LISTED}]"),)
    if not is_keyed or not isinstance(container, Container) or container.kind != "dict":
        return ()
    lines = (f"while len({holder}) >= {_MOST_OPEN}:", f"    {holder}.pop(next(iter({holder}))).close()")
    return (line_before(source, statement, *lines),)
