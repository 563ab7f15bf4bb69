"""A whole part of the settings handed on as arguments: ``DataLoader(data, **cfg.loader.train)``.

Its path is what a config file says before the argument: ``loader.train``. A loop over such a part gives each of its entries
once, ``{split: DataLoader(data, **options) for split, options in cfg.loader.items()}``: then the path ends with ``*``. One over
names that the code writes out, ``for split in ("train", "val"): DataLoader(data, **cfg.loader[split])``, has them all in its
path: ``loader.<train|val>``.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from crashcart.readers.code._callers import function_of
from crashcart.readers.code._given import argument
from crashcart.readers.code._paths import given_to
from crashcart.readers.code._settings import SETTINGS
from crashcart.readers.code.source import name_of, parents

if TYPE_CHECKING:
    from crashcart.readers.code._given import Site
    from crashcart.readers.code.source import Source

__all__ = ["path_of"]

PLAIN = frozenset({"dict", "to_container", "asdict", "vars", "copy", "deepcopy", "to_object"})
_DEPTH = 6


def path_of(source: Source, node: ast.expr, site: Site | None, depth: int = _DEPTH) -> str:
    """The path of a part of the settings; empty where it is not known to be one."""
    if depth == 0:
        return ""
    if isinstance(node, ast.Call):
        name = name_of(node.func).rpartition(".")[2]
        if name == "getattr" and len(node.args) > 1:
            return _below(source, node.args[0], node.args[1], site, depth)
        if name in {"get", "pop"} and isinstance(node.func, ast.Attribute) and node.args:
            return _below(source, node.func.value, node.args[0], site, depth)
        return path_of(source, node.args[0], site, depth - 1) if name in PLAIN and node.args else ""
    if isinstance(node, ast.Attribute):
        inner = path_of(source, node.value, site, depth - 1)
        if inner:
            return f"{inner}.{node.attr}"
        return node.attr if SETTINGS.search(name_of(node.value)) and not SETTINGS.search(node.attr) else ""
    if isinstance(node, ast.Subscript):
        return _below(source, node.value, node.slice, site, depth)
    return _name(source, node, site, depth) if isinstance(node, ast.Name) else ""


def _below(source: Source, value: ast.expr, key: ast.expr, site: Site | None, depth: int) -> str:
    """``cfg["loader"]`` and ``cfg.get("loader")``."""
    last = _word(key, site)
    if not last:
        return ""
    inner = path_of(source, value, site, depth - 1)
    if inner:
        return f"{inner}.{last}"
    return last if SETTINGS.search(name_of(value)) else ""


def _word(key: ast.expr, site: Site | None) -> str:
    """The name of an entry: written out, one of those that a loop goes over, or what the caller says."""
    if isinstance(key, ast.Name):
        if names := _listed(key):
            return f"<{'|'.join(names)}>"
        function = function_of(key)
        handed = argument(function, site[1], key.id) if function is not None and site is not None else None
        return _word(handed, None) if isinstance(handed, ast.Constant) else ""
    return key.value if isinstance(key, ast.Constant) and isinstance(key.value, str) else ""


def _listed(node: ast.Name) -> list[str]:
    """The words of ``for node in ("train", "val")`` around a name."""
    for above in parents(node):
        pairs = [(above.target, above.iter)] if isinstance(above, ast.For) else []
        if isinstance(above, (ast.DictComp, ast.ListComp, ast.GeneratorExp)):
            pairs = [(one.target, one.iter) for one in above.generators]
        for target, over in pairs:
            if isinstance(target, ast.Name) and target.id == node.id and isinstance(over, (ast.Tuple, ast.List)):
                names = [one.value for one in over.elts if isinstance(one, ast.Constant) and isinstance(one.value, str)]
                return names if len(names) == len(over.elts) else []
    return []


def _name(source: Source, node: ast.Name, site: Site | None, depth: int) -> str:
    function = function_of(node)
    if over := _drawn_from(node):
        inner = path_of(source, over, site, depth - 1)
        return f"{inner}.*" if inner else ""
    given = given_to(source, node.id, function)
    if given:
        return path_of(source, given[0], site, depth - 1) if len(given) == 1 else ""
    handed = argument(function, site[1], node.id) if function is not None and site is not None else None
    return path_of(site[0], handed, None, depth - 1) if handed is not None and site is not None else ""


def _drawn_from(node: ast.Name) -> ast.expr | None:
    """The ``x`` of ``for name, node in x.items()`` around a name."""
    for above in parents(node):
        pairs = [(above.target, above.iter)] if isinstance(above, ast.For) else []
        if isinstance(above, (ast.DictComp, ast.ListComp, ast.GeneratorExp)):
            pairs = [(one.target, one.iter) for one in above.generators]
        for target, over in pairs:
            method = name_of(over.func).rpartition(".")[2] if isinstance(over, ast.Call) else ""
            if (
                not isinstance(over, ast.Call)
                or not isinstance(over.func, ast.Attribute)
                or method not in {"items", "values"}
            ):
                continue
            second = target.elts[-1] if isinstance(target, ast.Tuple) and target.elts else target
            if isinstance(second, ast.Name) and second.id == node.id:
                return over.func.value
    return None
