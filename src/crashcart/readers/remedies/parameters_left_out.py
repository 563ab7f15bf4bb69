"""An optimizer that holds none of the weights that are trained: they came into the model after it was made.

    optimizer = torch.optim.Adam(model.parameters())
    model.head = nn.Linear(64, 4)                       new weights, which the optimizer does not know

What the model has and the optimizer does not is added before the training begins; frozen weights stay out.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from crashcart.readers.code.edits import line_before, own_lines, step_of
from crashcart.readers.code.source import FUNCTIONS
from crashcart.readers.remedies._scene import remedy

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.model import Fact
    from crashcart.readers.code.source import Source
    from crashcart.readers.remedies._scene import Scene


def look(scene: Scene) -> Iterator[Fact]:
    """Where the recording saw an optimizer none of whose tensors ever got a gradient, and one optimizer is made."""
    if not scene.optimizer_without_gradients:
        return
    made = [
        (source, assign)
        for source in scene.sources
        for assign in source.nodes(ast.Assign)
        if isinstance(assign.value, ast.Call)
        and source.called(assign.value.func).startswith("torch.optim.")
        and ".lr_scheduler" not in source.called(assign.value.func)
    ]
    if len(made) != 1 or len(made[0][1].targets) != 1:
        return
    source, assign = made[0]
    model, optimizer = _model_of(source, assign.value), source.written(assign.targets[0])
    loop = _training_loop(source, assign, optimizer)
    if not model or loop is None or not own_lines(source, assign):
        return
    known = f'known = {{id(weight) for group in {optimizer}.param_groups for weight in group["params"]}}'
    new = f"new = [weight for weight in {model}.parameters() if weight.requires_grad and id(weight) not in known]"
    lines = [known, new, "if new:", f'{step_of(source)}{optimizer}.add_param_group({{"params": new}})']
    why = (
        f"none of the optimizer's parameters got a gradient: the current weights of {model} were created after the optimizer"
    )
    yield from remedy(
        ("silent/not-learning", "silent/nothing-trained"), "Add the missing weights to the optimizer", "changes-training", why,
        [line_before(source, loop, *lines)], source.evidence(assign),
    )  # fmt: skip


def _model_of(source: Source, made: ast.expr) -> str:
    """The one thing of whose ``parameters()`` an optimizer is made."""
    owners = {
        source.written(node.func.value)
        for node in ast.walk(made)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in {"parameters", "named_parameters"}
    }
    name = next(iter(owners)) if len(owners) == 1 else ""
    return name.rpartition(".")[0] if name.count(".") > 1 else name  # ``self.net.head`` is a part of ``self.net``


def _training_loop(source: Source, assign: ast.Assign, optimizer: str) -> ast.stmt | None:
    """The outermost loop around the optimizer's step, where the optimizer and the model are called as they are where it is made."""
    steps = [
        node
        for node in source.nodes(ast.Expr)
        if isinstance(node.value, ast.Call)
        and isinstance(node.value.func, ast.Attribute)
        and node.value.func.attr == "step"
        and source.written(node.value.func.value) == optimizer
    ]
    if len(steps) != 1:
        return None
    function = source.around(steps[0], *FUNCTIONS)
    same = function is source.around(assign, *FUNCTIONS)
    is_attribute = optimizer.startswith("self.") and source.around(steps[0], ast.ClassDef) is source.around(
        assign, ast.ClassDef
    )
    if not (same or is_attribute):
        return None
    loops = [
        node
        for node in source.parents(steps[0])
        if isinstance(node, (ast.For, ast.While)) and source.around(node, *FUNCTIONS) is function
    ]
    return loops[-1] if loops else None
