"""OmegaConf's interpolation: ``${model.width}``, ``${.lr}``, ``${oc.env:HOME,/tmp}``, and resolvers that the program registers.

Values are worked out once, when a config is made. A resolver of the program is followed in thought with its arguments; what cannot be
worked out is unknown.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from crashcart.numbers import to_float, to_int
from crashcart.readers.interpreter.libraries import models
from crashcart.readers.interpreter.store import NONE
from crashcart.readers.interpreter.values import Constant, Container, Unknown, Value, constant_of, origins_of

if TYPE_CHECKING:
    from crashcart.readers.interpreter.interpreter import Interpreter
    from crashcart.readers.interpreter.trace import Call

__all__ = ["plain_word", "resolve"]

_DEEPEST = 8
_MOST = 5000
_LONGEST = 4000  # characters of a setting that is put together
_WORDS: dict[str, bool | None] = {"true": True, "false": False, "null": None}


def resolve(interpreter: Interpreter, root: Container) -> None:
    """Work out every interpolation of a config."""
    _Resolution(interpreter, root).walk(root, [root], 0)


def plain_word(text: str) -> str | int | float | bool | None:
    """A word as Hydra and the arguments of a resolver read it: a number, a truth, nothing, else a text."""
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    if text[:1].isdigit() or text[:1] in "+-.":
        whole = to_int(text) if "." not in text else None
        if whole is not None:
            return whole
        number = to_float(text)
        if number is not None:
            return number
    return float("inf") if text == "inf" else float("nan") if text == "nan" else text


class _Resolution:
    def __init__(self, interpreter: Interpreter, root: Container) -> None:
        self.interpreter, self.root = interpreter, root
        self.seen = 0
        self.followed = 0

    def walk(self, container: Container, above: list[Container], depth: int) -> None:
        content = self.interpreter.items(container)
        pairs = list(content.items()) if isinstance(content, dict) else list(enumerate(content))
        for key, value in pairs:
            self.seen += 1
            if self.seen > _MOST or depth > _DEEPEST + 4:
                return
            if isinstance(value, Container):
                self.walk(value, [*above, value], depth + 1)
            elif isinstance(value, Constant) and isinstance(value.value, str):
                if "${" in value.value:
                    self.interpreter.set_item(container, Constant(key), self.value(value, above, 0), None)
                elif value.value == "???":
                    self.interpreter.set_item(container, Constant(key), Unknown(origins=value.origins, kind="missing"), None)

    def value(self, value: Constant, above: list[Container], depth: int) -> Value:
        """A text with its interpolations worked out."""
        parts = self.parts(value.value, above, depth)
        if parts is None:
            return Unknown(origins=value.origins)
        if len(parts) == 1 and not isinstance(parts[0], str):
            found = parts[0]
            is_missing = isinstance(found, Unknown) and found.kind == "missing"
            if is_missing or constant_of(found) == "???":  # it is looked up when it is read, and may be set by then
                return Unknown(origins=origins_of(found, value))
            if isinstance(found, Constant):
                return Constant(found.value, origins_of(found, value), direct=True)
            return found
        text, origins = "", [value]
        for part in parts:
            if isinstance(part, Constant):
                text += str(part.value)
                origins.append(part)
            elif isinstance(part, str):
                text += part
            else:
                return Unknown(origins=value.origins)
            if len(text) > _LONGEST:
                return Unknown(origins=value.origins)
        return Constant(text, origins_of(*origins), direct=True)

    def parts(self, text: str, above: list[Container], depth: int) -> list[str | Value] | None:
        """Plain pieces and interpolated values of a text; None where it is not understood."""
        if depth > _DEEPEST or self.followed > _MOST:
            return None
        found: list[str | Value] = []
        position = 0
        while position < len(text):
            start = text.find("${", position)
            if start < 0:
                found.append(text[position:])
                break
            if start > position:
                found.append(text[position:start])
            end = _closing(text, start + 2)
            if end is None:
                return None
            found.append(self.reference(text[start + 2 : end], above, depth + 1))
            position = end + 1
        return found

    def reference(self, inner: str, above: list[Container], depth: int) -> Value:
        """What stands between the braces: a path, or a resolver with its arguments."""
        self.followed += 1
        name, colon, rest = inner.partition(":")
        if colon and "$" not in name:
            return self.call(name.strip(), rest, above, depth)
        parts = self.parts(inner, above, depth)
        if parts is None or not all(isinstance(part, (str, Constant)) for part in parts):
            return Unknown()
        path = "".join(part if isinstance(part, str) else str(constant_of(part)) for part in parts).strip()
        dots = len(path) - len(path.lstrip("."))
        start: Value | None = self.root if not dots else above[-dots] if dots <= len(above) else None
        chain = above if dots else [self.root]
        chain = chain[: len(above) - dots + 1] if dots else chain
        found = start
        for part in path[dots:].replace("[", ".").replace("]", "").split("."):
            found = self._below(found, part)
            if isinstance(found, Container):
                chain = [*chain, found]
        if isinstance(found, Constant) and isinstance(found.value, str) and "${" in found.value:
            return self.value(found, chain, depth + 1)
        return found if found is not None else Unknown(kind="interpolation")

    def _below(self, owner: Value | None, part: str) -> Value | None:
        if not isinstance(owner, Container):
            return None
        content = self.interpreter.items(owner)
        if isinstance(content, dict):
            number = to_int(part)
            return content.get(part, content.get(number) if number is not None else None)
        number = to_int(part)
        return content[number] if number is not None and -len(content) <= number < len(content) else None

    def call(self, name: str, rest: str, above: list[Container], depth: int) -> Value:
        """A resolver: of OmegaConf, or one that the program registers."""
        arguments: list[Value] = []
        for word in _split(rest):
            text = word.strip()
            is_quoted = len(text) > 1 and text[0] in "'\"" and text[-1] == text[0]
            text = text[1:-1] if is_quoted else text
            if "${" in text:
                arguments.append(self.value(Constant(text), above, depth + 1))
            else:
                arguments.append(Constant(text if is_quoted else plain_word(text)))
        if name == "oc.env" and arguments:
            from crashcart.readers.interpreter.libraries.standard import variable

            default = arguments[1] if len(arguments) > 1 else None
            return variable(self.interpreter, constant_of(arguments[0]), default)
        if name == "oc.select" and arguments:
            found = self.reference(str(constant_of(arguments[0])), above, depth)
            is_missing = isinstance(found, Unknown) and found.kind == "interpolation"
            return arguments[1] if is_missing and len(arguments) > 1 else found
        function = self.interpreter.store.get("omegaconf", ("resolver", name))
        if isinstance(function, Value) and not any(isinstance(value, Unknown) for value in arguments):
            return self.interpreter.call(function, arguments, {}, self.interpreter.frame.source.tree)
        return Unknown(kind="resolver")


def _closing(text: str, start: int) -> int | None:
    depth = 1
    for position in range(start, len(text)):
        if text[position] == "{":
            depth += 1
        elif text[position] == "}":
            depth -= 1
            if not depth:
                return position
    return None


def _split(text: str) -> list[str]:
    """Arguments between commas, not those of interpolations and quotes within."""
    found, depth, quote, start = [], 0, "", 0
    for position, letter in enumerate(text):
        if quote:
            quote = "" if letter == quote else quote
        elif letter in "'\"":
            quote = letter
        elif letter in "{[(":
            depth += 1
        elif letter in "}])":
            depth -= 1
        elif letter == "," and not depth:
            found.append(text[start:position])
            start = position + 1
    return [*found, text[start:]] if text.strip() else []


@models("omegaconf.OmegaConf.register_new_resolver", "omegaconf.OmegaConf.register_resolver")
def register(interpreter: Interpreter, call: Call) -> Value:
    """A function under a name, for use in configs."""
    name, function = constant_of(call.argument(0, "name")), call.argument(1, "resolver")
    if isinstance(name, str) and function is not None:
        interpreter.store.set("omegaconf", ("resolver", name), function)
    return NONE
