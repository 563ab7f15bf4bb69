"""Where the program takes a setting for a word, or asks whether it is there: ``cfg["resume"]``, ``cfg.mode == "on"``.

``resume: None`` is a text of four letters, which is true; ``mode: on`` is True and no word; ``12:30:00`` is 45000 and has no
``split``. What such a value does depends on how the program asks for it.
"""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING, Any

from crashcart.readers.code._settings import readings_of
from crashcart.readers.code.source import name_of, parent

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.model import Fact
    from crashcart.readers.code._settings import Reading
    from crashcart.readers.code.program import Program

METHODS = {
    "split", "rsplit", "lower", "upper", "strip", "lstrip", "rstrip", "startswith", "endswith", "partition", "casefold", "title",
}  # fmt: skip
# A function with such a name looks at the words itself.
READS_WORDS = re.compile(r"(?i)bool|truth|none|null|eval|safe_load|loads$|str_?to|parse|enum|interpret")
ANY = "*"


def look(program: Program) -> Iterator[Fact]:
    """``code.setting_asked``: whether it is there or true. ``code.setting_word``: the words that it is compared with.

    ``code.setting_method``: a method that only text has, called on it.
    """
    for reading in readings_of(program):
        yield from _tests(reading)
        yield from _compared(reading)
        for call in reading.source.nodes(ast.Call):
            made = call.func
            if isinstance(made, ast.Attribute) and made.attr in METHODS and (key := reading.plain(made.value)):
                value = {"key": key, "above": reading.above(made.value), "method": made.attr}
                yield reading.source.fact("code.setting_method", value, call)


def _tests(reading: Reading) -> Iterator[Fact]:
    source = reading.source
    asked: list[ast.expr] = [one.test for one in source.nodes(ast.If)] + [one.test for one in source.nodes(ast.While)]
    asked += [one.test for one in source.nodes(ast.IfExp)]
    asked += [one.value for call in source.nodes(ast.Call) for one in call.keywords if one.arg == "enabled"]
    while asked:
        test = asked.pop()
        if isinstance(test, ast.BoolOp):
            asked += test.values
        elif isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            asked.append(test.operand)
        elif (
            isinstance(test, ast.Compare) and isinstance(test.ops[0], (ast.Is, ast.IsNot)) and _is_none(test.comparators[0])
        ):
            if key := reading.plain(test.left):
                yield source.fact("code.setting_asked", _value(reading, test.left, key, truth=False), test)
        elif key := reading.plain(test):
            yield source.fact("code.setting_asked", _value(reading, test, key, truth=True), test)


def _compared(reading: Reading) -> Iterator[Fact]:
    source = reading.source
    for test in source.nodes(ast.Compare):
        sides = [test.left, *test.comparators]
        words = [word for side in sides for word in _words(side)]
        for side in sides if words else ():
            inner = side.func.value if isinstance(side, ast.Call) and isinstance(side.func, ast.Attribute) else side
            inner = inner.args[0] if isinstance(inner, ast.Call) and name_of(inner.func) == "str" and inner.args else inner
            for one in (side, inner):
                if key := reading.plain(one):
                    how = "text" if one is not side else "plain"
                    yield source.fact("code.setting_word", _value(reading, one, key, words=words, how=how), test)
    for call in source.nodes(ast.Call):
        if READS_WORDS.search(name_of(call.func).rpartition(".")[2]):
            for one in call.args:
                if key := reading.plain(one):
                    yield source.fact("code.setting_word", _value(reading, one, key, words=[ANY], how="text"), call)
    for found in source.nodes(ast.Subscript):
        if (key := reading.plain(found.slice)) and isinstance(found.value, ast.Name):
            tables = reading.values.get(reading.place(found.value), [])
            names = [
                one.value
                for table in tables
                if isinstance(table, ast.Dict)
                for one in table.keys
                if isinstance(one, ast.Constant)
            ]
            if names and parent(found) is not None and isinstance(found.ctx, ast.Load):
                yield source.fact("code.setting_word", _value(reading, found.slice, key, words=names, how="plain"), found)


def _words(node: ast.expr) -> list[str]:
    """The words of ``"on"``, ``("on", "off")``."""
    listed = node.elts if isinstance(node, (ast.Tuple, ast.List, ast.Set)) else [node]
    return [one.value for one in listed if isinstance(one, ast.Constant) and isinstance(one.value, str)]


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _value(reading: Reading, node: ast.expr, key: str, **more: Any) -> dict[str, Any]:  # noqa: ANN401 - data of any kind
    return {"key": key, "above": reading.above(node), **more}
