"""Losses that a hook of a trainer keeps with their graph and also hands back, to go backward: Lightning, the HF Trainer.

def training_step(self, batch, at):                     def compute_loss(self, model, inputs, ...):
    loss = self.model(batch)                                out = model(**inputs)
    self.history.append(loss)                               self.seen.append(out.loss)
    return loss                                             return out.loss

A list that is emptied somewhere, as at the end of each epoch, is left alone.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from crashcart.readers.code._edits import replaced
from crashcart.readers.code._keepers import CUTS
from crashcart.readers.code._paths import given_to
from crashcart.readers.code.grown import TAKES_OUT
from crashcart.readers.code.source import FUNCTIONS, inside, name_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.model import Fact
    from crashcart.readers.code.program import Program
    from crashcart.readers.code.source import Function, Source

HOOKS = {"training_step", "compute_loss"}
KINDS = ("LightningModule", "Trainer")


def look(program: Program) -> Iterator[Fact]:
    """``code.graph_kept``: what is kept and in what, with the edit that cuts it off."""
    for source in program.sources:
        for owner in source.nodes(ast.ClassDef):
            if not any(name_of(base).endswith(KINDS) for base in owner.bases):
                continue
            for hook in (one for one in owner.body if isinstance(one, FUNCTIONS) and one.name in HOOKS):
                losses = _returned(source, hook)
                for kept, holder in _kept(hook):
                    text = source.written(kept)
                    if text in losses and not _emptied(owner, holder) and not _cut(source, hook, kept):
                        value = {"kept": text, "holder": holder, "edits": (replaced(source, kept, f"{text}.detach()"),)}
                        yield source.fact("code.graph_kept", value, kept)


def _returned(source: Source, hook: Function) -> set[str]:
    """What the hook hands back as the loss: alone, first of several, or under that name."""
    found: set[str] = set()
    for node in ast.walk(hook):
        value = node.value if isinstance(node, ast.Return) and inside(node, *FUNCTIONS) is hook else None
        for one in (value.body, value.orelse) if isinstance(value, ast.IfExp) else (value,):
            first = one.elts[0] if isinstance(one, ast.Tuple) and one.elts else one
            if isinstance(first, ast.Dict):
                pairs = zip(first.keys, first.values, strict=True)
                first = next((item for key, item in pairs if isinstance(key, ast.Constant) and key.value == "loss"), None)
            if isinstance(first, (ast.Name, ast.Attribute, ast.Subscript)):
                found.add(source.written(first))
    return found


def _kept(hook: Function) -> Iterator[tuple[ast.expr, str]]:
    for node in ast.walk(hook):
        value: ast.expr | None = None
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "append" and node.args:
            holder, value = name_of(node.func.value), node.args[0]
        elif isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Add):
            holder, value = name_of(node.target), node.value
        if value is not None and holder.startswith("self."):
            for one in value.values if isinstance(value, ast.Dict) else [value]:
                yield one, holder


def _emptied(owner: ast.ClassDef, holder: str) -> bool:
    """Whether something takes it out again, or begins anew."""
    for node in ast.walk(owner):
        if isinstance(node, ast.Call) and name_of(node.func).rpartition(".") in [(holder, ".", one) for one in TAKES_OUT]:
            return True
        function = inside(node, *FUNCTIONS) if isinstance(node, (ast.Assign, ast.Delete)) else None
        targets = node.targets if isinstance(node, (ast.Assign, ast.Delete)) else []
        later = function is not None and getattr(function, "name", "") != "__init__"
        if later and any(name_of(one).startswith(holder) for one in targets):
            return True
    return not any(
        isinstance(node, (ast.Assign, ast.AnnAssign))
        and any(name_of(one) == holder for one in (node.targets if isinstance(node, ast.Assign) else [node.target]))
        for node in ast.walk(owner)
    )


def _cut(source: Source, hook: Function, kept: ast.expr) -> bool:
    """Whether the name was set to something without a graph."""
    given = given_to(source, name_of(kept), hook) if isinstance(kept, ast.Name) else []
    return bool(given) and any(
        isinstance(one, ast.Call) and name_of(one.func).rpartition(".")[2] in CUTS for one in ast.walk(given[-1])
    )
