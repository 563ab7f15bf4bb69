"""What a function writes, left to the first rank, where all ranks come to call it now.

def export(trainer, model):                      def export(trainer, model):
    mean = reduce_over_ranks(trainer)                mean = reduce_over_ranks(trainer)
    model.save_pretrained("out")         ->          if torch.distributed.get_rank() == 0:
                                                         model.save_pretrained("out")
"""

from __future__ import annotations

import ast
from itertools import groupby
from typing import TYPE_CHECKING

from crashcart.readers.code._blocks import own_lines, wrapped
from crashcart.readers.code._guards import side_at
from crashcart.readers.code.source import FUNCTIONS, inside, name_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.model import Edit
    from crashcart.readers.code._callers import Callers
    from crashcart.readers.code.source import Source

__all__ = ["written_by_first"]

WRITES = frozenset(
    {"save", "savez", "save_pretrained", "dump", "savefig", "imsave", "imwrite", "to_csv", "to_json", "write_text", "print"}
)
TEST = "if torch.distributed.get_rank() == 0:"


def written_by_first(callers: Callers, source: Source, place: ast.Call) -> tuple[Edit, ...]:
    """The edits; none where it is not known which function is called, or where that asks for the rank itself."""
    meant = callers.meant(source, place)
    if len(meant) != 1 or meant[0][0].names.get("torch") != "torch":
        return ()
    home, function = meant[0]
    runs = [list(run) for wanted, run in groupby(function.body, lambda node: _writes(home, node)) if wanted]
    return tuple(edit for run in runs for edit in wrapped(home, run[0], run[-1], [TEST], []))


def _writes(source: Source, node: ast.stmt) -> bool:
    """A statement of its own that does nothing but write, and that every rank comes to."""
    calls: Iterator[ast.Call] = (one for one in ast.walk(node) if isinstance(one, ast.Call))
    alone = isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) and own_lines(source, node)
    return (
        alone
        and name_of(node.value.func).split(".")[-1] in WRITES  # type: ignore[attr-defined]
        and side_at(node, source) is None
        and inside(node, *FUNCTIONS) is not None
        and not any(name_of(one.func).split(".")[-1] in {"all_reduce", "gather", "barrier", "all_gather"} for one in calls)
    )
