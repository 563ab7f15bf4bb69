"""What a data set keeps of its samples in memory.

    self.cache[index] = sample           in a worker, with nothing that takes any out                code.sample_cache
    @functools.cache def load(path)      called for a sample                                         the same
    @functools.cache def crop(image, y)  called with what chance gives                               code.grows
    self.seen.append(sample)             in a worker                                                 code.grows
    self.data = [read(p) for p in paths] before the workers: all that was read stays                 code.held_whole
    self.index.append((path, start))     in a loop before the workers: one object for each step      code.object_index

Each worker has a cache of its own, and each rank a data set.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from crashcart.readers.code.edits import alone, line_after, line_before
from crashcart.readers.interpreter.libraries.data_files import table_key
from crashcart.readers.interpreter.values import Constant, Container, Instance, Result, Unknown
from crashcart.readers.rules._cached_functions import bounded_cache, cached_by_chance, cached_functions
from crashcart.readers.rules._growth import deep_tags, growths, holder_text, is_bounded

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.model import Edit, Fact
    from crashcart.readers.interpreter.execution import Execution
    from crashcart.readers.interpreter.trace import Call, Event, Region
    from crashcart.readers.interpreter.values import Value
    from crashcart.readers.rules._growth import Growth

_FEW = 4
_NUMBERS = frozenset({"number", "index", "length"})  # kinds of what is not known but for being one
_DICT_ENTRIES = 3  # a dictionary is larger than a tuple by about so many entries


def look(execution: Execution) -> Iterator[Fact]:
    """The facts above, each place once."""
    if execution.is_cut_short:
        return  # what was not followed may take out again what is put in
    seen: set[int] = set()
    for fact, node in (*_grown(execution), *_remembered(execution), *_held(execution), *_indexes(execution)):
        if id(node) not in seen:
            seen.add(id(node))
            yield fact


# ---- what grows with the samples


def _grown(execution: Execution) -> Iterator[tuple[Fact, ast.AST]]:
    for growth in growths(execution):
        worker = _worker(growth.event) or _training_loop(execution, growth)
        if worker is None or not growth.outlives(worker) or _is_small(growth.value):
            continue
        if is_bounded(execution, growth.container, worker):
            continue
        owner, attribute = _holder(execution, growth)
        name = owner.cls.name if owner is not None else "the program"
        bulk = _worker(growth.event) is not None and _is_bulk(execution, growth.value)
        if growth.is_keyed and growth.container.kind == "dict":
            value = {"class": name, "attribute": attribute, "bulk": bulk, "edits": _drop_oldest(growth)}
            yield growth.event.fact("code.sample_cache", value), growth.event.node
        else:
            value = {"class": name, "holder": attribute, "bulk": bulk, "edits": _keep_last(growth)}
            yield growth.event.fact("code.grows", value), growth.event.node


def _worker(event: Event) -> Region | None:
    return next((region for region in event.region.above() if region.kind == "worker"), None)


def _training_loop(execution: Execution, growth: Growth) -> Region | None:
    """The training's outermost loop, where something grows in its rounds."""
    loops = [region for region in growth.event.region.loops() if execution.is_training_loop(region)]
    return loops[-1] if loops else None


def _is_small(value: Value) -> bool:
    """Whether a value is a plain number or text, of which a run can keep as many as it likes."""
    is_number = isinstance(value, Unknown) and value.kind in _NUMBERS
    return isinstance(value, Constant) or is_number or "time" in value.tags


def _is_bulk(execution: Execution, value: Value) -> bool:
    tags = deep_tags(execution, value)
    return "bulk" in tags and not any(tag.startswith("handle:") for tag in tags)


def _holder(execution: Execution, growth: Growth) -> tuple[Instance | None, str]:
    """The object that a container belongs to, and the container as that object calls it."""
    for write in execution.trace.writes:
        if write.value is growth.container and isinstance(write.owner, Instance):
            return write.owner, str(write.name)
    return None, holder_text(growth.event)


def _statement(event: Event) -> ast.stmt | None:
    statement = event.node if isinstance(event.node, ast.stmt) else event.source.around(event.node, ast.stmt)
    return statement if isinstance(statement, ast.stmt) and alone(event.source, statement) else None


def _drop_oldest(growth: Growth) -> tuple[Edit, ...]:
    statement, holder = _statement(growth.event), holder_text(growth.event)
    if statement is None or not holder.replace(".", "").isidentifier():
        return ()
    lines = (f"while len({holder}) >= {_FEW}:", f"    {holder}.pop(next(iter({holder})))")
    return (line_before(growth.event.source, statement, *lines),)


def _keep_last(growth: Growth) -> tuple[Edit, ...]:
    statement = _statement(growth.event)
    if statement is None or growth.container.kind != "list":
        return ()
    return (line_after(growth.event.source, statement, f"del {holder_text(growth.event)}[:-{_FEW}]"),)


def _remembered(execution: Execution) -> Iterator[tuple[Fact, ast.AST]]:
    for call, decorator in cached_functions(execution):
        function = call.function
        if function is not None and _is_bulk(execution, call.result):
            loader = execution.loader_of(execution.in_worker(call))
            dataset = loader.dataset if loader is not None else None
            name = dataset.cls.name if isinstance(dataset, Instance) else ""
            edits = bounded_cache(function.source, decorator, _FEW)
            value = {"class": name, "attribute": function.name, "bulk": True, "edits": edits}
            yield function.source.fact("code.sample_cache", value, decorator), decorator
    for call, decorator in cached_by_chance(execution):
        function = call.function
        if function is not None and not _is_small(call.result):
            name = function.owner.name if function.owner is not None else "the program"
            edits = bounded_cache(function.source, decorator, _FEW)
            value = {"class": name, "holder": f"the cache of {function.name}", "bulk": False, "edits": edits}
            yield function.source.fact("code.grows", value, decorator), decorator


# ---- what is there before the first sample


def _held(execution: Execution) -> Iterator[tuple[Fact, ast.AST]]:
    """Attributes of data sets, and tensors of a ``TensorDataset``, that hold all that was read of files."""
    reads = {call.number: call for call in execution.trace.calls}
    for loader in execution.loaders:
        dataset = loader.dataset
        if isinstance(dataset, Instance):
            for instance in _with_parts(execution, dataset):
                for write in execution.trace.writes:
                    if write.owner is instance and execution.in_worker(write) is None:
                        value = _whole(execution, reads, write.value, dataset.cls.name)
                        if value is not None:
                            yield write.fact("code.held_whole", value), write.node
        elif isinstance(dataset, Result) and dataset.name == "torch.utils.data.TensorDataset" and dataset.call is not None:
            for argument in dataset.call.arguments:
                value = _whole(execution, reads, argument, "TensorDataset")
                if value is not None:
                    yield dataset.call.fact("code.held_whole", value), dataset.call.node


def _with_parts(execution: Execution, dataset: Instance) -> Iterator[Instance]:
    """A data set, and the objects of the program that it holds."""
    yield dataset
    for name in execution.interpreter.store.names(dataset):
        part = execution.interpreter.peek(dataset, name)
        if isinstance(part, Instance):
            yield part


def _whole(execution: Execution, reads: dict[int, Call], value: Value, name: str) -> dict[str, object] | None:
    """Which tables, or whether whole files, a value holds; None where it holds none."""
    if isinstance(value, Instance):
        return None  # its own attributes are looked at
    numbers = [tag.partition(":")[2] for tag in deep_tags(execution, value) if tag.startswith("whole:")]
    calls = [reads[number] for number in map(_number, numbers) if number in reads]
    if not calls:
        return None
    keys = sorted({table_key(call.receiver) or "*" for call in calls if call.name == "h5py.read"})
    keys = ["*" if not key.strip("#/") else key for key in keys]
    return {"class": name, "keys": keys, "files": any(call.name != "h5py.read" for call in calls)}


def _number(text: str) -> int:
    from crashcart.numbers import to_int

    return to_int(text, 0)


def _indexes(execution: Execution) -> Iterator[tuple[Fact, ast.AST]]:
    """Lists of tuples or dictionaries that a loop inside a loop fills before the workers start."""
    for loader in execution.loaders:
        dataset = loader.dataset
        if not isinstance(dataset, Instance):
            continue
        for growth in growths(execution):
            if execution.in_worker(growth.event) is not None or growth.container.kind != "list":
                continue
            entry, loops = growth.value, len(growth.event.region.loops())
            if isinstance(entry, Container) and entry.kind == "list":  # ``index += [(path, step) for step in steps]``
                entry, loops = next(iter(execution.items(entry)), entry), loops + 1
            nested = loops >= 2 and isinstance(entry, Container) and entry.kind in {"tuple", "dict"}  # noqa: PLR2004 - files and steps
            if not nested or not isinstance(entry, Container):
                continue
            owner, _ = _holder(execution, growth)
            if any(owner is part for part in _with_parts(execution, dataset)):
                count = len(execution.interpreter.items(entry)) + (_DICT_ENTRIES if entry.kind == "dict" else 0)
                value = {"class": dataset.cls.name, "parts": count}
                yield growth.event.fact("code.object_index", value), growth.event.node
