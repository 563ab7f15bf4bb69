"""Python files as configs, read by their tree and never run: mmengine's ``_base_``, plain assignments, ``import *``.

    _base_ = ["../_base_/schedule.py"]
    optim_wrapper = dict(type="AmpOptimWrapper", optimizer=dict(type="AdamW", lr=1e-4), accumulative_counts=4)
    train_dataloader = {"batch_size": 2, "num_workers": 8}

Constants, products of constants (``12 * 8``) and names set above count; what else a file calculates is unknown and left out.
"""

from __future__ import annotations

import ast
import os
import re
import warnings
from typing import TYPE_CHECKING, Any

from crashcart.documents import DocumentError, parse_python
from crashcart.errors import CommandError
from crashcart.numbers import calculate
from crashcart.readers.job.config import LIMIT_VALUES, facts_from
from crashcart.readers.job.shell import text_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.model import Fact
    from crashcart.readers.job.config import Found

__all__ = ["read_python"]

DEEPEST = 10
MOST_FILES = 200
UNKNOWN = object()
OPERATORS: dict[type, str] = {ast.Mult: "*", ast.Add: "+", ast.Sub: "-", ast.FloorDiv: "//"}


def read_python(path: str, above: tuple[str, ...] = (), left: list[int] | None = None) -> list[Fact]:
    """The values of a Python config, those of its bases first; ``left`` counts the files that may still be read."""
    left = [MOST_FILES] if left is None else left
    left[0] -= 1
    if left[0] < 0:
        raise CommandError(f"{path}: it has more than {MOST_FILES} _base_ files.")
    if os.path.realpath(path) in above or len(above) > DEEPEST:
        raise CommandError(f"{path}: its _base_ files lead back to itself.")
    text = text_of(path)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = parse_python(text)
    except DocumentError as error:
        raise CommandError(f"{path} {error}.") from None
    except (SyntaxError, ValueError) as error:
        raise CommandError(f"{path} cannot be read as Python: {getattr(error, 'msg', error)}.") from None
    try:
        return _facts_of(tree, text, path, above, left)
    except RecursionError:
        raise CommandError(f"{path} is nested too deeply to be a config.") from None


def _facts_of(tree: ast.Module, text: str, path: str, above: tuple[str, ...], left: list[int]) -> list[Fact]:
    lines = _Lines(text)
    names: dict[str, Any] = {}
    found: list[Found] = []
    facts: list[Fact] = []
    for node in tree.body:
        if isinstance(node, ast.ImportFrom) and (beside := _imported(path, node)):
            facts += read_python(beside, (*above, os.path.realpath(path)), left)
        target = _target(node)
        if target is None or not isinstance(node, (ast.Assign, ast.AnnAssign)) or node.value is None:
            continue
        if target == "_base_":
            for base in _bases(node.value):
                beside = os.path.join(os.path.dirname(path), base)
                facts += read_python(beside, (*above, os.path.realpath(path)), left) if os.path.isfile(beside) else []
            continue
        found += _values(node.value, target, names, lines)
        names[target] = _constant(node.value, names)
    for function in (node for node in tree.body if isinstance(node, ast.FunctionDef)):
        found += _filled(function, dict(names), lines)
    if len(found) > LIMIT_VALUES:
        raise CommandError(f"{path} holds more than {LIMIT_VALUES} values, which is data rather than a config.")
    return [*facts, *facts_from(found, text, path)]


def _filled(function: ast.FunctionDef, names: dict[str, Any], lines: _Lines) -> Iterator[Found]:
    """What ``get_config()`` puts into the settings that it gives back: ``config.optim.lr = 1e-4``, as ml_collections has it."""
    last = function.body[-1]
    config = last.value.id if isinstance(last, ast.Return) and isinstance(last.value, ast.Name) else ""
    for node in function.body if config else ():
        if not isinstance(node, ast.Assign) or len(node.targets) != 1:
            continue
        target = node.targets[0]
        words = _words(target)
        if words[:1] == [config] and words[1:]:
            yield from _values(node.value, ".".join(words[1:]), names, lines)
        elif words == [config] and isinstance(node.value, ast.Call):
            inner = node.value.args[0] if node.value.args else None
            for key, value in _pairs(inner) if inner is not None else ():
                yield from _values(value, key, names, lines)
        elif isinstance(target, ast.Name):
            names[target.id] = _constant(node.value, names)


def _words(node: ast.expr) -> list[str]:
    """The parts of ``config.optim.lr`` or ``config["optim"]["lr"]``; empty for anything else."""
    if isinstance(node, ast.Name):
        return [node.id]
    if isinstance(node, ast.Attribute) and (inner := _words(node.value)):
        return [*inner, node.attr]
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant) and (inner := _words(node.value)):
        return [*inner, str(node.slice.value)]
    return []


def _pairs(node: ast.expr) -> Iterator[tuple[str, ast.expr]]:
    """The entries of a dict, written either way."""
    if isinstance(node, ast.Dict):
        for key, value in zip(node.keys, node.values, strict=True):
            if isinstance(key, ast.Constant) and isinstance(key.value, str):
                yield key.value, value
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "dict":
        yield from ((keyword.arg, keyword.value) for keyword in node.keywords if keyword.arg)


def _imported(path: str, node: ast.ImportFrom) -> str:
    """The file from which a config takes everything: ``from configs.base import *``."""
    if node.names[0].name != "*":
        return ""
    folder = os.path.dirname(path)
    for _ in range(max(0, node.level - 1)):
        folder = os.path.dirname(folder)
    name = (node.module or "").replace(".", "/") + ".py"
    upwards = [folder] if node.level else [folder, os.path.dirname(folder), os.path.dirname(os.path.dirname(folder)), ""]
    tries = [os.path.normpath(os.path.join(upward, name)) for upward in upwards]
    found = next((attempt for attempt in tries if os.path.isfile(attempt)), "")
    return found if found and os.path.realpath(found) != os.path.realpath(path) else ""


def _target(node: ast.stmt) -> str | None:
    if isinstance(node, ast.AnnAssign):
        return node.target.id if isinstance(node.target, ast.Name) else None
    if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
        return node.targets[0].id
    return None


def _bases(node: ast.expr) -> list[str]:
    items = node.elts if isinstance(node, (ast.List, ast.Tuple)) else [node]
    return [item.value for item in items if isinstance(item, ast.Constant) and isinstance(item.value, str)]


def _values(node: ast.expr, path: str, names: dict[str, Any], lines: _Lines) -> Iterator[Found]:
    if isinstance(node, ast.Dict):
        for key, value in zip(node.keys, node.values, strict=True):
            if isinstance(key, ast.Constant) and isinstance(key.value, str):
                yield from _values(value, f"{path}.{key.value}", names, lines)
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "dict":
        for keyword in node.keywords:
            if keyword.arg:
                yield from _values(keyword.value, f"{path}.{keyword.arg}", names, lines)
    elif isinstance(node, (ast.List, ast.Tuple)) and any(isinstance(item, (ast.Dict, ast.Call)) for item in node.elts):
        for number, item in enumerate(node.elts):
            yield from _values(item, f"{path}[{number}]", names, lines)
    else:
        value = _constant(node, names)
        if value is not UNKNOWN:
            literal = isinstance(node, ast.Constant)
            start = lines.offset(node.lineno, node.col_offset)
            end = lines.offset(node.end_lineno or node.lineno, node.end_col_offset or 0)
            yield path, value, (start, end) if literal else None


class _Lines:
    """The lines of a text as Python counts them, which a lone carriage return ends too, each with the place where it begins."""

    def __init__(self, text: str) -> None:
        ends = [match.span() for match in re.finditer(r"\r\n?|\n", text)]
        self._begins = [0, *(after for _, after in ends)]
        self._texts = [
            text[begin:end] for begin, end in zip(self._begins, [*(at for at, _ in ends), len(text)], strict=True)
        ]

    def offset(self, line: int, column: int) -> int:
        """The character at a line and a column in bytes, as a tree counts them."""
        return self._begins[line - 1] + len(self._texts[line - 1].encode()[:column].decode(errors="ignore"))


def _constant(node: ast.expr, names: dict[str, Any]) -> Any:  # noqa: ANN401 - a value of any type
    """The value of an expression of constants and known names."""
    if isinstance(node, ast.Name):
        return names.get(node.id, UNKNOWN)
    if isinstance(node, ast.BinOp) and type(node.op) in OPERATORS:
        left, right = _constant(node.left, names), _constant(node.right, names)
        numbers = type(left) in {int, float} and type(right) in {int, float}
        result = calculate(OPERATORS[type(node.op)], left, right) if numbers else None
        return UNKNOWN if result is None else result
    try:
        return ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return UNKNOWN
