"""What an expression of a program can stand for, as far as reading tells.

A value is known (``Constant``), one of a few (``Choice``), another on the first rank than on the others (``PerRank``), a thing of
the program's own (``Function``, ``Class``, ``Instance``, containers), a thing of a library (``Library``, ``Result``), or ``Unknown``.
Every value carries the settings it was made of, so that a finding can name the flag or the line of a config behind a number.
Contents of containers and attributes of objects are kept in the store, never in the value: alternatives can be tried and undone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from crashcart.numbers import LARGEST

if TYPE_CHECKING:
    import ast
    from collections.abc import Callable, Iterable

    from crashcart.model import Fact
    from crashcart.readers.code.source import Source
    from crashcart.readers.interpreter.trace import Call

__all__ = [
    "RAISED",
    "Bound",
    "Choice",
    "Class",
    "Constant",
    "Container",
    "Deferred",
    "Function",
    "Generator",
    "Instance",
    "Library",
    "Module",
    "Partial",
    "PerRank",
    "Result",
    "Super",
    "Unknown",
    "Value",
    "constant_of",
    "either",
    "hashable",
    "join",
    "made_number",
    "made_text",
    "origins_of",
    "small_tags",
    "tags_of",
    "unknown_from",
]

# What Python's own functions and operators raise for values that do not suit them.
RAISED = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError, MemoryError)
_MOST_OPTIONS = 8
_GRAPH = frozenset({"graph"})  # claimed of one of several values only where all have it
LONGEST_TEXT = 20_000  # characters of a text that the program puts together; of a longer one only that it is a text is known
_HEAVIEST = 100  # parts, and parts of parts, of a text or path of which not all is known
_MOST_ORIGINS = 8
NO_TAGS: frozenset[str] = frozenset()
_NUMBERS = frozenset({"index", "number", "length"})  # kinds of values that stay what they are by whatever way control came
_BY_RANK = frozenset({"rank"})
_VOLUME = ("bulk", "whole:", "handle:")


class Value:
    """Anything that a name can stand for."""

    __slots__ = ()
    origins: tuple[Fact, ...] = ()
    tags: frozenset[str] = NO_TAGS


class Constant(Value):
    """A plain Python value: number, text, boolean, None, bytes, Ellipsis.

    ``direct`` says that it is a setting itself and not calculated from one; ``node`` is where it is written in the code. A test that
    holds in every round, as ``step % 1 == 0``, keeps its ``moduli``.
    """

    __slots__ = ("direct", "moduli", "node", "origins", "source", "value")

    def __init__(
        self,
        value: Any,  # noqa: ANN401 - a Python constant of any type
        origins: tuple[Fact, ...] = (),
        *,
        direct: bool = False,
        source: Source | None = None,
        node: ast.expr | None = None,
        moduli: tuple[Value, ...] = (),
    ) -> None:
        self.value, self.origins, self.direct, self.source, self.node = value, origins, direct, source, node
        self.moduli = moduli

    def __repr__(self) -> str:
        return f"Constant({self.value!r})"


class Unknown(Value):
    """A value that reading does not tell; ``tags`` say what is known of it all the same.

    Tags: ``tensor``, ``graph`` (part of an autograd graph), ``data`` (made from a sample), ``finite`` (a test for NaN or Inf),
    ``loop`` (changes from round to round), ``rank`` (differs between ranks), ``random``, ``time``; ``handle:N``, ``bulk`` and ``whole:N``
    are explained in `libraries.data_files`. ``moduli`` are c in ``step % c`` and all such in tests made of it; ``bounds`` are the least and the
    greatest that a number can be. A test with moduli is of the kind ``divides`` where it holds on the period and ``remains`` or
    ``remainder`` where it holds on the other steps. Of the kind ``offset`` it is ``base`` plus the whole number ``bound``; of the kind
    ``several`` one of more values than are kept.
    """

    __slots__ = ("base", "bound", "bounds", "kind", "moduli", "origins", "tags")

    def __init__(
        self,
        tags: frozenset[str] = NO_TAGS,
        origins: tuple[Fact, ...] = (),
        *,
        kind: str = "",
        moduli: tuple[Value, ...] = (),
        bound: Value | None = None,
        bounds: tuple[float, float] | None = None,
    ) -> None:
        self.tags, self.origins, self.kind, self.moduli, self.bound = tags, origins, kind, moduli, bound
        self.base: Value | None = None
        self.bounds = bounds

    @property
    def modulus(self) -> Value | None:
        """C in a test of ``step % c``; of several the last, as in ``if not accumulating and step % c == 0``."""
        return self.moduli[-1] if self.moduli else None

    def __repr__(self) -> str:
        return f"Unknown({', '.join(sorted(self.tags))})"


class Choice(Value):
    """One of several values; which one depends on what is not known."""

    __slots__ = ("options",)

    def __init__(self, options: tuple[Value, ...]) -> None:
        self.options = options

    @property
    def origins(self) -> tuple[Fact, ...]:  # type: ignore[override]
        """The settings of all options."""
        return origins_of(*self.options)

    @property
    def tags(self) -> frozenset[str]:  # type: ignore[override]
        """What may be true of it."""
        return tags_of(*self.options)

    def __repr__(self) -> str:
        return f"Choice({', '.join(map(repr, self.options))})"


class PerRank(Value):
    """One value on rank 0 and another on every other rank."""

    __slots__ = ("first", "others")

    def __init__(self, first: Value, others: Value) -> None:
        self.first, self.others = first, others

    @property
    def origins(self) -> tuple[Fact, ...]:  # type: ignore[override]
        """The settings of both."""
        return origins_of(self.first, self.others)

    @property
    def tags(self) -> frozenset[str]:  # type: ignore[override]
        """What may be true of it, and that it differs between ranks."""
        return tags_of(self.first, self.others) | _BY_RANK

    def __repr__(self) -> str:
        return f"PerRank({self.first!r}, {self.others!r})"


class Container(Value):
    """A list, tuple, set or dict; its content is in the store under ``items`` (a tuple or a dict) and ``open`` (there may be more)."""

    __slots__ = ("call", "kind", "node", "number", "origins", "source")

    def __init__(
        self,
        kind: str,
        origins: tuple[Fact, ...] = (),
        source: Source | None = None,
        node: ast.expr | None = None,
    ) -> None:
        self.kind, self.origins, self.source, self.node = kind, origins, source, node
        self.call: Call | None = None
        self.number = 0  # when it was made, in the order of the trace

    def __repr__(self) -> str:
        return f"Container({self.kind})"


class Function(Value):
    """A function, method or lambda of the program, with the frame in which it was defined."""

    __slots__ = ("closure", "decorators", "defaults", "is_generator", "kind", "name", "node", "owner", "source")

    def __init__(
        self,
        node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda,
        source: Source,
        closure: Any,  # noqa: ANN401 - the frame around it and its module, which are the interpreter's
        defaults: dict[str, Value],
        owner: Class | None,
        name: str,
    ) -> None:
        self.node, self.source, self.closure, self.defaults, self.owner, self.name = (
            node, source, closure, defaults, owner, name,
        )  # fmt: skip
        self.decorators: tuple[str, ...] = ()
        self.kind = ""  # property, staticmethod, classmethod
        self.is_generator: bool | None = None

    def __repr__(self) -> str:
        return f"Function({self.name})"


class Bound(Value):
    """A function together with the object whose method it is."""

    __slots__ = ("function", "receiver")

    def __init__(self, function: Value, receiver: Value) -> None:
        self.function, self.receiver = function, receiver

    @property
    def origins(self) -> tuple[Fact, ...]:  # type: ignore[override]
        """An attribute of an unknown thing is made of what the thing is made of."""
        return self.receiver.origins

    @property
    def tags(self) -> frozenset[str]:  # type: ignore[override]
        """What is known of the object is known of its attribute."""
        return self.receiver.tags


class Class(Value):
    """A class of the program; its namespace is in the store."""

    __slots__ = ("bases", "decorators", "name", "node", "source")

    def __init__(self, node: ast.ClassDef, source: Source, bases: tuple[Value, ...]) -> None:
        self.node, self.source, self.bases, self.name = node, source, bases, node.name
        self.decorators: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"Class({self.name})"

    def lineage(self) -> list[Value]:
        """The class and its bases, in the order in which attributes are looked up (first depth, each once)."""
        found: list[Value] = []
        waiting: list[Value] = [self]
        while waiting:
            each = waiting.pop(0)
            if each in found:
                continue
            found.append(each)
            if isinstance(each, Class):
                waiting = [*each.bases, *waiting]
        return found

    def library_bases(self) -> list[str]:
        """The names of the library classes it inherits from."""
        return [base.name for base in self.lineage() if isinstance(base, Library)]

    def is_a(self, *ends: str) -> bool:
        """Whether it inherits from a library class with one of these names (the last part counts)."""
        return any(name.rpartition(".")[2] in ends for name in self.library_bases())


class Instance(Value):
    """An object of a class of the program; its attributes are in the store."""

    __slots__ = ("call", "cls", "origins", "tags")

    def __init__(self, cls: Class, call: Call | None = None, origins: tuple[Fact, ...] = ()) -> None:
        self.cls, self.call, self.origins = cls, call, origins
        self.tags: frozenset[str] = NO_TAGS

    def __repr__(self) -> str:
        return f"Instance({self.cls.name})"


class Module(Value):
    """A module of the program; its namespace is in the store."""

    __slots__ = ("name", "source")

    def __init__(self, name: str, source: Source | None) -> None:
        self.name, self.source = name, source


class Deferred(Value):
    """A module of a large program, or a name of one, whose body is followed only when somebody asks for it."""

    __slots__ = ("module", "name", "path")

    def __init__(self, path: str, module: str, name: str = "") -> None:
        self.path, self.module, self.name = path, module, name


class Library(Value):
    """Something of a library, by its full name: ``torch.utils.data.DataLoader``."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"Library({self.name})"


class Result(Value):
    """What a call of a library gave: an object of its own, named after the call; attributes that were set are in the store.

    ``weight`` counts the parts that it is put together of, with their parts: a text that is joined to itself again and again would
    take for ever to walk through.
    """

    __slots__ = ("call", "data", "name", "origins", "tags", "weight")

    def __init__(
        self,
        name: str,
        call: Call | None = None,
        tags: frozenset[str] = NO_TAGS,
        origins: tuple[Fact, ...] = (),
        data: Any = None,  # noqa: ANN401 - what the model of a library keeps with it
    ) -> None:
        self.name, self.call, self.tags, self.origins = name, call, tags, origins
        self.weight = 1
        if isinstance(data, list):
            self.weight += sum(part.weight if isinstance(part, Result) else 1 for part in data)
            if self.weight > _HEAVIEST:
                data, self.weight = [Unknown()], 2
        elif isinstance(data, str) and len(data) > LONGEST_TEXT:
            data = None
        self.data = data

    def argument(self, position: int | None, name: str = "") -> Value | None:
        """An argument of the call that made it."""
        return self.call.argument(position, name) if self.call is not None else None

    def __repr__(self) -> str:
        return f"Result({self.name})"


class Partial(Value):
    """A callable with some of its arguments given."""

    __slots__ = ("arguments", "function", "keywords")

    def __init__(self, function: Value, arguments: list[Value], keywords: dict[str, Value]) -> None:
        self.function, self.arguments, self.keywords = function, arguments, keywords


class Super(Value):
    """``super()`` in a method of a class, for an object."""

    __slots__ = ("cls", "receiver")

    def __init__(self, cls: Class, receiver: Value) -> None:
        self.cls, self.receiver = cls, receiver


class Generator(Value):
    """A call of a generator function that nobody has iterated over yet; ``run`` executes its body and hands over what it yields."""

    __slots__ = ("function", "run")

    def __init__(self, function: Function, run: Callable[[Callable[[Value], Value]], None]) -> None:
        self.function, self.run = function, run

    def collect(self) -> list[Value]:
        """Everything that it yields."""
        found: list[Value] = []

        def keep(value: Value) -> Value:
            found.append(value)
            return Unknown()

        self.run(keep)
        return found


def origins_of(*values: Value | None) -> tuple[Fact, ...]:
    """The settings behind several values, each once."""
    found: tuple[Fact, ...] = ()
    for value in values:
        if value is not None and (more := value.origins) and more is not found:
            found = more if not found else (*found, *(fact for fact in more if fact not in found))
    return found[:_MOST_ORIGINS]


def tags_of(*values: Value | None) -> frozenset[str]:
    """What is known of at least one of several values."""
    found = NO_TAGS
    for value in values:
        if value is not None and value.tags:
            found = found | value.tags
    return found


def small_tags(tags: frozenset[str]) -> frozenset[str]:
    """What is known of a number or a shape that was worked out of data: it is not as large as they are."""
    return frozenset(tag for tag in tags if not tag.startswith(_VOLUME)) if tags else tags


def unknown_from(*values: Value | None, add: Iterable[str] = (), drop: frozenset[str] = NO_TAGS) -> Unknown:
    """What comes of values in a way that cannot be told; it keeps what is known of them."""
    tags = tags_of(*values)
    if add:
        tags |= frozenset(add)
    return Unknown(tags - drop if drop else tags, origins_of(*values))


def made_text(pieces: Iterable[str], *values: Value | None) -> Value:
    """A text put together, with the settings of the values it was made of; not known where it is too long to be worked with."""
    listed = list(pieces)
    if sum(map(len, listed)) > LONGEST_TEXT:
        return unknown_from(*values)
    return Constant("".join(listed), origins_of(*values))


def made_number(number: Any, *values: Value | None, **more: Any) -> Value:  # noqa: ANN401 - what Python made of constants, and how it was written
    """What was worked out; not known where it is a number too large to be worked with: printing it would raise, or take for ever."""
    if isinstance(number, (int, float)) and not -LARGEST < number < LARGEST:
        return unknown_from(*values)
    return Constant(number, origins_of(*values), **more)


def constant_of(value: Value | None, default: Any = None) -> Any:  # noqa: ANN401 - a constant of any type
    """The plain value where it is known, else the default."""
    return value.value if isinstance(value, Constant) else default


def hashable(key: Value) -> Value:
    """A key that can be looked up: a slice, which cannot before Python 3.12, is not known."""
    return unknown_from(key) if isinstance(constant_of(key), slice) else key


def join(first: Value, second: Value) -> Value:
    """The value where control came by two ways."""
    if first is second:
        return first
    if isinstance(first, PerRank) or isinstance(second, PerRank):
        sides = [(value.first, value.others) if isinstance(value, PerRank) else (value, value) for value in (first, second)]
        return PerRank(join(sides[0][0], sides[1][0]), join(sides[0][1], sides[1][1]))
    options: list[Value] = []
    for value in (first, second):
        for option in value.options if isinstance(value, Choice) else (value,):
            if not any(_same(option, known) for known in options):
                options.append(option)
    if len(options) == 1:
        return (
            second if isinstance(second, Unknown) else options[0]
        )  # of two unknown values the later, so that a loop sees the change
    if len(options) > _MOST_OPTIONS or all(isinstance(option, Unknown) for option in options):
        made = unknown_from(*options, drop=NO_TAGS if all("graph" in option.tags for option in options) else _GRAPH)
        kinds = {option.kind if isinstance(option, Unknown) else "" for option in options}
        made.kind = (
            kinds.pop() if len(kinds) == 1 and kinds <= _NUMBERS else "several" if len(options) > _MOST_OPTIONS else ""
        )
        return made
    return Choice(tuple(options))


def either(values: list[Value]) -> Value:
    """One of several values."""
    result = values[0]
    for value in values[1:]:
        result = join(result, value)
    return result


def _same(first: Value, second: Value) -> bool:
    if first is second:
        return True
    if isinstance(first, Constant) and isinstance(second, Constant):
        return type(first.value) is type(second.value) and bool(first.value == second.value)
    if isinstance(first, Library) and isinstance(second, Library):
        return first.name == second.name
    if isinstance(first, Bound) and isinstance(second, Bound):
        return first.function is second.function and first.receiver is second.receiver
    return isinstance(first, Unknown) and isinstance(second, Unknown) and first.tags == second.tags and not (
        first.origins or second.origins or first.modulus or second.modulus or first.bounds or second.bounds
    )  # fmt: skip
