"""Edits for a call that every rank has to make: the same wait for those who leave before it, and writing left to rank 0.

def export(trainer, model):                      def export(trainer, model):
    mean = reduce_over_ranks(trainer)                mean = reduce_over_ranks(trainer)
    model.save_pretrained("out")         ->          if torch.distributed.get_rank() == 0:
                                                         model.save_pretrained("out")
"""

from __future__ import annotations

import ast
from itertools import groupby
from typing import TYPE_CHECKING

from crashcart.model import Edit, Span
from crashcart.readers.code.edits import indent_of, own_lines, wrapped
from crashcart.readers.code.source import name_of
from crashcart.readers.interpreter.libraries.collectives import waits_of
from crashcart.readers.interpreter.trace import Call

if TYPE_CHECKING:
    from crashcart.readers.code.source import Source

__all__ = ["waits_too", "written_by_first"]

_WRITES = frozenset(
    ["save", "savez", "save_pretrained", "dump", "savefig", "imsave", "imwrite", "to_csv", "to_json", "write_text", "print"]
)
_TEST = "if torch.distributed.get_rank() == 0:"


def waits_too(source: Source, leaving: ast.If, call: ast.Call) -> tuple[Edit, ...]:
    """The same call for those who are sent away before it: ``if rank != 0: return`` becomes a wait and a return."""
    last = leaving.body[-1]
    if (
        not isinstance(last, (ast.Return, ast.Continue))
        or not isinstance(getattr(last, "value", None), (ast.Constant, type(None)))
        or last.lineno == leaving.lineno
        or not all(isinstance(value, ast.Constant) for value in (*call.args, *(word.value for word in call.keywords)))
    ):
        return ()
    start = source.offset(last.lineno, 0)
    text = f"{indent_of(source, last.lineno)}{source.written(call)}\n"
    return (Edit(Span(source.path, start, start, last.lineno), text),)


def written_by_first(place: Call) -> tuple[Edit, ...]:
    """What a function writes at its own level, left to rank 0; none where its file does not import torch."""
    function = place.function
    if function is None or place.body is None or isinstance(function.node, ast.Lambda):
        return ()
    source = function.source
    if source.names.get("torch") != "torch":
        return ()
    waiting = {event.node for event in place.body.events() if isinstance(event, Call) and waits_of(event) is not None}
    runs = [list(run) for wanted, run in groupby(function.node.body, lambda node: _writes(source, node, waiting)) if wanted]
    return tuple(edit for run in runs for edit in wrapped(source, run[0], run[-1], [_TEST], []))


def _writes(source: Source, node: ast.stmt, waiting: set[ast.AST]) -> bool:
    """A statement of its own that does nothing but write."""
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Call)
        and own_lines(source, node)
        and name_of(node.value.func).split(".")[-1] in _WRITES
        and not any(part in waiting for part in ast.walk(node))
    )
