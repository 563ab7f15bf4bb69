"""Every regular expression of crashcart, found in its source, with the method that it is used by.

The first argument of each call of ``re.search``, ``re.compile``, ``Pattern``, ``compiled`` and so on is worked out with the names of its
module. A name that is not one of these takes each value that a loop, an assignment or a call of its function gives it; where there is
none it stands for a piece of text.
"""

from __future__ import annotations

import ast
import builtins
import importlib
import itertools
import re
from functools import cache, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import crashcart
from crashcart import secret_forms, secret_search
from crashcart.cause import causes

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Found", "found"]

ROOT = Path(crashcart.__file__).parent
METHODS = frozenset({"compile", "search", "match", "fullmatch", "sub", "subn", "split", "findall", "finditer"})
ANCHORED = frozenset({"match", "fullmatch"})
TEXT = "some_text"
DEEPEST = 4
# Expressions that other modules, or users, hand over: those of the causes and of tokens are collected below.
ELSEWHERE = {
    ("cause.py", "self.pattern"),
    ("cause.py", "self.unless"),
    ("pattern.py", "pattern"),
    ("pattern.py", "self._source"),
    ("secret_search.py", "source"),
    ("stacks.py", "stack.pattern"),
    ("train/clipping/module_groups.py", "fnmatch.translate(pattern)"),
}


class Found(NamedTuple):
    """An expression, its flags, where it stands, and the methods by which it is used."""

    pattern: str | bytes
    flags: int
    where: str
    methods: frozenset[str]


def found() -> Iterator[Found]:
    """All of them."""
    uses = _uses()
    for path in sorted(ROOT.rglob("*.py")):
        if "inside" in path.relative_to(ROOT).parts[:1]:
            continue
        yield from _in_module(path, uses)
    for cause in causes():
        for phrase in cause.phrases:
            for pattern in filter(None, (phrase.pattern, phrase.unless)):
                yield Found(pattern, re.IGNORECASE, cause.id, frozenset({"search"}))
        for stack in cause.stacks:
            yield Found(stack.pattern, re.IGNORECASE, cause.id, frozenset({"search"}))
    for built in (secret_search._beginnings(), secret_search._programs()):
        yield Found(built.pattern, built.flags, "secret_search.py", frozenset({"finditer"}))
    for pattern in itertools.chain.from_iterable(secret_search._bodies().values()):
        yield Found(pattern, 0, "secret_search.py", frozenset({"match"}))
    for _, pattern, *_ in (*secret_forms.UNANCHORED, *secret_forms.PLACES):
        yield Found(pattern, 0, "secret_forms.py", frozenset({"finditer"}))


def _in_module(path: Path, uses: dict[tuple[str, str], set[str]]) -> Iterator[Found]:
    source = _source(path)
    for call in source.calls:
        method = _method(call)
        if not method or not call.args:
            continue
        methods = frozenset({method})
        holder = source.parents.get(call)
        if method in {"compile", "Pattern"}:
            named = holder.targets[0] if isinstance(holder, ast.Assign) else getattr(holder, "target", None)
            methods = frozenset(uses.get((source.name, named.id), ())) if isinstance(named, ast.Name) else frozenset()
        elif method == "compiled":
            methods = frozenset({holder.attr}) if isinstance(holder, ast.Attribute) else frozenset()
        where = f"{path.relative_to(ROOT)}:{call.lineno}"
        known = ast.unparse(call.args[0])
        built = method == "compile" and known.startswith("'|'.join(")
        if (str(path.relative_to(ROOT)), known) in ELSEWHERE or (built and source.name == secret_search.__name__):
            continue
        patterns = [one for one in dict.fromkeys(map(_hashable, _values(call.args[0], source))) if _compiles(one)]
        if not patterns and not _is_number(call, source):
            raise AssertionError(
                f"{where}: {known} cannot be worked out from the source; give the expression a name in its module"
            )
        yield from (Found(pattern, _flags(call, method, source.names), where, methods) for pattern in patterns)


def _hashable(value: Any) -> Any:
    return value if isinstance(value, (str, bytes)) else None


def _compiles(value: Any) -> bool:
    """Whether it can be an expression: a function of the same name may be called with something else."""
    try:
        return isinstance(value, (str, bytes)) and bool(re.compile(value))
    except re.error:
        return False


class _Source:
    """A module: its tree, what stands above each node, and its names."""

    def __init__(self, path: Path) -> None:
        self.name = _module_name(path)
        self.tree = ast.parse(path.read_text())
        self.parents = {child: node for node in ast.walk(self.tree) for child in ast.iter_child_nodes(node)}
        self.calls = [node for node in ast.walk(self.tree) if isinstance(node, ast.Call)]
        self._names: dict[str, Any] | None = None

    @property
    def names(self) -> dict[str, Any]:
        if self._names is None:
            self._names = vars(importlib.import_module(self.name))
        return self._names


@cache
def _source(path: Path) -> _Source:
    return _Source(path)


def _sources() -> list[_Source]:
    return [_source(path) for path in sorted(ROOT.rglob("*.py")) if path.relative_to(ROOT).parts[0] != "inside"]


def _module_name(path: Path) -> str:
    return ".".join(["crashcart", *path.relative_to(ROOT).with_suffix("").parts]).removesuffix(".__init__")


def _method(call: ast.Call) -> str:
    function = call.func
    if isinstance(function, ast.Attribute) and isinstance(function.value, ast.Name) and function.value.id == "re":
        return function.attr if function.attr in METHODS else ""
    return function.id if isinstance(function, ast.Name) and function.id in {"Pattern", "compiled"} else ""


def _is_number(call: ast.Call, source: _Source) -> bool:
    """``compiled`` and ``search`` are words of ours too: of processes and the like."""
    return isinstance(call.func, ast.Name) and not isinstance(source.names.get(call.func.id), type(re.compile))


def _uses() -> dict[tuple[str, str], set[str]]:
    """By module and name of an expression the methods called on it."""
    methods: dict[tuple[str, str], set[str]] = {}
    for source in _sources():
        origin = {
            alias.asname or alias.name: (node.module, alias.name)
            for node in ast.walk(source.tree)
            if isinstance(node, ast.ImportFrom) and node.module
            for alias in node.names
        }
        for node in ast.walk(source.tree):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.attr in METHODS:
                methods.setdefault(origin.get(node.value.id, (source.name, node.value.id)), set()).add(node.attr)
    return methods


def _flags(call: ast.Call, method: str, names: dict[str, Any]) -> int:
    place = {"compile": 1, "Pattern": 1, "compiled": 1, "search": 2, "match": 2, "fullmatch": 2, "finditer": 2, "findall": 2}
    given = [word.value for word in call.keywords if word.arg == "flags"]
    if not given and method in place and len(call.args) > place[method]:
        given = [call.args[place[method]]]
    if given:
        return int(_evaluated(given[0], names))
    return re.IGNORECASE if method == "compiled" else 0


def _evaluated(node: ast.expr, names: dict[str, Any]) -> Any:
    return eval(compile(ast.fix_missing_locations(ast.Expression(node)), "source", "eval"), dict(names))  # noqa: S307 - our own source


def _values(node: ast.expr, source: _Source, depth: int = 0) -> list[Any]:
    """What an expression of the source can be: its unknown names take every value that loops, assignments and calls give them."""
    if not _is_plain(node):
        return []
    unknown = [
        name
        for name in dict.fromkeys(one.id for one in ast.walk(node) if isinstance(one, ast.Name))
        if name not in source.names and not hasattr(builtins, name)
    ]
    found = []
    choices = [_values_of(name, node, source, depth, alone=isinstance(node, ast.Name)) or [TEXT] for name in unknown]
    if isinstance(node, ast.Name) and choices == [[TEXT]]:
        return []
    for values in itertools.product(*choices):
        names = {**source.names, **dict(zip(unknown, values, strict=True))}
        try:
            found.append(_evaluated(node, names))
        except (NameError, AttributeError, TypeError, ValueError, KeyError, IndexError):
            continue
    return found


def _is_plain(node: ast.expr) -> bool:
    """Whether working it out calls nothing but what puts text together."""
    for one in ast.walk(node):
        if isinstance(one, ast.Call):
            name = getattr(one.func, "attr", getattr(one.func, "id", ""))
            if name not in {"escape", "join", "format", "encode", "items", "values", "map", "zip", "tuple", "splitext"}:
                return False
    return True


def _values_of(name: str, node: ast.AST, source: _Source, depth: int, *, alone: bool) -> list[Any]:
    if depth > DEEPEST:
        return []
    above = node
    while above in source.parents:
        above = source.parents[above]
        loops = getattr(above, "generators", [above] if isinstance(above, ast.For) else [])
        for loop in loops:
            if name in _bound_names(loop.target):
                return [_taken(loop.target, value, name) for each in _values(loop.iter, source, depth + 1) for value in each]
        if isinstance(above, (ast.FunctionDef, ast.Lambda)):
            return _in_function(name, above, source, depth) if alone else []
    return []


def _in_function(name: str, function: ast.FunctionDef | ast.Lambda, source: _Source, depth: int) -> list[Any]:
    found: list[Any] = []
    for node in ast.walk(function):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and node.targets[0].id == name:
            found += _values(node.value, source, depth + 1)
    arguments = [one.arg for one in (*function.args.args, *function.args.kwonlyargs)]
    if found or name not in arguments or isinstance(function, ast.Lambda):
        return found
    place = arguments.index(name) - (1 if arguments[0] == "self" else 0)
    for other, call in _calls().get(function.name, ()):
        if function.name.startswith("_") and other is not source:
            continue
        given = [word.value for word in call.keywords if word.arg == name] or call.args[place : place + 1]
        found += [value for one in given for value in _values(one, other, depth + 1)]
    return found


@lru_cache(maxsize=1)
def _calls() -> dict[str, list[tuple[_Source, ast.Call]]]:
    calls: dict[str, list[tuple[_Source, ast.Call]]] = {}
    for source in _sources():
        for call in source.calls:
            name = getattr(call.func, "id", getattr(call.func, "attr", ""))
            calls.setdefault(name, []).append((source, call))
    return calls


def _bound_names(target: ast.expr) -> set[str]:
    return {one.id for one in ast.walk(target) if isinstance(one, ast.Name)}


def _taken(target: ast.expr, value: Any, name: str) -> Any:
    scope: dict[str, Any] = {"value": value}
    exec(f"{ast.unparse(target)} = value", scope)  # noqa: S102 - our own source
    return scope[name]
