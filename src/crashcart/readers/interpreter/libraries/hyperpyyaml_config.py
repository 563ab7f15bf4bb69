"""HyperPyYAML: a config whose values refer to each other and make objects, as SpeechBrain's recipes have it.

    output_folder: !ref results/<seed>           text with the value of another key
    batch_size: !ref <gpus> * 4                  arithmetic, once the keys are put in
    model: !new:speechbrain.nnet.RNN.LSTM        an object; ``!name:`` is a partial, ``!apply:`` a call, ``!module:`` a module
        hidden_size: !ref <hidden>
    data: !include:data.yaml                     another file, with what stands below as its overrides

``load_hyperpyyaml(file, overrides)`` refuses an override whose key the file does not have.
"""

from __future__ import annotations

import ast
import os
import re
from typing import TYPE_CHECKING, Any

from crashcart.deadline import resident_bytes
from crashcart.documents import DocumentError, compose_yaml, parse_python
from crashcart.errors import CommandError
from crashcart.numbers import bound_number
from crashcart.readers.interpreter.libraries import models
from crashcart.readers.interpreter.libraries.config_files import (
    Document,
    config_value,
    find_config,
    overlay,
    yaml_word,
)
from crashcart.readers.interpreter.libraries.containers import copied
from crashcart.readers.interpreter.libraries.hydra_config import resolve_target
from crashcart.readers.interpreter.libraries.texts_and_paths import path_text
from crashcart.readers.interpreter.values import (
    Constant,
    Container,
    Partial,
    Result,
    Unknown,
    Value,
    constant_of,
    made_text,
    origins_of,
    unknown_from,
)
from crashcart.readers.job.config import MERGE
from crashcart.readers.job.shell import text_of

if TYPE_CHECKING:
    from crashcart.model import Fact
    from crashcart.readers.interpreter.interpreter import Interpreter
    from crashcart.readers.interpreter.trace import Call

_REFERENCE = re.compile(r"<([^<>]{0,200})>")
_TUPLE = re.compile(r"\(.*\)")
_WORDS = frozenset({"yes", "no", "on", "off", "y", "n"})  # truths for YAML 1.1 alone, and this loader reads 1.2
_OPERATIONS = (ast.Add, ast.Sub, ast.Mult, ast.Div, ast.FloorDiv, ast.Pow, ast.Mod)
_DEEPEST, _MOST_DEEP, _MOST_INCLUDED = 24, 4, 20
_ROOM = 24 << 20  # what a file of the largest size may take


@models("hyperpyyaml.load_hyperpyyaml")
def load_hyperpyyaml(interpreter: Interpreter, call: Call) -> Value | None:
    """A file, or a text, with overrides over it."""
    stream = call.argument(0, "yaml_stream")
    overrides = _overrides(interpreter, call.argument(1, "overrides"))
    path = path_text(stream.data) if isinstance(stream, Result) and isinstance(stream.data, Value) else None
    if overrides is None or (path is None and not isinstance(constant_of(stream), str)):
        return None
    read = _root_of(interpreter, path, str(constant_of(stream, "")), stream.origins if stream is not None else ())
    if read is None:
        return None
    if constant_of(call.argument(2, "overrides_must_match"), True) is not False:
        _refuse_others(interpreter, call, read[0], overrides)
    made = _HyperDocument(interpreter, read, overrides, call).whole()
    content = interpreter.entries(made)
    interpreter.store.set(made, "items", {key: value for key, value in content.items() if str(key)[:2] != "__"})
    return made


def _overrides(interpreter: Interpreter, given: Value | None) -> Container | None:
    """The overrides as a dictionary, each with the flag that gives it; None where they are not known."""
    if given is None or (isinstance(given, Constant) and not given.value):
        return interpreter.container("dict", {})
    if isinstance(given, Constant) and isinstance(given.value, str):
        given = _of_text(interpreter, given.value, given.origins)
    if not isinstance(given, Container) or interpreter.store.get(given, "open"):
        return None
    found: dict[Any, Value] = {}
    for key, value in interpreter.entries(given).items():
        fact = interpreter.launch.flags.get(f"--{key}")
        is_plain = isinstance(value, Constant) and fact is not None
        found[key] = (
            Constant(value.value, (fact,), direct=True) if is_plain and isinstance(value, Constant) and fact else value
        )
    return interpreter.container("dict", found)


def _of_text(interpreter: Interpreter, text: str, origins: tuple[Fact, ...]) -> Value:
    """A short YAML text as this loader reads it."""
    import yaml

    try:
        roots = compose_yaml(text)
    except (yaml.YAMLError, ValueError, RecursionError):
        return Unknown(origins=origins)
    return Document(interpreter, {}, numbers=True).of_node(roots[0], "", 0) if len(roots) == 1 else Unknown(origins=origins)


def _root_of(
    interpreter: Interpreter, path: str | None, text: str, named_by: tuple[Fact, ...] = ()
) -> tuple[Any, list[Fact], str] | None:
    """The mapping that a file, or a text, consists of; what the file says, and its folder."""
    import yaml

    facts: list[Fact] = []
    if path is not None:
        config_value(interpreter, path, numbers=True, attributes=False, named_by=named_by)  # it keeps what the file says
        path = find_config(interpreter, path)
        if path is None:
            return None
        facts = interpreter.launch.configs.get(path, [])
    try:
        roots: list[Any] = compose_yaml((text_of(path) if path is not None else text).removeprefix("\ufeff"))
    except (yaml.YAMLError, CommandError, ValueError, RecursionError):
        return None
    if len(roots) != 1 or roots[0].id != "mapping":
        return None
    return roots[0], facts, os.path.dirname(path or "")


def _refuse_others(interpreter: Interpreter, call: Call, root: Any, overrides: Container) -> None:  # noqa: ANN401 - a node of PyYAML
    """An override of a key that the config does not have."""
    names = {str(key.value) for key, _ in root.value}
    if any(key.tag == MERGE for key, _ in root.value):
        return
    for key, value in interpreter.entries(overrides).items():
        if key not in names:
            setting = value if isinstance(value, Constant) else Constant(key, value.origins)
            says = f"Override {key!r} not found in the config"
            interpreter.fail(call.node, "KeyError", says, setting, choices=tuple(sorted(names)))


class _HyperDocument(Document):
    """Makes values of a document whose tags refer, call and include."""

    def __init__(
        self,
        interpreter: Interpreter,
        read: tuple[Any, list[Fact], str],
        overrides: Container,
        call: Call,
        included: tuple[int, list[str]] = (0, []),
    ) -> None:
        self.root, facts, self.folder = read
        super().__init__(interpreter, {fact.spelling: fact for fact in facts}, numbers=True)
        self.overrides, self.call, self.included = interpreter.entries(overrides), call, included
        self.made: dict[int, Value | None] = {}  # by node: what two references lead to is one thing

    def whole(self) -> Value:
        """The content, overridden."""
        items: dict[Any, Value] = {}
        for key, value in self.interpreter.entries(super().of_node(self.root, "", 0)).items():
            items[key] = self._overridden(str(key), value)
        items.update({key: value for key, value in self.overrides.items() if key not in items})
        return self.interpreter.container("dict", items)

    def _overridden(self, key: str, value: Value) -> Value:
        return overlay(self.interpreter, value, self.overrides[key]) if key in self.overrides else value

    def of_node(self, node: Any, path: str, depth: int) -> Value:  # noqa: ANN401 - a node of PyYAML
        """A node with its tag; once for all references to it."""
        if id(node) in self.made:
            known = self.made[id(node)]
            return known if known is not None else Unknown()  # it leads back to itself
        if depth > _DEEPEST:
            return Unknown()
        if "." not in path and path in self.overrides and not isinstance(self.overrides[path], Container):
            return self.overrides[path]
        self.made[id(node)] = None
        tag = str(node.tag)
        made = self._tagged(node, tag, path, depth) if tag.startswith("!") else super().of_node(node, path, depth)
        self.made[id(node)] = made
        return made

    def _scalar(self, node: Any, path: str) -> Value:  # noqa: ANN401 - a node of PyYAML
        if not node.style and (node.value.lower() in _WORDS or _TUPLE.fullmatch(node.value)):
            fact = self.facts.get(path)
            word = Constant(node.value, (fact,) if fact is not None else (), direct=True)
            if node.value.lower() in _WORDS:
                return word
            listed = yaml_word(self.interpreter, f"[{node.value[1:-1]}]", word, numbers=True)
            items = self.interpreter.items(listed) if isinstance(listed, Container) else ()
            return self.interpreter.container("tuple", items)
        return super()._scalar(node, path)

    def _tagged(self, node: Any, tag: str, path: str, depth: int) -> Value:  # noqa: ANN401 - a node of PyYAML
        kind, _, name = tag.partition(":")
        if kind in {"!ref", "!copy"} and isinstance(node.value, str):
            made = self._referred(node.value, depth)
            return copied(self.interpreter, made) if kind == "!copy" and isinstance(made, Container) else made
        if kind == "!include":
            return self._included(node, name, path, depth)
        if kind == "!tuple":
            return self._scalar(node, path)
        if kind not in {"!new", "!name", "!apply", "!applyref", "!module"}:
            return Unknown(kind="config")
        target = resolve_target(self.interpreter, Constant(name))
        if kind == "!module":
            return target
        arguments, keywords = self._given(node, path, depth)
        if kind == "!name":
            return Partial(target, arguments, keywords) if arguments or keywords else target
        return self.interpreter.call(target, arguments, keywords, self.call.node)

    def _given(self, node: Any, path: str, depth: int) -> tuple[list[Value], dict[str, Value]]:  # noqa: ANN401 - likewise
        """What stands below a tag, as the arguments of a call."""
        if isinstance(node.value, str):
            return [], {}
        below = super().of_node(_Untagged(node), path, depth)
        if node.id == "sequence":
            return self.interpreter.listed(below)[0], {}
        return [], {str(key): value for key, value in self.interpreter.entries(below).items()}

    def _included(self, node: Any, name: str, path: str, depth: int) -> Value:  # noqa: ANN401 - likewise
        deep, files = self.included
        is_full = resident_bytes() > self.interpreter.most_memory - _ROOM
        if deep >= _MOST_DEEP or len(files) >= _MOST_INCLUDED or is_full:
            return Unknown(kind="config")
        files.append(name)  # of all documents under way
        below = super().of_node(_Untagged(node), path, depth) if node.id == "mapping" else None
        overrides = below if isinstance(below, Container) else self.interpreter.container("dict", {})
        read = _root_of(self.interpreter, os.path.join(self.folder, name), "")
        if read is None:
            return Unknown(kind="config")
        return _HyperDocument(self.interpreter, read, overrides, self.call, (deep + 1, files)).whole()

    # ---- references

    def _referred(self, text: str, depth: int) -> Value:
        """``<key>`` is the value itself; more text around it makes a text, or a number where it can be calculated."""
        whole = _REFERENCE.fullmatch(text)
        if whole is not None:
            return self._at(whole[1], depth)
        values = [self._at(name, depth) for name in _REFERENCE.findall(text)]
        if not all(isinstance(value, Constant) for value in values):
            return unknown_from(*values)
        plain = iter(values)
        written = _REFERENCE.sub(lambda _: str(bound_number(constant_of(next(plain)))), text)
        number = bound_number(_calculated(written))
        if number is None:
            return made_text([written], *values)
        made = Constant(number, origins_of(*values))
        made.direct = len(values) == 1 and written == text
        return made

    def _at(self, name: str, depth: int) -> Value:
        """``a[b]`` is a key below a key, and ``a.b`` an attribute."""
        keys, _, attribute = name.partition(".")
        parts = [part.strip("]") for part in keys.split("[")]
        node, path = self.root, ""
        found: Value | None = self.overrides.get(parts[0])
        for part in parts if found is None else ():
            pairs = node.value if node.id == "mapping" else ()
            node = next((item for key, item in pairs if key.value == part), None)
            if node is None:
                return Unknown()
            path = f"{path}.{part}" if path else part
        for part in parts[1:] if found is not None else ():
            found = self.interpreter.entries(found).get(part)
        value = found if found is not None else self.of_node(node, path, depth + 1) if node is not self.root else Unknown()
        for part in attribute.split(".") if attribute else ():
            value = self.interpreter.attribute(value, part, self.call.node)
        return value


class _Untagged:
    """A node as it would be without its tag."""

    def __init__(self, node: Any) -> None:  # noqa: ANN401 - a node of PyYAML
        self.id, self.value, self.tag = node.id, node.value, ""


def _calculated(text: str) -> Any:  # noqa: ANN401 - a number or a text, None where there is nothing to calculate
    """What simple arithmetic gives; a text that is one literal is that literal."""
    try:
        body = parse_python(text.strip()).body
        return _worked_out(body[0].value) if len(body) == 1 and isinstance(body[0], ast.Expr) else None
    except (SyntaxError, DocumentError, ValueError, TypeError, ArithmeticError, RecursionError):
        return None


def _worked_out(node: ast.expr) -> Any:  # noqa: ANN401 - likewise
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.BinOp) and isinstance(node.op, _OPERATIONS):
        from crashcart.readers.interpreter.interpreter import calculate

        return calculate(node.op, _worked_out(node.left), _worked_out(node.right))
    raise TypeError(ast.dump(node))
