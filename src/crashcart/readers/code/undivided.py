"""Loaders of a program of several ranks whose data nobody divides: every rank goes through all of it.

A sampler, a library that deals batches out, a shard, or a word about ranks where the data are made says that somebody does.
"""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from crashcart.model import Edit
from crashcart.readers.code._callers import function_of
from crashcart.readers.code._lengths import sampler_of
from crashcart.readers.code.source import inside, keyword

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.model import Fact
    from crashcart.readers.code.program import Program
    from crashcart.readers.code.source import Source

FRAMEWORKS = (
    "lightning", "pytorch_lightning", "lightning_fabric", "accelerate", "transformers", "ignite", "mmengine", "composer", "deepspeed",
    "horovod", "webdataset", "torchdata", "streaming", "nvidia", "ffcv", "ray", "fairscale", "colossalai", "torchtnt",
)  # fmt: skip
DIVIDED = re.compile(
    r"[Ss]ampler|shard|split_dataset_by_node|IterableDataset|num_replicas|::\s*(?:\w+\.)?(?:world|num_|n_)|get_dist"
)
RANKS = re.compile(r"(?i)(?:^|[^a-z])(?:global_|local_)?rank|world_?size")
WRAPPERS = ("DistributedDataParallel", "fully_shard", "FullyShardedDataParallel")


def look(program: Program) -> Iterator[Fact]:
    """``code.undivided``: such a loader that shuffles, with the sampler put in as an edit."""
    if program.imports(*FRAMEWORKS) or not any(True for source in program.sources for _ in source.calls(*WRAPPERS)):
        return
    if any(DIVIDED.search(source.text) for source in program.sources):
        return
    for source in program.sources:
        for call in source.calls("DataLoader"):
            shuffle, data = keyword(call, "shuffle", 2), keyword(call, "dataset", 0)
            plain = (
                isinstance(shuffle, ast.Constant)
                and shuffle.value is True
                and sampler_of(source, call, complete=all(one.arg for one in call.keywords)) == ""
            )
            if not plain or data is None or _knows_ranks(program, source, call, data):
                continue
            yield source.fact("code.undivided", {"edits": _edits(source, call, data)}, call)


def _knows_ranks(program: Program, source: Source, call: ast.Call, data: ast.expr) -> bool:
    """Whether ranks are spoken of where the loader or its data set is made: in the function, or in the class of the data."""
    function = function_of(call)
    near = source.written(function) if function is not None and not _is_whole_program(function) else source.written(call)
    if RANKS.search(near) or isinstance(data, ast.Subscript):
        return True
    classes = [(own, one) for own in program.sources for one in own.nodes(ast.ClassDef)]
    sets = [(own, one) for own, one in classes if any("Dataset" in ast.unparse(base) for base in one.bases)]
    return any(RANKS.search(own.written(one)) for own, one in sets)


def _is_whole_program(function: ast.AST) -> bool:
    """A ``main`` in which everything stands speaks of ranks anyway."""
    return any(
        isinstance(one, ast.Call) and ast.unparse(one.func).endswith("init_process_group") for one in ast.walk(function)
    )


def _edits(source: Source, call: ast.Call, data: ast.expr) -> tuple[Edit, ...]:
    """A sampler where a process group is there; without one it shuffles as before."""
    given = next((one for one in call.keywords if one.arg == "shuffle"), None)
    if given is None or not isinstance(data, (ast.Name, ast.Attribute)) or source.names.get("torch") != "torch":
        return ()
    if inside(call, ast.Lambda) is not None:
        return ()
    there = "torch.distributed.is_initialized()"
    text = f"shuffle=not {there}, sampler=torch.utils.data.DistributedSampler({source.written(data)}) if {there} else None"
    whole = ast.Constant(value=None, lineno=given.lineno, col_offset=given.col_offset)
    whole.end_lineno, whole.end_col_offset = given.end_lineno, given.end_col_offset
    return (Edit(source.span(whole), text),)
