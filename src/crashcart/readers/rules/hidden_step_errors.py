"""Errors of a training step that are caught, whatever they are, and not passed on.

``except Exception: continue`` around a backward pass hides every defect, and on several ranks the one that failed goes on with the
next batch while the others wait in this one. A handler that raises again, ends the program, or is for one kind of error is not meant.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from crashcart.readers.code.edits import alone, line_after, replaced
from crashcart.readers.code.source import name_of
from crashcart.readers.interpreter.trace import Call, Leave, Region

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.model import Edit, Fact
    from crashcart.readers.code.source import Source
    from crashcart.readers.interpreter.execution import Execution

_BROAD = {"Exception", "BaseException"}
_SAYS = {
    "print", "info", "warning", "warn", "error", "debug", "exception", "log", "write", "print_exc", "format_exc", "append", "str",
    "format", "repr", "type", "zero_grad", "empty_cache", "collect",
}  # fmt: skip
# With these every backward pass waits for the other ranks.
_TOGETHER = (
    "torch.nn.parallel.DistributedDataParallel", "apex.parallel.DistributedDataParallel", "accelerate.Accelerator",
    "torch.distributed.fsdp.FullyShardedDataParallel", "torch.distributed.fsdp.fully_shard", "deepspeed.initialize",
    "horovod.torch.DistributedOptimizer", "lightning.Fabric", "lightning.fabric.Fabric",
)  # fmt: skip


def look(execution: Execution) -> Iterator[Fact]:
    """``code.step_error_hidden``: such a handler, with ``raise`` put at its end."""
    distributed = bool(execution.trace.named(*_TOGETHER)) and execution.ranks != 1
    reported: set[ast.AST] = set()
    for call in execution.backwards:
        loops = call.region.loops()
        for region in call.region.above():
            if region.kind != "try" or not loops or not loops[0].holds(region) or region.parent is None:
                continue
            for handler in region.parent.children:
                if (
                    isinstance(handler, Region)
                    and _handles(region, handler)
                    and handler.node not in reported
                    and _hides(handler)
                ):
                    reported.add(handler.node)  # type: ignore[arg-type]
                    yield _fact(handler, distributed=distributed)


def _handles(region: Region, handler: Region) -> bool:
    return handler.kind == "handler" and isinstance(region.node, ast.Try) and handler.node in region.node.handlers


def _hides(handler: Region) -> bool:
    """Whether a handler takes every error and goes on, after saying so at most."""
    node = handler.node
    if not isinstance(node, ast.ExceptHandler):
        return False
    kinds = node.type.elts if isinstance(node.type, ast.Tuple) else [node.type]
    if not any(kind is None or name_of(kind).rpartition(".")[2] in _BROAD for kind in kinds):
        return False
    for event in handler.events():
        if isinstance(event, Leave) and event.kind in {"raise", "return", "break"}:
            return False
        if isinstance(event, Call) and event.method not in _SAYS:
            return False
    return not any(isinstance(child, Region) for child in handler.children)


def _fact(handler: Region, *, distributed: bool) -> Fact:
    node, source = handler.node, handler.source
    last = node.body[-1] if isinstance(node, ast.ExceptHandler) else ast.Pass()
    edits = (_raised(source, last),) if alone(source, last) else ()
    return source.fact("code.step_error_hidden", {"distributed": distributed, "edits": edits}, last)


def _raised(source: Source, last: ast.stmt) -> Edit:
    if isinstance(last, (ast.Pass, ast.Continue)):
        return replaced(source, last, "raise")
    return line_after(source, last, "raise")
