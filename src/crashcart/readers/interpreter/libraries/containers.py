"""The methods of lists, dictionaries, sets and of objects that behave like them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from crashcart.readers.interpreter.libraries import models
from crashcart.readers.interpreter.store import NONE
from crashcart.readers.interpreter.values import (
    Constant,
    Container,
    Instance,
    Library,
    Result,
    Unknown,
    Value,
    constant_of,
    join,
    unknown_from,
)

if TYPE_CHECKING:
    from crashcart.readers.interpreter.interpreter import Interpreter
    from crashcart.readers.interpreter.trace import Call

_MOST = 4096


@models("list.append", "set.add", "list.extend", "set.update", "list.insert", "deque.append", "list.appendleft")
def add(interpreter: Interpreter, call: Call) -> Value:
    """One item more, or several."""
    owner = call.receiver
    if not isinstance(owner, Container):
        return NONE
    added = call.argument(1 if call.method == "insert" else 0)
    if call.method in {"extend", "update"}:
        if added is not None:
            interpreter.libraries.extend(interpreter, owner, added)
        return NONE
    content = interpreter.items(owner)
    if len(content) < _MOST and added is not None:
        position = constant_of(call.argument(0)) if call.method == "insert" else None
        items = (added, *content) if position == 0 else (*content, added)
        interpreter.store.set(owner, "items", items)
        if call.method == "insert" and position != 0:
            interpreter.libraries.open_up(interpreter, owner)
    return NONE


@models(
    "list.pop",
    "list.remove",
    "list.clear",
    "set.discard",
    "set.remove",
    "set.pop",
    "set.clear",
    "list.sort",
    "list.reverse",
    "list.popleft",
)
def take_out(interpreter: Interpreter, call: Call) -> Value:
    """Fewer items, or another order."""
    owner = call.receiver
    if not isinstance(owner, Container):
        return Unknown()
    content = interpreter.items(owner)
    if call.method == "clear":
        interpreter.store.set(owner, "items", ())
        return NONE
    index = constant_of(call.argument(0), -1)
    if (
        call.method == "pop"
        and owner.kind == "list"
        and not interpreter.store.get(owner, "open")
        and type(index) is int
        and -len(content) <= index < len(content)
    ):
        items = list(content)
        item = items.pop(index)
        interpreter.store.set(owner, "items", tuple(items))
        return item  # type: ignore[no-any-return]
    interpreter.libraries.open_up(interpreter, owner)
    return unknown_from(owner, *content) if call.method.startswith("pop") else NONE


@models("list.index", "list.count", "tuple.index", "tuple.count")
def search(_interpreter: Interpreter, call: Call) -> Value:
    """A position or a number that is not worked out."""
    return unknown_from(call.receiver)


@models(
    "list.copy",
    "dict.copy",
    "set.copy",
    "copy.copy",
    "copy.deepcopy",
    "config.copy",
    "dict.clone",
    "dict.to_dict",
    "namespace.copy",
)
def copy(interpreter: Interpreter, call: Call) -> Value:
    """A container, an object or something unknown that is another one with the same content."""
    value = call.receiver if call.receiver is not None else call.argument(0)
    if isinstance(value, Container):
        return copied(interpreter, value)
    if isinstance(value, Instance):
        made = Instance(value.cls, value.call, value.origins)
        for name in interpreter.store.names(value):
            interpreter.store.set(made, name, interpreter.store.get(value, name))
        return made
    return unknown_from(value) if isinstance(value, Unknown) or value is None else value


def copied(interpreter: Interpreter, value: Container, depth: int = 6) -> Container:
    """A copy with copies of the containers in it."""
    content = interpreter.items(value)

    def each(item: Value) -> Value:
        return copied(interpreter, item, depth - 1) if isinstance(item, Container) and depth else item

    items = (
        {key: each(item) for key, item in content.items()} if isinstance(content, dict) else [each(item) for item in content]
    )
    made = interpreter.container(value.kind, items, is_open=bool(interpreter.store.get(value, "open")))
    made.origins = value.origins
    keep_class(interpreter, value, made)
    return made


def keep_class(interpreter: Interpreter, config: Value, made: Value) -> None:
    """A config that is made of another is of the same dataclass, where that one was made of one."""
    cls = interpreter.store.get(config, "(class)")
    if cls is not None:
        interpreter.store.set(made, "(class)", cls)


@models(
    "dict.__init__",
    "collections.OrderedDict.__init__",
    "collections.UserDict.__init__",
    "easydict.EasyDict.__init__",
    "addict.Dict.__init__",
)
def initialise_mapping(interpreter: Interpreter, call: Call) -> Value | None:
    """``super().__init__(content)`` of a class that is a dictionary."""
    mapping = interpreter.libraries.mapping(interpreter, call.receiver) if isinstance(call.receiver, Instance) else None
    if not isinstance(mapping, Container):
        return None
    if call.complete and not any(isinstance(argument, Unknown) for argument in call.arguments):
        interpreter.store.set(mapping, "open", False)
    for argument in call.arguments:
        interpreter.update(mapping, argument)
    interpreter.store.set(mapping, "items", {**interpreter.items(mapping), **call.keywords})
    return NONE


@models(
    "dict.get",
    "config.get",
    "namespace.get",
    "dict.pop",
    "namespace.pop",
    "dict.setdefault",
    "config.setdefault",
    "config.pop",
)
def get(interpreter: Interpreter, call: Call) -> Value | None:
    """The value of a key, else the default."""
    owner, key, default = call.receiver, call.argument(0), call.argument(1, "default", NONE)
    if not isinstance(owner, Container) or key is None:
        return None
    content = interpreter.entries(owner)
    plain = constant_of(key, call)
    others = interpreter.store.get(owner, "others")
    if plain is call or not isinstance(plain, (str, int, float, bool, type(None), tuple)):
        if isinstance(others, Value) and not content and call.method == "get" and default is not None:
            return join(default, others)
        return unknown_from(owner, key, default, *list(content.values())[:8])
    if plain in content:
        found = content[plain]
        if call.method == "pop":
            interpreter.store.set(owner, "items", {name: value for name, value in content.items() if name != plain})
        return interpreter.pick(found)
    if call.method == "setdefault" and default is not None:
        interpreter.set_item(owner, key, default, None)
        return default
    if interpreter.store.get(owner, "open"):
        return join(default, unknown_from(owner)) if default is not None else unknown_from(owner)
    return default if default is not None else NONE


@models(
    "dict.items",
    "dict.keys",
    "dict.values",
    "config.items",
    "config.keys",
    "config.values",
    "namespace.items",
    "namespace.keys",
    "namespace.values",
)
def views(interpreter: Interpreter, call: Call) -> Value | None:
    """The content as a list."""
    owner = call.receiver
    if not isinstance(owner, Container):
        return None
    content = interpreter.entries(owner)
    pairs: list[tuple[Value, Value]] = [(Constant(key), value) for key, value in content.items()]
    others = interpreter.store.get(owner, "others")
    if isinstance(others, Value):
        pairs.append((Unknown(frozenset({"loop"})), others))
    if call.method == "keys":
        items: list[Value] = [key for key, _ in pairs]
    elif call.method == "values":
        items = [value for _, value in pairs]
    else:
        items = [interpreter.container("tuple", [key, value]) for key, value in pairs]
    return interpreter.container("list", items, call.node, is_open=bool(interpreter.store.get(owner, "open")))


@models("dict.update", "config.update", "namespace.update")
def update(interpreter: Interpreter, call: Call) -> Value:
    """More keys, or other values."""
    owner = call.receiver
    if isinstance(owner, Container):
        for argument in call.arguments:
            interpreter.update(owner, argument)
        if call.keywords:
            interpreter.update(owner, interpreter.container("dict", call.keywords))
        if not call.complete:
            interpreter.libraries.open_up(interpreter, owner)
    return NONE


@models("dict.fromkeys")
def from_keys(interpreter: Interpreter, call: Call) -> Value:
    """A dictionary with one value for all keys."""
    keys, complete = interpreter.listed(call.argument(0) or Unknown())
    made = interpreter.container("dict", {}, call.node, is_open=not complete)
    for key in keys:
        interpreter.set_item(made, key, call.argument(1) or NONE, None)
    return made


@models("collections.defaultdict", "collections.Counter")
def default_dict(interpreter: Interpreter, call: Call) -> Value:
    """A dictionary that makes what it does not have."""
    made = interpreter.container("dict", {}, call.node)
    factory = call.argument(0) if call.method == "defaultdict" else Library("int")
    if factory is not None:
        interpreter.store.set(made, "factory", factory)
    return made


@models("collections.deque")
def deque(interpreter: Interpreter, call: Call) -> Value:
    """A list with two ends; ``maxlen`` bounds it."""
    items, complete = interpreter.listed(call.arguments[0]) if call.arguments else ([], True)
    made = interpreter.container("list", items, call.node, is_open=not complete)
    maximum = call.argument(1, "maxlen")
    if maximum is not None and constant_of(maximum, 1) is not None:
        interpreter.store.set(made, "maxlen", maximum)
    return made


@models("collections.namedtuple", "typing.NamedTuple")
def named_tuple(interpreter: Interpreter, call: Call) -> Value:
    """A class of tuples with names."""
    fields = call.argument(1)
    plain = constant_of(fields)
    if isinstance(plain, str):
        names = plain.replace(",", " ").split()
    else:
        items, _ = interpreter.listed(fields) if fields is not None else ([], False)
        names = [str(constant_of(item)) for item in items]
    return Result("namedtuple class", call, data=names)


@models("namedtuple class.__call__")
def make_named_tuple(interpreter: Interpreter, call: Call) -> Value:
    """A tuple with names."""
    receiver = call.receiver
    names = receiver.data if isinstance(receiver, Result) else []
    given = dict(zip(names, call.arguments, strict=False)) | call.keywords
    return interpreter.container("namespace", given, call.node)


@models("torch.nn.ModuleList", "torch.nn.Sequential", "torch.nn.ModuleDict")
def modules(interpreter: Interpreter, call: Call) -> Value | None:
    """A module with parts; calling or going over it reaches them."""
    return Result(call.name, call)
