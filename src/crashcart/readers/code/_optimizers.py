"""Calls that make an optimizer, however its class is found, and the dicts of options that they are given."""

from __future__ import annotations

import ast
import re
from functools import lru_cache
from typing import TYPE_CHECKING

from crashcart.readers.code.source import inside, name_of, parent

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.readers.code.program import Program
    from crashcart.readers.code.source import Function, Source

__all__ = ["NUMBERS", "is_optimizer", "options_of", "spread_names"]

OPTIMIZER = re.compile(
    r"(?:^|\.)(?:optim\.\w+|Adam\w*|SGD|RMSprop|Adagrad|Adadelta|Adafactor|Lion\w*|LAMB|Lamb|LARS|NAdam|RAdam|ASGD|Rprop|"
    r"FusedAdam|FusedLAMB|DeepSpeedCPUAdam|Muon|Prodigy|DAdapt\w+)(?:8bit)?$"
)
NUMBERS = {"lr", "weight_decay", "eps", "momentum", "alpha", "rho", "betas", "max_lr", "base_lr", "initial_lr", "lr_decay"}


def options_of(source: Source, spread: set[str]) -> Iterator[tuple[str, ast.expr]]:
    """The numbers in dicts of options: ``{"params": ..., "lr": x}``, and those that are ``spread`` into an optimizer."""
    dicts: list[ast.Dict | ast.Call] = [*source.nodes(ast.Dict), *source.calls("dict")]
    for options in dicts:
        given = dict(named(options))
        if (isinstance(options, ast.Dict) and "params" in given) or spread & known_by(options):
            yield from ((name, value) for name, value in given.items() if name in NUMBERS)


def is_optimizer(source: Source, call: ast.Call) -> bool:
    """``AdamW(...)``, ``getattr(torch.optim, name)(...)``, ``OPTIMIZERS[name](...)``."""
    made = call.func
    if isinstance(made, ast.Call) and name_of(made.func) == "getattr" and made.args:
        return source.called(made.args[0]).endswith("optim")
    if isinstance(made, ast.Subscript):
        return bool(re.search(r"(?i)optim", name_of(made)))
    return _names_one(source.called(made))


@lru_cache(maxsize=4096)
def _names_one(name: str) -> bool:
    return OPTIMIZER.search(name) is not None


def spread_names(program: Program) -> set[str]:
    """The names of what optimizers are given with two stars: ``AdamW(params, **options)``, ``**cfg.optim.kwargs``."""
    calls = [call for source in program.sources for call in source.nodes(ast.Call) if is_optimizer(source, call)]
    given = [one.value for call in calls for one in call.keywords if one.arg is None]
    return {name_of(one).rpartition(".")[2] for one in given} - {""}


def known_by(options: ast.Dict | ast.Call) -> set[str]:
    """What a dict of options is known by: the name that it is given, or the function that returns it."""
    if isinstance(options, ast.Call) and name_of(options.func) != "dict":
        return set()
    above = parent(options)
    if isinstance(above, ast.Assign):
        return {name_of(one).rpartition(".")[2] for one in above.targets}
    function: Function | None = inside(options, ast.FunctionDef) or inside(options, ast.AsyncFunctionDef)
    return {function.name} if isinstance(above, ast.Return) and function is not None else set()


def named(options: ast.Dict | ast.Call) -> Iterator[tuple[str, ast.expr]]:
    if isinstance(options, ast.Call):
        yield from ((one.arg, one.value) for one in options.keywords if one.arg)
        return
    for key, value in zip(options.keys, options.values, strict=True):
        if isinstance(key, ast.Constant) and isinstance(key.value, str):
            yield key.value, value
