"""Files and folders of data that the program reads, where its own code names them; what a flag or a config names is a setting.

    h5py.File(os.path.join(TASKS[args.task]["dataset_dir"], f"episode_{number}.hdf5"))

Of a path that is not wholly known the known folder counts.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any

from crashcart.model import Fact
from crashcart.readers.interpreter.libraries.data_files import LIBRARIES, RAW_READERS
from crashcart.readers.interpreter.libraries.data_files import READERS as FILE_READERS
from crashcart.readers.interpreter.libraries.texts_and_paths import path_text
from crashcart.readers.interpreter.values import Choice, Constant, Instance, Result, Unknown, Value, constant_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.readers.interpreter.execution import Execution
    from crashcart.readers.interpreter.trace import Call

_LISTING = (
    "glob.glob",
    "glob.iglob",
    "os.listdir",
    "os.walk",
    "os.scandir",
    "pathlib.Path.glob",
    "pathlib.Path.rglob",
    "pathlib.Path.iterdir",
)
_SETS = ("torchvision.datasets.", "datasets.load_dataset", "datasets.load_from_disk", "webdataset.WebDataset")
_READERS = {*LIBRARIES, *FILE_READERS, *RAW_READERS, *_LISTING} - {"torch.load", "pickle.load", "h5py.read"}
_LONGEST = 300
_OPEN = frozenset({"branch", "rank", "handler", "maybe", "try", "worker"})


def look(execution: Execution) -> Iterator[Fact]:
    """``code.data_path``: the path, the variables that may say another, how many numbered files of it are read one by one.

    ``code.numbered_files``: the same count, wherever the folder is named.
    """
    seen: set[str] = set()
    numbered: set[int] = set()
    for call, value in (*_read(execution), *_given(execution)):
        variables: list[str] = []
        files = _numbered(call, value)
        if files["count"] is not None and id(call.node) not in numbered:
            numbered.add(id(call.node))
            yield call.fact("code.numbered_files", files)
        parts = list(_parts(value, variables))
        text = _known(parts)
        if not text or text in seen or len(text) > _LONGEST or "\n" in text or any(part.origins for part in parts):
            continue
        seen.add(text)
        about = {"path": text, "variables": variables, "count": files["count"], "count_place": files["count_place"]}
        place = next((part for part in parts if part.node is not None and part.source is not None), None)
        if place is not None and place.source is not None and place.node is not None:
            span, evidence = place.source.span(place.node), place.source.evidence(place.node)
        else:
            span, evidence = call.span, call.evidence
        yield Fact("code.data_path", about, evidence, "code", "data", span)


def _read(execution: Execution) -> Iterator[tuple[Call, Value | None]]:
    """The calls that read files or list a folder, each with the path."""
    for call in execution.trace.calls:
        if call.function is None and (call.name in _READERS or call.name.startswith(_SETS)) and not _writes(call):
            given = [*call.arguments, *call.keywords.values()]
            yield call, call.receiver if call.name.startswith("pathlib.") else next(iter(given), None)


def _given(execution: Execution) -> Iterator[tuple[Call, Value | None]]:
    """The texts that the data sets of loaders are made of."""
    for loader in execution.loaders:
        dataset = loader.dataset
        made = dataset.call if isinstance(dataset, Instance) else None
        for value in (*made.arguments, *made.keywords.values()) if made is not None else ():
            if path_text(value) is not None:
                yield loader.call, value


def _writes(call: Call) -> bool:
    return str(constant_of(call.argument(1, "mode"), "r"))[:1] in {"w", "a", "x"}


def _parts(value: Value | None, variables: list[str]) -> Iterator[Constant]:
    """The known texts at the beginning of a path."""
    if isinstance(value, Choice):
        unset = [
            option for option in value.options if isinstance(option, Unknown) and option.kind.startswith("environment:")
        ]
        variables += [option.kind.partition(":")[2] for option in unset]
        value = next((option for option in value.options if isinstance(option, Constant)), None)
    if isinstance(value, Result) and isinstance(value.data, list):
        for part in value.data:
            inner = list(_parts(part, variables))
            yield from inner
            if path_text(part) is None:
                yield Constant(None)
                return
            if value.name == "pathlib.Path":
                yield Constant("/")
    elif (text := path_text(value)) is not None and value is not None:
        known = value if isinstance(value, Constant) else Constant(text, value.origins)
        yield known


def _known(parts: list[Constant]) -> str:
    """The path, or the folder of one of which the rest is not known."""
    texts: list[str] = []
    for part in parts:
        if part.value is None:
            return os.path.dirname("".join(texts))
        plain = re.split(r"[*?\[]", str(part.value), maxsplit=1)[0]
        texts.append(plain)
        if plain != part.value:  # a pattern
            return os.path.dirname("".join(texts))
    return "".join(texts)


def _numbered(call: Call, value: Value | None) -> dict[str, Any]:
    """How many files are read one after the other by their numbers, where that count is written, and whether all are read for sure."""
    changes = value is not None and "loop" in value.tags
    for loop in call.region.loops()[:1] if changes else ():
        numbers = loop.iterable
        is_counted = isinstance(numbers, Result) and numbers.name == "range" and numbers.call is not None
        count = numbers.call.arguments[0] if is_counted and len(numbers.call.arguments) == 1 else None  # type: ignore[union-attr]
        if isinstance(count, Constant) and type(count.value) is int:
            place = count.source.span(count.node) if count.node is not None and count.source is not None else None
            is_sure = not any(region.kind in _OPEN for region in call.region.above())
            return {"count": count.value, "count_place": place, "count_is_sure": is_sure}
    return {"count": None, "count_place": None, "count_is_sure": False}
