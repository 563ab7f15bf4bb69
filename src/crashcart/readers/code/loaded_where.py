"""Checkpoints with the state of an optimizer that ``torch.load`` puts back where they were saved from.

Without ``map_location`` a tensor that was saved from ``cuda:0`` goes to ``cuda:0``, whichever rank loads it: every rank then
holds the whole checkpoint on one card, beside the training.
"""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from crashcart.model import Edit, Span
from crashcart.readers.code._loops import loops_of, receiver, statement, within
from crashcart.readers.code.source import keyword, parents

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.model import Fact
    from crashcart.readers.code._loops import Frame
    from crashcart.readers.code.program import Program

_OPTIMIZER = re.compile(r"optim|opt\b", re.IGNORECASE)
_STATE = re.compile(r"optim|opt\b|sched|scaler", re.IGNORECASE)
_RANK = re.compile(r"rank|is_main|is_master|local_master", re.IGNORECASE)


def look(program: Program) -> Iterator[Fact]:
    """``code.loaded_in_place``: such a load, with ``map_location="cpu"`` put into it."""
    loops = loops_of(program)
    for source in program.sources:
        if any(name.startswith("torch_xla") for name in source.names.values()):
            continue  # saved from the host, whatever card there is
        for call in source.calls("torch.load"):
            if (
                keyword(call, "map_location", 1) is not None
                or any(one.arg is None for one in call.keywords)
                or not call.args
            ):
                continue
            frame = loops.frame(call)
            if not _restores_optimizer(frame, call) or _one_rank(call) or _put_aside(frame, call):
                continue
            end = source.offset(call.args[-1].end_lineno or call.lineno, call.args[-1].end_col_offset or 0)
            edit = Edit(Span(source.path, end, end, call.lineno), ', map_location="cpu"')
            yield source.fact("code.loaded_in_place", {"distributed": loops.distributed, "edits": (edit,)}, call)


def _restores_optimizer(frame: Frame, call: ast.Call) -> bool:
    """Whether a model and its optimizer get their state back from what is loaded here."""
    at = statement(call)
    names = {ast.unparse(target) for target in at.targets} if isinstance(at, ast.Assign) else set()
    restored: list[str] = []
    for other in frame.named("load_state_dict"):
        if other.args:
            given = {ast.unparse(one) for one in ast.walk(other.args[0]) if isinstance(one, (ast.Name, ast.Attribute))}
            if given & names or within(call, other):
                restored.append(ast.unparse(receiver(other)))
    state = [one for one in restored if _OPTIMIZER.search(one)]
    return bool(state) and any(not _STATE.search(one) for one in restored)


def _put_aside(frame: Frame, call: ast.Call) -> bool:
    """Whether the same function saved what it loads: state that is put aside for a moment, and stays where it is."""
    path = ast.dump(call.args[0])
    return any(ast.dump(one) == path for save in frame.named("save") for one in save.args[1:2])


def _one_rank(call: ast.Call) -> bool:
    return any(isinstance(above, ast.If) and _RANK.search(ast.unparse(above.test)) for above in parents(call))
