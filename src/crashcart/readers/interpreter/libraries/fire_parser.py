"""fire: any function, class or dictionary as a command line; a word is a Python literal where it can be read as one.

fire.Fire(train)            python train.py data --lr=1e-3 --amp --layers 1,2
fire.Fire(Trainer)          python train.py --lr 3 train --epochs 5
"""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING, Any

from crashcart.documents import parse_python
from crashcart.readers.interpreter.libraries import models
from crashcart.readers.interpreter.libraries.argparse_parser import ParserSpec, default_fact, flag_fact, refuse, words_of
from crashcart.readers.interpreter.libraries.field_types import Field, parameters_of
from crashcart.readers.interpreter.libraries.standard import from_plain
from crashcart.readers.interpreter.values import (
    Bound,
    Class,
    Constant,
    Container,
    Function,
    Instance,
    Partial,
    Unknown,
    Value,
)

if TYPE_CHECKING:
    from crashcart.readers.interpreter.interpreter import Interpreter
    from crashcart.readers.interpreter.trace import Call

_FLAG = re.compile(r"-{1,2}[a-zA-Z_]")
_LONGEST = 2000
_DEEPEST = 6


class _Attached(str):
    """A word behind a flag that is not known here: it may belong to that flag."""

    __slots__ = ()


class RefusedWordsError(Exception):
    """What fire would print before it ends the program with exit code 2."""


@models("fire.Fire", "fire.core.Fire")
def fire(interpreter: Interpreter, call: Call) -> Value:
    """``fire.Fire(component)``."""
    component = call.argument(0, "component")
    given = call.argument(1, "command")
    words = words_of(interpreter, given)
    if component is None:
        names = interpreter.names.get(interpreter.frame.module, {})
        content = {
            name: value
            for name in names
            if isinstance(value := interpreter.store.get(interpreter.frame.module, name), (Function, Class))
        }
        component = interpreter.container("dict", content)
    if words is None:
        if isinstance(component, (Function, Partial, Bound)):
            fields, _ = parameters_of(interpreter, component)
            return interpreter.call(component, [], {field.name: Unknown(kind="flag") for field in fields}, call.node)
        return Unknown()
    ends = [place for place, (text, _) in enumerate(words) if text == "--"]
    try:
        return _follow(
            interpreter, component, words[: ends[-1]] if ends else words, call, 0
        )  # what follows is for fire itself
    except RefusedWordsError as problem:
        refuse(interpreter, ParserSpec(), call, f"ERROR: {problem}", [])
        return Unknown()


def _follow(interpreter: Interpreter, component: Value, words: list[tuple[str, Value]], call: Call, depth: int) -> Value:
    """Call what can be called, and go on with what is left to an attribute of the result."""
    if depth > _DEEPEST:
        return Unknown()
    if isinstance(component, (Function, Class, Partial, Bound)) and depth < _DEEPEST:
        result, rest = _call(interpreter, component, words, call)
        if not rest:
            return result
        return _follow(interpreter, result, [(str(text), word) for text, word in rest], call, depth + 1)
    if not words:
        return component
    name = words[0][0].replace("-", "_")
    if isinstance(component, Container) and component.kind in {"dict", "config"}:
        found = interpreter.items(component).get(words[0][0]) or interpreter.items(component).get(name)
        if found is None:
            raise RefusedWordsError(f"Cannot find key: {words[0][0]}")
        return _follow(interpreter, found, words[1:], call, depth + 1)
    if isinstance(component, Instance):
        if interpreter._find(component.cls, name) is None and interpreter.peek(component, name) is None:
            raise RefusedWordsError(f"Could not consume arg: {words[0][0]}")
        return _follow(interpreter, interpreter.attribute(component, name, call.node), words[1:], call, depth + 1)
    if isinstance(component, Constant):
        raise RefusedWordsError(f"Could not consume arg: {words[0][0]}")
    return Unknown()


def _call(
    interpreter: Interpreter, component: Value, words: list[tuple[str, Value]], call: Call
) -> tuple[Value, list[tuple[str, Value]]]:
    fields, takes_any = parameters_of(interpreter, component)
    given, left = _keywords({field.name: field for field in fields}, words, takes_any=takes_any)
    values: dict[str, Value] = {name: _value(interpreter, name, text, word) for name, (text, word) in given.items()}
    for field in fields:
        if field.name in values or field.is_keyword:
            continue
        plain = next(
            (number for number, (text, _) in enumerate(left) if not _FLAG.match(text) and not isinstance(text, _Attached)),
            None,
        )
        is_class = isinstance(component, Class)
        if plain is not None and (field.default is None or not is_class):
            text, word = left.pop(plain)
            values[field.name] = _value(interpreter, field.name, text, word)
    for field in fields:
        if field.name not in values:
            if field.default is None:
                raise RefusedWordsError(f"The function received no value for the required argument: {field.name}")
            if isinstance(field.default, Constant):
                fact = default_fact(field.name, f"--{field.name}", field.default, call)
                origins = (*field.default.origins, fact)
                values[field.name] = Constant(
                    field.default.value, origins, direct=True, source=field.default.source, node=field.default.node
                )
    result = interpreter.call(component, [], values, call.node)
    if (left and isinstance(result, (Constant, Unknown))) or (left and isinstance(component, Function)):
        raise RefusedWordsError(f"Could not consume arg: {left[0][0]}")
    return result, left


def _keywords(
    fields: dict[str, Field], words: list[tuple[str, Value]], *, takes_any: bool
) -> tuple[dict[str, tuple[str, Value]], list[tuple[str, Value]]]:
    """The flags that belong to these parameters, and the words that are left."""
    found: dict[str, tuple[str, Value]] = {}
    left: list[tuple[str, Value]] = []
    position = 0
    while position < len(words):
        text, word = words[position]
        position += 1
        if not _FLAG.match(text):
            left.append((text, word))
            continue
        key, equals, written = text.lstrip("-").partition("=")
        name = key.replace("-", "_")
        is_switch = not equals and (position >= len(words) or bool(_FLAG.match(words[position][0])))
        if name not in fields and len(name) == 1:
            meant = [each for each in fields if each.startswith(name)]
            if len(meant) > 1:
                raise RefusedWordsError(f"The argument '{text}' is ambiguous as it could refer to any of: {meant}")
            name = meant[0] if meant else name
        if name in fields or takes_any:
            if name not in fields and is_switch and name.startswith("no") and not takes_any:
                left.append((text, word))
            elif equals:
                found[name] = written, word
            elif is_switch:
                found[name] = "True", word
            else:
                found[name] = words[position][0], words[position][1]
                position += 1
        elif is_switch and name.startswith("no") and name[2:] in fields:
            found[name[2:]] = "False", word
        else:
            with_value = not equals and not is_switch  # the word behind it is no argument of its own
            left.append((text, word))
            if with_value:
                left.append((_Attached(words[position][0]), words[position][1]))
                position += 1
    return found, left


def _value(interpreter: Interpreter, name: str, text: str, word: Value) -> Value:
    fact = flag_fact(interpreter, [f"--{name}", f"--{name.replace('_', '-')}"], name, text)
    origins = (fact,) if fact is not None else ()
    if not isinstance(word, Constant) or len(text) > _LONGEST:
        return Unknown(origins=origins)
    return from_plain(interpreter, literal(text), Constant(None, origins, direct=True))


def literal(text: str) -> Any:  # noqa: ANN401 - data of a word
    """A word as fire reads it: a Python literal in which a bare name is a text, else the text."""
    try:
        body = parse_python(text.strip()).body
    except (SyntaxError, ValueError):
        return text
    if len(body) != 1 or not isinstance(body[0], ast.Expr):
        return text
    try:
        return ast.literal_eval(_Names().visit(body[0].value))
    except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError):
        return text


class _Names(ast.NodeTransformer):
    """``[a, b]`` is a list of texts."""

    def visit_Name(self, node: ast.Name) -> ast.AST:
        """A bare name."""
        return ast.copy_location(ast.Constant(node.id), node)
