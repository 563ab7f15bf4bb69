"""Losses that an object or a file keeps over the steps with their graph, where a step is a function of its own.

    def training_step(self, batch, batch_idx):      def train_step(self, batch):
        out = self.policy(*batch)                       loss = self.model(batch)
        self.history.append(out)                        loss.backward()
        return out["loss"]                              self.losses.append(loss)

Lightning goes backward with what ``training_step`` answers, transformers' Trainer with what ``compute_loss`` does; a step of
the program's own goes backward itself and is called in a loop. What is emptied, replaced or bounded anywhere does not grow.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from crashcart.readers.code._edits import replaced
from crashcart.readers.code._kept_values import cut_off, edits_for, sources, uses, went_backward
from crashcart.readers.code._loops import last_name, loop_of, loops_of, receiver
from crashcart.readers.code.source import FUNCTIONS, inside

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.model import Fact
    from crashcart.readers.code._loops import Frame, Loops
    from crashcart.readers.code.program import Program

_BEGIN = {"__init__", "__post_init__", "setup", "on_fit_start", "on_train_start", "<module>"}
_EMPTIES = {"clear", "pop", "popleft", "popitem"}
_EMPTY = {"list", "dict", "defaultdict", "zeros", "tensor", "OrderedDict"}


def look(program: Program) -> Iterator[Fact]:
    """``code.graph_kept``: what is kept and in what, with the edit that cuts it off."""
    loops = loops_of(program)
    for frame in loops.frames:
        if isinstance(frame.node, FUNCTIONS) and (names := _losses(loops, frame)):
            yield from _kept(program, frame, names)


def _kept(program: Program, frame: Frame, names: set[str]) -> Iterator[Fact]:
    losses = sources(frame, names, frame.node)
    for kept, holder in uses(frame, frame.node):
        name = kept.id if isinstance(kept, ast.Name) else next(iter(_name(kept)), "")
        if name not in losses or loop_of(kept) is not None:
            continue
        if isinstance(kept, ast.Name) and cut_off(frame, kept, frame.node):
            continue
        if _grows(program, frame, holder):
            if isinstance(kept, ast.Name):
                edits = edits_for(frame, kept, frame.node)
            else:
                edits = (replaced(frame.source, kept, f"{frame.source.written(kept)}.detach()"),)
            value = {"kept": name, "holder": holder, "edits": edits}
            yield frame.source.fact("code.graph_kept", value, kept)


def _losses(loops: Loops, frame: Frame) -> set[str]:
    """The names in a function that go backward in each step, here or in the framework that calls it."""
    bases = [last_name(base) for base in frame.owner.bases] if frame.owner is not None else []
    if frame.name == "training_step" and any(one.endswith("Module") for one in bases):
        return _answered(frame)
    if frame.name == "compute_loss" and any(one.endswith("Trainer") for one in bases):
        return _answered(frame)
    backward = [call for call in frame.calls if loops.is_backward(call) and loop_of(call) is None]
    if not backward or not any(loop_of(call) is not None for _, call in loops.callers(frame)):
        return set()
    return {name for call in backward for name in went_backward(call)}


def _answered(frame: Frame) -> set[str]:
    """What a function answers with: ``loss``, ``out["loss"]``, ``{"loss": loss}``, ``(loss, out) if both else loss``."""
    answers = [node.value for node in frame.source.nodes(ast.Return) if inside(node, *FUNCTIONS) is frame.node]
    found: set[str] = set()
    for answer in answers:
        inner = [answer.body, answer.orelse] if isinstance(answer, ast.IfExp) else [answer]
        for one in inner:
            if isinstance(one, ast.Dict):
                parts: list[ast.expr | None] = [
                    value for key, value in zip(one.keys, one.values, strict=True) if _says_loss(key)
                ]
            else:
                parts = list(one.elts[:1]) if isinstance(one, ast.Tuple) else [one]
            found |= {name for part in parts for name in _name(part)}
    return found


def _says_loss(key: ast.expr | None) -> bool:
    return isinstance(key, ast.Constant) and key.value == "loss"


def _name(node: ast.expr | None) -> set[str]:
    """``loss``, and ``out`` of ``out["loss"]`` and ``out.loss``."""
    if isinstance(node, ast.Subscript):
        node = node.value if _says_loss(node.slice) else None
    elif isinstance(node, ast.Attribute):
        node = node.value if node.attr == "loss" else None
    return {node.id} if isinstance(node, ast.Name) else set()


def _grows(program: Program, frame: Frame, holder: str) -> bool:
    """Whether a holder outlives the step, was made empty, and nothing ever empties it."""
    name = holder.split("[", maxsplit=1)[0]
    last = name.rpartition(".")[2]
    own = name.startswith("self.") and name.count(".") == 1
    if not own and (not name.isidentifier() or _local(frame, name)):
        return False
    made = 0
    for source in program.sources if own else (frame.source,):
        given: list[ast.Assign | ast.AnnAssign] = [*source.nodes(ast.Assign), *source.nodes(ast.AnnAssign)]
        for node in given:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            if not any(isinstance(one, (ast.Name, ast.Attribute)) and last_name(one) == last for one in targets):
                continue
            if _goes_on(node.value, last):
                continue
            if not _empty(node.value) or getattr(inside(node, *FUNCTIONS), "name", "<module>") not in _BEGIN:
                return False
            made += 1
        for call in source.nodes(ast.Call):
            if last_name(call.func) in _EMPTIES and last_name(receiver(call)) == last:
                return False
        if any(last_name(one) == last for node in source.nodes(ast.Delete) for one in node.targets):
            return False
    return made > 0


def _local(frame: Frame, name: str) -> bool:
    said = {one for node in ast.walk(frame.node) if isinstance(node, ast.Global) for one in node.names}
    if name in said:
        return False
    arguments = [one.arg for one in ast.walk(frame.node) if isinstance(one, ast.arg)]
    return name in arguments or any(
        isinstance(one, ast.Name) and one.id == name and isinstance(one.ctx, ast.Store) for one in ast.walk(frame.node)
    )


def _goes_on(value: ast.expr | None, last: str) -> bool:
    """``self.total = self.total + loss``: no new beginning."""
    return isinstance(value, ast.BinOp) and last in {last_name(value.left), last_name(value.right)}


def _empty(value: ast.expr | None) -> bool:
    """``[]``, ``{}``, ``0.0``, ``defaultdict(list)``, ``{"loss": []}``; a queue with a bound is none."""
    if isinstance(value, (ast.List, ast.Tuple)):
        return not value.elts
    if isinstance(value, ast.Dict):
        return all(_empty(one) for one in value.values)
    if isinstance(value, ast.Call):
        return last_name(value.func) in _EMPTY
    return isinstance(value, ast.Constant) and value.value == 0
