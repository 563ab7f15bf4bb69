"""Samplers for several ranks that are never told the epoch: every epoch then has the same order.

Lightning, accelerate, the Hugging Face Trainer and ignite tell it themselves. A sampler for evaluation, or one that does not
shuffle, needs none.
"""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from crashcart.readers.code._edits import alone, line_before, step_in
from crashcart.readers.code._loops import last_name, loops_of, statement, within
from crashcart.readers.code.source import keyword

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.model import Edit, Fact
    from crashcart.readers.code._loops import Frame, Loops
    from crashcart.readers.code.program import Program

_EVALUATION = re.compile(r"val|eval|test|infer|predict", re.IGNORECASE)
_EPOCH = re.compile(r"^(?:epoch|ep|e|epoch_idx|epoch_i|i_epoch|current_epoch)$")
_FRAMEWORKS = ("lightning", "pytorch_lightning", "accelerate", "transformers", "ignite", "mmengine", "composer")


def look(program: Program) -> Iterator[Fact]:
    """``code.same_order``: a shuffling sampler without ``set_epoch`` in the program, with the call put into the epoch loop."""
    if program.imports(*_FRAMEWORKS) or any("set_epoch" in source.text for source in program.sources):
        return
    loops = loops_of(program)
    for frame in loops.frames:
        for call in frame.named("DistributedSampler"):
            shuffle = keyword(call, "shuffle", 3)
            at = statement(call)
            if isinstance(shuffle, ast.Constant) and shuffle.value is False:
                continue
            if _EVALUATION.search(f"{frame.name} {ast.unparse(at)}") and "train" not in ast.unparse(at).lower():
                continue
            epoch = _epoch_loop(loops)
            if epoch is not None:
                yield frame.source.fact("code.same_order", {"edits": _edits(*epoch)}, call)


def _epoch_loop(loops: Loops) -> tuple[Loops, Frame, ast.For] | None:
    """The loop over epochs in which the program trains."""
    for frame in loops.frames:
        for loop in frame.source.nodes(ast.For):
            target = loop.target.id if isinstance(loop.target, ast.Name) else ""
            if not _EPOCH.search(target) or not within(loop, frame.node) or loops.frame(loop) is not frame:
                continue
            if any(within(call, loop) and loops.does(frame, call, "backward") for call in frame.calls):
                return loops, frame, loop
    return None


def _edits(loops: Loops, frame: Frame, loop: ast.For) -> tuple[Edit, ...]:
    """Tell the sampler of the loader that the epoch loop goes through, or the sampler itself where its name is known there."""
    first = loop.body[0]
    epoch = ast.unparse(loop.target)
    if not alone(frame.source, first):
        return ()
    for name in _names(frame, "DistributedSampler"):
        if not _conditional(frame, name):
            return (line_before(frame.source, first, f"{name}.set_epoch({epoch})"),)
    loader = _loader(loops, frame, loop)
    if not loader:
        return ()
    inner = step_in(frame.source)
    return (
        line_before(
            frame.source,
            first,
            f'if hasattr(getattr({loader}, "sampler", None), "set_epoch"):',
            f"{inner}{loader}.sampler.set_epoch({epoch})",
        ),
    )


def _names(frame: Frame, kind: str) -> Iterator[str]:
    for call in frame.named(kind):
        at = statement(call)
        if isinstance(at, ast.Assign) and at.value is call and isinstance(at.targets[0], (ast.Name, ast.Attribute)):
            yield ast.unparse(at.targets[0])


def _conditional(frame: Frame, name: str) -> bool:
    """Whether a sampler is also something else: ``None`` on one rank."""
    values = [
        node.value
        for node in frame.source.nodes(ast.Assign)
        if any(ast.unparse(target) == name for target in node.targets) and within(node, frame.node)
    ]
    return len(values) != 1


def _loader(loops: Loops, frame: Frame, loop: ast.For) -> str:
    """What the batches of an epoch come from: a loader looped over here, or handed to the function that does."""
    for inner in frame.source.nodes(ast.For):
        if within(inner, loop) and inner is not loop:
            names = [ast.unparse(one) for one in ast.walk(inner.iter) if isinstance(one, (ast.Name, ast.Attribute))]
            named = [one for one in names if re.search(r"load|_dl$", one) and not _EVALUATION.search(one)]
            if named:
                return max(named, key=len)
    for call in frame.calls:
        if within(call, loop) and loops.does(frame, call, "backward"):
            for one in call.args:
                if _is_loader(last_name(one)):
                    return ast.unparse(one)
            for callee in loops.callees(frame, call) if frame.owner is not None else ():
                if callee.owner is frame.owner and (own := _own_loader(callee)):
                    return own
    return ""


def _own_loader(method: Frame) -> str:
    """The loader of the same object that a method goes through: ``for batch in self.train_loader``."""
    for loop in method.source.nodes(ast.For):
        for one in ast.walk(loop.iter) if within(loop, method.node) else ():
            if isinstance(one, ast.Attribute) and ast.unparse(one.value) == "self" and _is_loader(one.attr):
                return ast.unparse(one)
    return ""


def _is_loader(name: str) -> bool:
    return bool(re.search(r"load|_dl$", name)) and not _EVALUATION.search(name)
