"""Whose trainer the program uses, which settings reach a loader as they are, which paths are looked for before use."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from crashcart.readers.code._settings import readings_of
from crashcart.readers.code.source import inside

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.model import Fact
    from crashcart.readers.code.program import Program

LOOKED = {
    "os.path.exists",
    "os.path.isfile",
    "os.path.isdir",
    "exists",
    "is_file",
    "is_dir",
    "isfile",
    "isdir",
    "os.listdir",
    "os.makedirs",
}
LOADER = {"prefetch_factor", "persistent_workers"}


def look(program: Program) -> Iterator[Fact]:
    """``code.hf_trainer``; ``code.loader_setting``: the key; ``code.path_checked``: the key."""
    for reading in readings_of(program):
        source = reading.source
        for call in source.nodes(ast.Call):
            name = source.called(call.func)
            if name.endswith(("TrainingArguments", "HfArgumentParser")):
                yield source.fact("code.hf_trainer", name, call)
            elif name.endswith("DataLoader"):
                given = {one.arg: one.value for one in call.keywords}
                for one in LOADER & given.keys():
                    key = reading.key(given[one])
                    if key and "num_workers" in given and inside(call, ast.If) is None:
                        yield source.fact("code.loader_setting", key, call)
            elif name in LOOKED or name.rpartition(".")[2] in {"exists", "is_file", "is_dir"}:
                inner = [*call.args, *([call.func.value] if isinstance(call.func, ast.Attribute) else [])]
                for below in (below for part in inner for below in ast.walk(part)):
                    if key := reading.key(below):
                        yield source.fact("code.path_checked", key, call)
