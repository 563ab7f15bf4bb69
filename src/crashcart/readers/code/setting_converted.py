"""Where the program makes a number of a setting before it calculates with it: ``float(cfg["optim"]["lr"])`` takes text as well.

One key at a time, or all that a loop names (``for name in ("lr", "eps"): cfg[name] = float(cfg[name])``), or every value where
a loop or a function goes through all of them; types of annotations (``field.type(value)``) do the same.
"""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from crashcart.readers.code._settings import readings_of
from crashcart.readers.code.source import FUNCTIONS, inside, name_of, parents

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.model import Fact
    from crashcart.readers.code._settings import Reading
    from crashcart.readers.code.program import Program

NUMBERS = {"float", "int", "eval", "literal_eval"}
CONVERTING = {
    *NUMBERS, "ast.literal_eval", "decimal.Decimal", "numpy.float32", "numpy.float64", "isinstance", "str2float", "parse_float",
    "to_float", "yaml.safe_load",
}  # fmt: skip
KINDS = {"str", "int", "float", "Number", "Real", "numbers"}
# What gives the types of annotations, to be called with a value.
TYPED = re.compile(r"\bfields\(|get_type_hints|__annotations__|__dataclass_fields__|model_fields")
CALLED_TYPE = re.compile(
    r"(?i)(?:^|[._])(?:field_?)?(?:type|typ|type_|kind|cast\w{0,40}|hint|annotation|conv\w{0,40})$|(?:types|hints|annotations)$"
)
EVERY = "*"


def look(program: Program) -> Iterator[Fact]:
    """``code.setting_converted``: the key, or ``*`` for all of them, and by what."""
    for reading in readings_of(program):
        source = reading.source
        typed = TYPED.search(source.text) is not None
        for call in source.calls("map"):
            if len(call.args) > 1 and name_of(call.args[0]) in NUMBERS and (key := reading.plain(call.args[1])):
                yield source.fact("code.setting_converted", {"key": key, "by": name_of(call.args[0])}, call)
        for call in source.calls(*CONVERTING):
            if call.args and source.called(call.func) in CONVERTING:
                for key in _keys(reading, call):
                    yield source.fact("code.setting_converted", {"key": key, "by": name_of(call.func)}, call)
        for call in source.nodes(ast.Call) if typed else ():
            if call.args and source.called(call.func) not in CONVERTING and CALLED_TYPE.search(name_of(call.func)):
                yield source.fact("code.setting_converted", {"key": EVERY, "by": "float"}, call)


def _keys(reading: Reading, call: ast.Call) -> Iterator[str]:
    first = call.args[0]
    if name_of(call.func) == "isinstance" and not KINDS & {
        one.id for part in call.args[1:] for one in ast.walk(part) if isinstance(one, ast.Name)
    }:
        return  # whether it is a dict or a list says nothing about numbers
    if key := reading.plain(first):
        yield key
    elif (name := _variable(first)) is not None:
        yield from _looped(call, name)
    elif isinstance(first, ast.Name) and name_of(call.func) in NUMBERS and "yaml" in reading.source.text:
        function = inside(call, *FUNCTIONS)
        guarded = function is not None and inside(call, ast.Try) is not None
        strings = function is not None and "str" in {one.id for one in ast.walk(function) if isinstance(one, ast.Name)}
        if guarded or strings:
            yield EVERY


def _variable(node: ast.expr) -> str | None:
    """The variable that says which setting is meant: ``cfg[name]``, ``getattr(self, name)``, ``cfg.get(name)``."""
    if isinstance(node, ast.Subscript) and isinstance(node.slice, (ast.Name, ast.Attribute)):
        return name_of(node.slice)
    if isinstance(node, ast.Call) and node.args:
        at = 1 if name_of(node.func) == "getattr" else 0 if name_of(node.func).endswith((".get", ".pop")) else None
        if at is not None and len(node.args) > at and isinstance(node.args[at], (ast.Name, ast.Attribute)):
            return name_of(node.args[at])
    return None


def _looped(call: ast.Call, name: str) -> Iterator[str]:
    """The keys that a loop or a comprehension gives to a variable; all where it does not say them."""
    for above in parents(call):
        loops: list[ast.For | ast.AsyncFor | ast.comprehension] = list(getattr(above, "generators", ()))
        if isinstance(above, (ast.For, ast.AsyncFor)):
            loops = [above]
        for loop in loops:
            names = {one.id for one in ast.walk(loop.target) if isinstance(one, ast.Name)}
            if name.split(".", maxsplit=1)[0] not in names:
                continue
            listed = loop.iter.elts if isinstance(loop.iter, (ast.Tuple, ast.List, ast.Set)) else []
            keys = [one.value for one in listed if isinstance(one, ast.Constant) and isinstance(one.value, str)]
            yield from keys if keys and len(keys) == len(listed) else [EVERY]
            return
    yield EVERY
