"""What ``**options`` hands to a call: a mapping of the code, a section of the config, or what a caller gave.

DataLoader(data, **{"num_workers": 4})      DataLoader(data, **cfg["loader"])      def make(data, **options): DataLoader(data, **options)
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from crashcart.readers.code._callers import function_of
from crashcart.readers.code._constants import constant
from crashcart.readers.code._parts_of_settings import path_of
from crashcart.readers.code._paths import given_to
from crashcart.readers.code.source import name_of
from crashcart.record import field, record

if TYPE_CHECKING:
    from crashcart.readers.code._given import Giving, Site
    from crashcart.readers.code.source import Function, Source

__all__ = ["Spread", "spread"]

COPIES = {"dict", "vars", "asdict", "to_container", "deepcopy"}


@record
class Spread:
    """Arguments that ``**options`` adds, each with its file, and the parts of the settings that are handed over whole."""

    given: dict[str, tuple[Source, ast.expr]] = field(default_factory=dict)
    parts: list[str] = field(default_factory=list)
    complete: bool = True

    def join(self, other: Spread) -> None:
        self.given |= other.given
        self.parts += other.parts
        self.complete = self.complete and other.complete


def spread(giving: Giving, source: Source, call: ast.Call, site: Site | None, depth: int = 2) -> Spread:
    """What ``**options`` adds, each with the file in which it stands, and whether that is all known."""
    found = Spread()
    for one in (word.value for word in call.keywords if word.arg is None):
        function = function_of(one)
        if (
            isinstance(one, ast.Name)
            and function is not None
            and depth
            and one.id == getattr(function.args.kwarg, "arg", None)
        ):
            found.join(_handed_on(giving, function, site, depth - 1))
            continue
        given = given_to(source, one.id, function) if isinstance(one, ast.Name) else [one]
        at, options = constant(giving.program, source, one) or (source, given[0] if len(given) == 1 else None)
        pairs = _pairs(options)
        part = path_of(source, _copied(options or one), site) if pairs is None else ""
        found.parts += [part] if part else []
        found.complete = found.complete and (pairs is not None or bool(part))
        found.given |= {name: (at, value) for name, value in (pairs or {}).items()}
        if isinstance(options, ast.Call) and part:  # dict(cfg["loader"], num_workers=4)
            found.given |= {word.arg: (at, word.value) for word in options.keywords if word.arg}
        if isinstance(one, ast.Name) and found.complete:
            found.given |= {name: (source, value) for name, value in _added(source, one).items()}
    return found


def _handed_on(giving: Giving, function: Function, site: Site | None, depth: int) -> Spread:
    """What a function that takes ``**options`` was given of them at one place."""
    if site is None:
        return Spread(complete=False)
    own = {one.arg for one in (*function.args.args, *function.args.kwonlyargs)}
    found = spread(giving, site[0], site[1], None, depth)
    found.given |= {word.arg: (site[0], word.value) for word in site[1].keywords if word.arg and word.arg not in own}
    return found


def _copied(node: ast.expr) -> ast.expr:
    """``dict(cfg["loader"])``, ``vars(cfg.loader)``, ``cfg.loader.model_dump()``: the section itself."""
    if (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in {"copy", "model_dump", "dict"}
    ):
        return node.func.value
    if isinstance(node, ast.Call) and name_of(node.func).rpartition(".")[2] in COPIES and len(node.args) >= 1:
        return _copied(node.args[0])
    return node


def _pairs(node: ast.expr | None) -> dict[str, ast.expr] | None:
    """``{"num_workers": 4}`` and ``dict(num_workers=4)``."""
    if isinstance(node, ast.Dict):
        pairs = zip(node.keys, node.values, strict=True)
        return {str(key.value): value for key, value in pairs if isinstance(key, ast.Constant)}
    if isinstance(node, ast.Call) and name_of(node.func) == "dict" and not node.args:
        return {word.arg: word.value for word in node.keywords if word.arg}
    return None


def _added(source: Source, options: ast.Name) -> dict[str, ast.expr]:
    """What a function puts into its options later: ``options.update(pin_memory=True)``, ``options["num_workers"] = 4``."""
    found: dict[str, ast.expr] = {}
    function = function_of(options)
    for node in ast.walk(function or source.tree):
        if isinstance(node, ast.Call) and name_of(node.func) == f"{options.id}.update":
            found |= {word.arg: word.value for word in node.keywords if word.arg}
            found |= _pairs(node.args[0] if node.args else None) or {}
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Subscript):
            into, key = node.targets[0].value, node.targets[0].slice
            if isinstance(into, ast.Name) and into.id == options.id and isinstance(key, ast.Constant):
                found[str(key.value)] = node.value
    return found
