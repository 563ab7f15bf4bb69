"""Keeps torch.compile from compiling our own functions where it meets them between two graphs.

Only their frames are marked, not their files: a hook that is called from within a graph (an optimizer's) must stay traceable,
since it returns at once there; a file on the skip list would break that graph.
"""

from __future__ import annotations

import sys
from types import CodeType, FunctionType
from typing import Any

from . import our_frames, tracing

_marked: set[int] = set()


def install(_module: Any) -> None:
    """Mark all of our functions; again whenever more of them were loaded."""
    compiler = sys.modules.get("torch.compiler")
    known = getattr(compiler, "is_dynamo_compiling", None) or getattr(compiler, "is_compiling", None)
    tracing.is_compiling = known or tracing.is_compiling
    skip = getattr(sys.modules.get("torch._dynamo.eval_frame"), "skip_code", None)
    if skip is None:
        return
    package = __name__.rpartition(".")[0] + "."
    for name, module in list(sys.modules.items()):
        if name.startswith(package):
            for value in list(vars(module).values()):
                _mark(value, skip)


def _mark(value: Any, skip: Any) -> None:
    if isinstance(value, FunctionType):
        value = value.__code__
    if isinstance(value, CodeType):
        if our_frames.is_ours(value) and id(value) not in _marked:
            _marked.add(id(value))
            skip(value)
            for constant in value.co_consts:
                _mark(constant, skip)
    elif isinstance(value, type):
        for member in list(vars(value).values()):
            if isinstance(member, FunctionType):
                _mark(member, skip)
