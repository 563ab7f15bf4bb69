"""Paths of data that the code itself names: constants, entries of a table of tasks, arguments of a data set.

Of a table of tasks the job takes one, so that each entry says under which name it stands, and how many episodes it promises.

DATA_DIR = "data/episodes"      {"dataset_dir": DATA_DIR + "/cube", "num_episodes": 50}      HDF5_DIR = os.path.join(ROOT, "h5")
"""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from crashcart.model import Fact
from crashcart.readers.code._texts import in_a_folder, text_of, variables_in
from crashcart.readers.code.source import name_of, parent

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.readers.code.program import Program
    from crashcart.readers.code.source import Source

NAMED = re.compile(r"(?i)data|hdf5|h5|lmdb|parquet|episode|image|root|train|val|path")
READERS = (
    "h5py.File", "lmdb.open", "numpy.load", "read_parquet", "read_csv", "read_json", "ImageFolder", "os.walk", "os.listdir", "os.scandir",
    "glob", "iglob",
)  # fmt: skip
COUNTS = {"num_episodes", "n_episodes", "episodes"}
_LONGEST = 300


def look(program: Program) -> Iterator[Fact]:
    """``code.data_path``: a text that may be a path, under the name that it has in the code."""
    sets = _data_sets(program)
    for source in program.sources:
        for name, node, table in _texts(source, sets):
            text = text_of(source, node)
            if text and len(text) < _LONGEST and "\n" not in text and ("/" in text or "." in text or name):
                value = {"path": text, "variables": list(variables_in(source, node)), **_entry(source, table)}
                yield Fact("code.data_path", value, source.evidence(node), "code", name or "data", source.span(node))


def _texts(source: Source, sets: list[str]) -> Iterator[tuple[str, ast.expr, ast.Dict | None]]:
    for node in source.nodes(ast.Assign):
        name = name_of(node.targets[0]).rpartition(".")[2]
        if name and NAMED.search(name) and isinstance(node.value, (ast.Constant, ast.BinOp, ast.Call, ast.JoinedStr)):
            yield name, node.value, None
    for table in source.nodes(ast.Dict):
        for key, value in zip(table.keys, table.values, strict=True):
            if isinstance(key, ast.Constant) and isinstance(key.value, str) and NAMED.search(key.value):
                yield key.value, value, table
    for call in source.calls(*READERS, *sets):
        for one in (*call.args[:2], *(word.value for word in call.keywords)) if not in_a_folder(source, call) else ():
            if isinstance(one, (ast.Constant, ast.BinOp, ast.Call, ast.Name)):
                yield "data", one, None


def _entry(source: Source, table: ast.Dict | None) -> dict[str, object]:
    """The name under which an entry stands in a table of tasks, and the episodes that it promises."""
    above = parent(table) if table is not None else None
    under, count, place = "", None, None
    if isinstance(above, ast.Dict) and table is not None:
        key = next((key for key, value in zip(above.keys, above.values, strict=True) if value is table), None)
        under = str(key.value) if isinstance(key, ast.Constant) else ""
    for key, value in zip(table.keys, table.values, strict=True) if table is not None else ():
        if (
            isinstance(key, ast.Constant)
            and key.value in COUNTS
            and isinstance(value, ast.Constant)
            and isinstance(value.value, int)
        ):
            count, place = value.value, source.span(value)
    return {"under": under, "count": count, "count_place": place}


def _data_sets(program: Program) -> list[str]:
    """The classes that are a data set by their name or by what they are made of."""
    classes = [node for source in program.sources for node in source.nodes(ast.ClassDef)]
    bases = {node.name: [name_of(base) for base in node.bases] for node in classes}
    return [name for name, above in bases.items() if any(one.endswith("Dataset") for one in (name, *above))]
