"""Models that a program builds for itself and never spreads over the ranks: an EMA copy, a model that is merged on the CPU.

    ema = copy.deepcopy(model)          model = GPT(config)
    accelerator.save_model(ema, path)   torch.save(model.state_dict(), path)

Taking their weights waits for nobody, whatever is done to the model that is trained.
"""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from crashcart.readers.code.source import FUNCTIONS, name_of, parents

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["own_model"]

SPREADS = re.compile(r"(?i)prepare|setup|fsdp|shard|wrap|initialize|parallel|distribut")


def own_model(node: ast.AST | None) -> bool:
    """Whether a name is a model that was built in sight and handed to nothing that could spread it."""
    if not isinstance(node, ast.Name):
        return False
    for scope in parents(node):
        if isinstance(scope, FUNCTIONS) and any(one.arg == node.id for one in _parameters(scope)):
            return False
        if isinstance(scope, (*FUNCTIONS, ast.Module)):
            given = list(_given(scope, node.id))
            if given:
                return all(_builds(value) for value in given) and not _handed_on(scope, node.id)
    return False


def _parameters(function: ast.FunctionDef | ast.AsyncFunctionDef) -> list[ast.arg]:
    return [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]


def _given(scope: ast.AST, name: str) -> Iterator[ast.expr]:
    """What a scope assigns to a name, alone or among others."""
    for one in ast.walk(scope):
        if isinstance(one, ast.Assign) and any(_holds(target, name) for target in one.targets):
            yield one.value


def _holds(target: ast.expr, name: str) -> bool:
    return any(isinstance(one, ast.Name) and one.id == name for one in getattr(target, "elts", [target]))


def _builds(value: ast.expr) -> bool:
    """A copy, or an object of a class; what a function returns may be spread already."""
    last = name_of(value).rpartition(".")[2] if isinstance(value, ast.Call) else ""
    return not SPREADS.search(last) and (last in {"deepcopy", "from_pretrained"} or last[:1].isupper())


def _handed_on(scope: ast.AST, name: str) -> bool:
    return any(
        isinstance(one, ast.Call)
        and SPREADS.search(name_of(one.func))
        and any(_holds(part, name) for part in (*one.args, *(word.value for word in one.keywords)))
        for one in ast.walk(scope)
    )
