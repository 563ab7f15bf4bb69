"""What a data set reads for one sample, and whether it survives a bad file.

root["/observations/images/top"][t]           one step of a table            code.sample_read
root["/action"][()]                           the whole of it
np.fromfile(path)                             a file as it is                code.file_read
image / 255, ToTensor()                       8-bit values become floats     code.widened
try: ... except OSError: ...                  a bad file is got over         code.reading_guarded
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from crashcart.readers.interpreter.libraries.data_files import LIBRARIES, RAW_READERS, READERS, table_key
from crashcart.readers.interpreter.values import Container, Instance, constant_of
from crashcart.readers.rules._growth import deep_tags

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.model import Fact
    from crashcart.readers.interpreter.execution import Execution
    from crashcart.readers.interpreter.trace import Call, Region

_WIDENS = frozenset({"ToTensor", "to_tensor", "convert_image_dtype", "to_dtype", "ToDtype"})
_BYTE = 255


def look(execution: Execution) -> Iterator[Fact]:
    """The facts above, each place once."""
    seen: set[tuple[str, int, str]] = set()
    for fact, place in _all(execution):
        key = (fact.name, place, str(fact.value.get("key", "")))
        if key not in seen:
            seen.add(key)
            yield fact


def _all(execution: Execution) -> Iterator[tuple[Fact, int]]:
    samples = _samples(execution)
    for call in execution.trace.calls:
        name = _dataset_name(execution, call)
        if name is None:
            continue
        kept = samples.get(name, frozenset())
        if call.name == "h5py.read" and table_key(call.receiver).strip("#/"):
            form = str(constant_of(call.keywords["form"]))
            goes_out = form == "whole" and f"whole:{call.number}" in kept
            value = {"key": table_key(call.receiver), "form": "all" if goes_out else form, "class": name}
            yield call.fact("code.sample_read", value), id(call.node)
        if call.name in RAW_READERS and f"whole:{call.number}" in kept:
            yield call.fact("code.file_read", {"class": name, "many": _files(execution, call)}), id(call.node)
        if _widens(call) or (call.method == "__getitem__" and call.region.kind == "worker" and "scaled" in kept):
            yield call.fact("code.widened", {"class": name}), id(call.node)
        guard = _guard(call) if call.name in {*READERS, *LIBRARIES} else None
        if guard is not None and not _raises_again(execution, guard):
            yield guard.source.fact("code.reading_guarded", {"class": name}, guard.node), id(guard.node)  # type: ignore[arg-type]


def _dataset_name(execution: Execution, call: Call) -> str | None:
    """The class of the data set for whose sample something happens; None outside of workers."""
    worker = execution.in_worker(call)
    if worker is None:
        return None
    loader = execution.loader_of(worker)
    dataset = loader.dataset if loader is not None else None
    return dataset.cls.name if isinstance(dataset, Instance) else ""


def _samples(execution: Execution) -> dict[str, frozenset[str]]:
    """What is known of the samples of each data set."""
    found: dict[str, frozenset[str]] = {}
    for call in execution.trace.methods("__getitem__", "__getitems__"):
        name = _dataset_name(execution, call) if call.region.kind == "worker" else None
        if name is not None:
            found[name] = found.get(name, frozenset()) | deep_tags(execution, call.result)
    return found


def _files(execution: Execution, call: Call) -> int | None:
    """How many files make one sample; None where a loop reads an unknown number of them."""
    count = 1
    for region in call.region.above():
        if region.kind == "worker":
            return count
        if region.kind == "loop":
            several = region.iterable
            each = constant_of(execution.interpreter.store.get(several, "count")) if isinstance(several, Container) else None
            if type(each) is not int:
                return None
            count *= each
    return count


def _widens(call: Call) -> bool:
    """Whether 8-bit values are brought between 0 and 1."""
    if call.method in _WIDENS or (call.method == "__call__" and call.name.split(".")[-2:-1] == ["ToTensor"]):
        return True
    return call.method in {"div", "div_"} and constant_of(call.argument(0)) == _BYTE


def _guard(call: Call) -> Region | None:
    """The ``try`` with handlers around a read, within the code of the data set."""
    for region in call.region.above():
        if region.kind == "worker":
            return None
        if region.kind == "try" and isinstance(region.node, ast.Try) and region.node.handlers:
            return region
    return None


def _raises_again(execution: Execution, guard: Region) -> bool:
    """Whether every handler of a ``try`` ends in another error."""
    raising = {
        id(region.node)
        for leave in execution.trace.leaves
        if leave.kind == "raise"
        for region in leave.region.above()
        if region.kind == "handler"
    }
    handlers = guard.node.handlers if isinstance(guard.node, ast.Try) else []
    return all(id(handler) in raising for handler in handlers)
