"""Python's own functions: ``int``, ``len``, ``range``, ``getattr``, ``isinstance`` and the rest."""

from __future__ import annotations

import ast
import math
from typing import TYPE_CHECKING, Any

from crashcart.documents import DocumentError, parse_python
from crashcart.numbers import bound_number
from crashcart.readers.interpreter.intervals import limited, mapped
from crashcart.readers.interpreter.lengths import Length, limited_length, rounded_length
from crashcart.readers.interpreter.libraries import elements, models, tested_for_finite
from crashcart.readers.interpreter.store import FALSE, NONE, TRUE
from crashcart.readers.interpreter.values import (
    RAISED,
    Choice,
    Class,
    Constant,
    Container,
    Function,
    Generator,
    Instance,
    Library,
    Module,
    Partial,
    PerRank,
    Result,
    Unknown,
    Value,
    constant_of,
    either,
    join,
    made_number,
    origins_of,
    small_tags,
    tags_of,
    unknown_from,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from crashcart.readers.interpreter.interpreter import Interpreter
    from crashcart.readers.interpreter.trace import Call

_CONVERSIONS: dict[str, Any] = {"int": int, "float": float, "str": str, "bool": bool}
_LONGEST = 400
_LONGEST_RANGE = 1 << 62
_MOST_DIGITS = 400  # that ``round`` may be asked for: a power of ten is made of them
_TYPES: dict[str, tuple[type, ...]] = {
    "int": (int,), "float": (float,), "str": (str,), "bool": (bool,), "bytes": (bytes,), "numbers.Number": (int, float), "complex": (complex,),
}  # fmt: skip
# Of these a plain value may be an instance without having been made of them.
_ABSTRACT = ("typing", "collections", "numbers", "abc.", "types.", "?")
_KINDS = {
    "list": {"list"},
    "tuple": {"tuple"},
    "dict": {"dict", "config"},
    "set": {"set"},
    "collections.abc.Mapping": {"dict", "config"},
    "argparse.Namespace": {"namespace"},
    "omegaconf.DictConfig": {"config"},
    "collections.abc.Sequence": {"list", "tuple"},
    "omegaconf.ListConfig": set(),
    "collections.OrderedDict": {"dict"},
}


@models("int", "float", "str", "bool")
def convert(interpreter: Interpreter, call: Call) -> Value:
    """A conversion, with the error that Python would raise."""
    if not call.arguments:
        return Constant(_CONVERSIONS[call.name]())
    return converted(interpreter, call.name, call.arguments[0], call.node, plain=len(call.arguments) == 1)


@models("distutils.util.strtobool")
def to_truth(interpreter: Interpreter, call: Call) -> Value:
    """``strtobool("yes")`` is 1, of a text that says neither an error."""
    value = call.argument(0, "val") or Unknown()
    text = constant_of(value)
    if not isinstance(text, str):
        return unknown_from(value)
    if text.lower() in {"y", "yes", "t", "true", "on", "1"}:
        return Constant(1, value.origins)
    if text.lower() in {"n", "no", "f", "false", "off", "0"}:
        return Constant(0, value.origins)
    return interpreter.fail(call.node, "ValueError", f"invalid truth value {text!r}", value)


def converted(interpreter: Interpreter, name: str, value: Value, node: ast.AST, *, plain: bool = True) -> Value:
    """A value as ``int``, ``float``, ``str`` or ``bool`` makes it."""
    if isinstance(value, PerRank):
        return PerRank(converted(interpreter, name, value.first, node), converted(interpreter, name, value.others, node))
    if isinstance(value, Choice):
        result: Value | None = None
        for option in value.options:
            made = converted(interpreter, name, option, node)
            result = made if result is None else join(result, made)
        return result if result is not None else Unknown()
    if isinstance(value, Constant) and plain:
        if name != "str" and isinstance(value.value, str) and len(value.value) > _LONGEST:
            return unknown_from(value)
        try:
            plain_value = bound_number(_CONVERSIONS[name](value.value))
            return Constant(plain_value, value.origins, direct=value.direct, source=value.source, node=value.node)
        except RAISED as problem:
            return interpreter.fail(node, type(problem).__name__, str(problem), value)
    if name == "bool":
        truth = interpreter.truth(value)
        if isinstance(truth, bool):
            return Constant(truth, value.origins)
    if name == "str" and isinstance(value, Result) and value.name in {"text", "pathlib.Path"}:
        return Constant(value.data, value.origins) if isinstance(value.data, str) else value
    if name == "int" and isinstance(value, Length):
        return rounded_length(value)
    if name in {"int", "float"} and (within := mapped(_CONVERSIONS[name], value)) is not None:
        return with_place(interpreter, within, node)
    kind = "number" if name in {"int", "float"} else ""
    return Unknown(small_tags(tags_of(value)) - {"graph", "tensor"}, value.origins, kind=kind)


def with_place(interpreter: Interpreter, value: Value, node: ast.AST) -> Value:
    """A number that came out of settings, with the place where it did."""
    if isinstance(value, Constant) and value.origins and value.node is None and isinstance(node, ast.expr):
        value.source, value.node = interpreter.frame.source, node
    return value


@models("len")
def length(interpreter: Interpreter, call: Call) -> Value:
    """The number of items."""
    value = call.argument(0)
    found = _length(interpreter, value, call)
    return interpreter.count(found, value) if value is not None else found


def _length(interpreter: Interpreter, value: Value | None, call: Call) -> Value:
    """The number of items, where all are known."""
    if isinstance(value, Constant) and isinstance(value.value, (str, bytes)):
        return Constant(len(value.value), value.origins)
    if isinstance(value, Container) and not interpreter.store.get(value, "open"):
        return Constant(
            len(interpreter.items(value)),
            origins_of(
                value, *list(interpreter.items(value))[:8] if value.kind not in {"dict", "config", "namespace"} else ()
            ),
        )
    if isinstance(value, Instance):
        result = interpreter.call_method(value, "__len__", [], {}, call.node)
        if result is not None:
            return result
    if isinstance(value, Unknown) and value.kind == "filled" and type(constant_of(value.bound)) is int:
        return value.bound  # type: ignore[return-value]
    known = interpreter.libraries.length(interpreter, value, call.node) if isinstance(value, Result) else None
    if known is not None:
        return known  # type: ignore[no-any-return]
    if isinstance(value, Result) and value.name == "range":
        numbers = known_range(value.call.arguments if value.call else [])
        if numbers is not None:
            return Constant(len(numbers), value.origins)
    return Length(value, frozenset({"length"}), value, kind="length")


@models("range")
def make_range(interpreter: Interpreter, call: Call) -> Value:
    """A range; its items are gone through one by one where they are few."""
    if len(call.arguments) > 2 and constant_of(call.arguments[2]) == 0:
        interpreter.fail(call.node, "ValueError", "range() arg 3 must not be zero", call.arguments[2])
    odd = next((value for value in call.arguments if isinstance(constant_of(value), float)), None)
    if odd is not None:
        return interpreter.fail(call.node, "TypeError", "'float' object cannot be interpreted as an integer", odd)
    return Result("range", call, tags_of(*call.arguments), origins_of(*call.arguments))


def known_range(bounds: Sequence[Value]) -> range | None:
    """The range with these bounds, where Python would make it and can tell its length."""
    numbers = [constant_of(bound) for bound in bounds]
    is_possible = 1 <= len(numbers) <= 3 and all(type(number) is int for number in numbers) and 0 not in numbers[2:]
    return range(*numbers) if is_possible and max(map(abs, numbers)) < _LONGEST_RANGE else None


@models("list(range)")
def range_items(interpreter: Interpreter, value: Result) -> list[Value] | None:
    """The numbers of a short range, as a list in the code would be."""
    numbers = known_range(value.call.arguments if value.call else [])
    if numbers is None:
        return None
    if not numbers:
        return []
    return None


@elements("range")
def range_element(_interpreter: Interpreter, value: Result, _node: ast.AST) -> Value:
    """A number below the bound."""
    arguments = value.call.arguments if value.call else []
    bound = arguments[0] if len(arguments) == 1 else arguments[1] if len(arguments) > 1 else None
    most = constant_of(bound)
    bounds = (0, most - 1) if len(arguments) == 1 and type(most) is int and most > 0 else None
    return Unknown(frozenset({"loop"}), value.origins, kind="index", bound=bound, bounds=bounds)


@models(
    "enumerate",
    "reversed",
    "sorted",
    "iter",
    "zip",
    "map",
    "filter",
    "tqdm.tqdm",
    "tqdm.trange",
    "rich.progress.track",
    "itertools.cycle",
    "itertools.chain",
    "itertools.islice",
    "itertools.count",
    "itertools.repeat",
)
def wrap(interpreter: Interpreter, call: Call) -> Value | None:
    """Something that goes over other things; short known lists are known items."""
    arguments = call.arguments
    values = (*arguments, *call.keywords.values())
    name = call.name
    if name in {"reversed", "sorted"} and arguments and isinstance(arguments[0], Container):
        items, complete = interpreter.listed(arguments[0])
        if all(isinstance(item, Constant) for item in items) and complete and not call.keywords:
            try:
                plain = sorted(item.value for item in items) if name == "sorted" else None  # type: ignore[attr-defined]
                items = [Constant(item, origins_of(*items)) for item in plain] if plain is not None else items[::-1]
            except TypeError:
                return unknown_from(*arguments)
        return interpreter.container("list", items, call.node, is_open=not complete)
    if name == "map" and len(arguments) > 1:
        items, complete = interpreter.listed(arguments[1])
        if complete and len(items) <= 12:
            return interpreter.container(
                "list", [interpreter.call(arguments[0], [item], {}, call.node) for item in items], call.node
            )
        element = interpreter.call(arguments[0], [interpreter.element(arguments[1], call.node)], {}, call.node)
        return interpreter.container("list", [element], call.node, is_open=True)
    if name == "iter" and arguments and isinstance(arguments[0], (Generator, Container)):
        return arguments[0]
    return Result(name, call, tags_of(*values), origins_of(*values))


@models("list(enumerate)")
def enumerate_items(interpreter: Interpreter, value: Result) -> list[Value] | None:
    """Numbered items of a short known list."""
    inner = value.argument(0)
    items = interpreter.unrolled(inner) if inner is not None else None
    start = constant_of(value.argument(1, "start"), 0)
    if items is None or type(start) is not int:
        return None
    return [interpreter.container("tuple", [Constant(number), item]) for number, item in enumerate(items, start)]


@models("list(zip)")
def zip_items(interpreter: Interpreter, value: Result) -> list[Value] | None:
    """Pairs of short known lists."""
    if value.call is None or not value.call.complete:
        return None
    columns = [interpreter.unrolled(argument) for argument in value.call.arguments]
    known = [column for column in columns if column is not None]
    if not columns or len(known) < len(columns):
        return None
    return [interpreter.container("tuple", list(row)) for row in zip(*known, strict=False)]


@models("list(tqdm.tqdm)", "list(rich.progress.track)")
def shown_items(interpreter: Interpreter, value: Result) -> list[Value] | None:
    """What a progress bar goes over."""
    inner = value.argument(0, "iterable") or value.argument(None, "sequence")
    return interpreter.unrolled(inner) if inner is not None else None


@elements("enumerate")
def enumerate_element(interpreter: Interpreter, value: Result, node: ast.AST) -> Value:
    """A number and an item."""
    inner = value.argument(0, "iterable")
    item = interpreter.element(inner, node) if inner is not None else Unknown()
    return interpreter.container("tuple", [Unknown(frozenset({"loop"}), kind="index"), item])


@elements("zip")
def zip_element(interpreter: Interpreter, value: Result, node: ast.AST) -> Value:
    """An item of each."""
    arguments = value.call.arguments if value.call else []
    return interpreter.container("tuple", [interpreter.element(argument, node) for argument in arguments])


@elements(
    "tqdm.tqdm",
    "rich.progress.track",
    "iter",
    "reversed",
    "sorted",
    "itertools.cycle",
    "itertools.islice",
    "filter",
    "itertools.chain",
)
def inner_element(interpreter: Interpreter, value: Result, node: ast.AST) -> Value:
    """An item of what it goes over."""
    inner = value.argument(1 if value.name == "filter" else 0, "iterable") or value.argument(None, "sequence")
    return interpreter.element(inner, node) if inner is not None else Unknown(frozenset({"loop"}))


@models("next")
def next_item(interpreter: Interpreter, call: Call) -> Value:
    """One item of an iterator."""
    value = call.argument(0)
    if isinstance(value, Container):
        items, _ = interpreter.listed(value)
        return items[0] if items else unknown_from(value)
    own = interpreter.call_method(value, "__next__", [], {}, call.node) if value is not None else None
    if own is not None:
        return own
    return interpreter.element(value, call.node) if value is not None else Unknown()


@models("list", "tuple", "set", "frozenset")
def make_sequence(interpreter: Interpreter, call: Call) -> Value:
    """A container of the items of another."""
    kind = "set" if call.name == "frozenset" else call.name
    if not call.arguments:
        return interpreter.container(kind, (), call.node, is_open=not call.complete)
    value = call.arguments[0]
    if isinstance(value, (Container, Result, Library)):
        items, complete = interpreter.listed(value)
        if complete or isinstance(value, Container):
            if kind == "set" and all(isinstance(item, Constant) for item in items):
                items = list({(type(item.value), item.value): item for item in items}.values())  # type: ignore[attr-defined]
            return interpreter.container(kind, items, call.node, is_open=not complete)
    if isinstance(value, Result) and value.name == "range" and value.call is not None:
        numbers = known_range(value.call.arguments)
        if numbers is not None and not numbers[64:]:
            return interpreter.container(kind, [Constant(number, value.origins) for number in numbers], call.node)
    element = interpreter.element(value, call.node) if not isinstance(value, (Constant, Unknown)) else unknown_from(value)
    return interpreter.container(kind, [element], call.node, is_open=True)


@models(
    "dict",
    "collections.OrderedDict",
    "easydict.EasyDict",
    "types.SimpleNamespace",
    "argparse.Namespace",
    "addict.Dict",
    "ml_collections.ConfigDict",
    "munch.Munch",
    "munch.munchify",
    "box.Box",
)
def make_dict(interpreter: Interpreter, call: Call) -> Value:
    """A dictionary, or one with attributes."""
    kind = (
        "dict"
        if call.name in {"dict", "collections.OrderedDict"}
        else "namespace"
        if call.name.endswith("amespace")
        else "config"
    )
    made = interpreter.container(kind, {}, call.node, is_open=not call.complete)
    for argument in call.arguments:
        if isinstance(argument, Container) and argument.kind in {"list", "tuple"}:
            for pair in interpreter.items(argument):
                both, whole = interpreter.listed(pair)
                if whole and len(both) == 2:
                    interpreter.set_item(made, both[0], both[1], None)
                else:
                    interpreter.libraries.open_up(interpreter, made)
        else:
            interpreter.update(made, argument)
    interpreter.store.set(made, "items", {**interpreter.entries(made), **call.keywords})
    if call.name == "addict.Dict":
        interpreter.store.set(made, "makes attributes", True)  # that are not there
    if kind == "config":
        nest(interpreter, made)
    return made


def nest(interpreter: Interpreter, container: Container, depth: int = 8) -> None:
    """Dictionaries in a dictionary with attributes have attributes too."""
    for value in interpreter.entries(container).values() if depth else ():
        if isinstance(value, Container) and value.kind == "dict":
            value.kind = "config"
            nest(interpreter, value, depth - 1)


@models("min", "max", "sum", "abs", "round", "divmod", "pow")
def calculate(interpreter: Interpreter, call: Call) -> Value:
    """Arithmetic of known numbers."""
    values = call.arguments
    if len(values) == 1 and isinstance(values[0], Container) and call.name in {"min", "max", "sum"}:
        if interpreter.store.get(values[0], "open"):
            return unknown_from(*values, *interpreter.listed(values[0])[0])
        values = interpreter.listed(values[0])[0]
    if (
        call.name in {"min", "max"}
        and len(values) == 2
        and not call.keywords
        and any(isinstance(value, (Choice, PerRank)) for value in values)
    ):
        return interpreter.combine(values[0], values[1], lambda one, other: _calculated(interpreter, call, [one, other]))
    return _calculated(interpreter, call, values)


def _calculated(interpreter: Interpreter, call: Call, values: list[Value]) -> Value:
    if call.name in {"min", "max"} and not call.keywords and (within := limited(call.name, values)) is not None:
        return within
    if call.name == "max" and not call.keywords and (length := limited_length(values)) is not None:
        return length
    if call.keywords or not values or not all(isinstance(value, Constant) for value in values):
        result = unknown_from(*values, *call.arguments)
        known = [constant_of(value) for value in values]
        counted = [value for value in values if isinstance(value, Unknown) and value.kind == "length"]
        if call.name == "min" and len(values) - len(counted) == 1 and len(counted) == 1:
            return next(value for value in values if value not in counted)  # data hold more than a batch
        if (
            call.name == "max"
            and len(values) > 1
            and any(isinstance(number, (int, float)) and number >= 1 for number in known)
        ):
            return Unknown(result.tags | {"positive"}, result.origins)
        return result
    plain = [value.value for value in values]  # type: ignore[attr-defined]
    if call.name == "pow" and (
        len(plain) < 2 or not all(isinstance(each, (int, float)) and abs(each) < 1000 for each in plain)
    ):
        return unknown_from(*values)
    if call.name == "round" and type(plain[-1]) is int and len(plain) > 1 and abs(plain[-1]) > _MOST_DIGITS:
        return unknown_from(*values)
    operations: dict[str, Any] = {"min": min, "max": max, "sum": sum, "abs": abs, "round": round, "pow": pow}
    try:
        if call.name == "divmod":
            if len(plain) != 2:
                return unknown_from(*values)
            whole, rest = divmod(plain[0], plain[1])
            return interpreter.container(
                "tuple", [Constant(whole, origins_of(*values)), Constant(rest, origins_of(*values))]
            )
        result_value = operations[call.name](plain) if call.name in {"min", "max", "sum"} else operations[call.name](*plain)
    except RAISED as problem:
        return interpreter.fail(call.node, type(problem).__name__, str(problem), *values)
    if isinstance(result_value, complex):
        return unknown_from(*values)
    return made_number(result_value, *values)


@models(
    "math.ceil",
    "math.floor",
    "math.sqrt",
    "math.log",
    "math.log2",
    "math.log10",
    "math.exp",
    "math.prod",
    "math.gcd",
    "math.cos",
    "math.pi",
    "math.isnan",
    "math.isinf",
    "math.isfinite",
    "math.pow",
    "math.trunc",
    "numpy.ceil",
    "numpy.floor",
    "numpy.sqrt",
    "numpy.prod",
    "numpy.log",
    "numpy.log2",
)
def calculate_math(interpreter: Interpreter, call: Call) -> Value:
    """The functions of ``math`` on known numbers."""
    name = call.method
    values = call.arguments
    if name in {"isnan", "isinf", "isfinite"} and not all(isinstance(value, Constant) for value in values):
        return tested_for_finite(interpreter, call, name, values)
    if name == "prod" and len(values) == 1:
        values = interpreter.listed(values[0])[0] if isinstance(values[0], Container) else values
    if name in {"floor", "ceil", "trunc"} and len(values) == 1:
        within = mapped(getattr(math, name), values[0])
        if within is not None:
            return with_place(interpreter, within, call.node)
    if not values or not all(isinstance(value, Constant) and isinstance(value.value, (int, float)) for value in values):
        return unknown_from(*values)
    plain = [value.value for value in values]  # type: ignore[attr-defined]
    if name == "pow" and not all(abs(each) < 1000 for each in plain):
        return unknown_from(*values)
    try:
        result = math.prod(plain) if name == "prod" else getattr(math, name)(*plain)
    except RAISED as problem:
        if call.name.startswith("numpy."):  # which warns and goes on
            return unknown_from(*values)
        return interpreter.fail(call.node, type(problem).__name__, str(problem), *values)
    if call.name.startswith("numpy.") and isinstance(result, int) and name in {"ceil", "floor"}:
        result = float(result)
    return made_number(result, *values)


@models("any", "all")
def any_or_all(interpreter: Interpreter, call: Call) -> Value:
    """Whether some or all of known items are true."""
    value = call.argument(0)
    items, complete = interpreter.listed(value) if isinstance(value, Container) else ([], False)
    truths = [interpreter.truth(item) for item in items]
    decides = call.name == "any"
    if items and interpreter.finite_at is not None and all(isinstance(item, Constant) for item in items):
        complete = True  # an assumption holds for every item
    if any(truth is decides for truth in truths) and complete:
        return TRUE if decides else FALSE
    if complete and all(isinstance(truth, bool) for truth in truths):
        return FALSE if decides else TRUE
    return unknown_from(value, *items)


@models("isinstance", "issubclass")
def is_instance(interpreter: Interpreter, call: Call) -> Value:
    """Whether a known thing is of a known class."""
    value, kinds = call.argument(0), call.argument(1)
    if value is None or kinds is None:
        return Unknown()
    wanted = interpreter.listed(kinds)[0] if isinstance(kinds, Container) else [kinds]
    if isinstance(value, Choice):
        truths = [is_of_any(option, wanted) for option in value.options]
        known = isinstance(truths[0], bool) and all(truth is truths[0] for truth in truths)
        return Constant(truths[0]) if known else Unknown(origins=value.origins)
    truth = is_of_any(value, wanted)
    return Unknown() if truth is None else Constant(truth)


def is_of_any(value: Value, kinds: list[Value]) -> bool | None:
    """Whether a value is of one of several classes; None where that is not known."""
    answers = [_is_of(value, kind) for kind in kinds]
    if True in answers:
        return True
    return False if answers and all(answer is False for answer in answers) else None


def _is_of(value: Value, kind: Value) -> bool | None:
    name = kind.name if isinstance(kind, Library) else ""
    if isinstance(value, Constant):
        if name in _TYPES:
            return isinstance(value.value, _TYPES[name])
        is_other = name.rpartition(".")[2][:1].isupper() and not name.startswith(_ABSTRACT)
        return False if name in _KINDS or isinstance(kind, Class) or is_other else None
    if isinstance(value, Container):
        if name in _KINDS:
            return value.kind in _KINDS[name]
        if value.kind == "config" and name.endswith(("Config", "ConfigDict", "CfgNode")):
            return True
        return False if name in _TYPES or isinstance(kind, Class) else None
    if isinstance(value, Instance):
        if isinstance(kind, Class):
            return kind in value.cls.lineage()
        if name in _TYPES or name in _KINDS:
            return False
        return True if name and name in value.cls.library_bases() else None
    if (
        isinstance(value, Unknown)
        and name == "torch.Tensor"
        and {"tensor", "graph"} & value.tags
        and value.kind != "mapping"
    ):
        return True
    if isinstance(value, Result) and value.name == "text":
        return name == "str" if name in _TYPES or name in _KINDS else None
    if isinstance(value, Result) and value.name == "pathlib.Path" and name == "str":
        return None  # ``str(path)`` stands for the same
    if isinstance(value, Result) and name:
        is_object = value.name.rpartition(".")[2][:1].isupper()  # a function of a library may give anything
        return True if value.name == name else False if is_object and (name in _TYPES or name in _KINDS) else None
    return None


@models("hasattr")
def has_attribute(interpreter: Interpreter, call: Call) -> Value:
    """Whether an object of the program has an attribute."""
    owner, name = call.argument(0), constant_of(call.argument(1))
    if owner is None or not isinstance(name, str):
        return Unknown()
    found = _attribute_if_there(interpreter, owner, name, call.node)
    if found is not None:
        return TRUE
    return FALSE if _is_closed(interpreter, owner) else Unknown()


@models("getattr")
def get_attribute(interpreter: Interpreter, call: Call) -> Value:
    """An attribute by its name, else the default."""
    owner, name = call.argument(0), constant_of(call.argument(1))
    default = call.argument(2)
    if owner is None:
        return Unknown()
    if not isinstance(name, str):
        key = call.argument(1)
        is_keyed = isinstance(owner, Container) and owner.kind in {"namespace", "config"}
        fitting = interpreter.fitting(interpreter.items(owner), key) if is_keyed and isinstance(key, Result) else {}
        return unknown_from(owner, default) if not fitting else either(list(fitting.values()))
    if isinstance(owner, PerRank):
        owner = interpreter.pick(owner)
    found = _attribute_if_there(interpreter, owner, name, call.node)
    if found is not None:
        return found
    if default is not None and _is_closed(interpreter, owner):
        return default
    if default is None and isinstance(owner, Module) and (names := interpreter.libraries.all_names(interpreter, owner)):
        says = f"module '{owner.name}' has no attribute '{name}'"
        return interpreter.fail(call.node, "AttributeError", says, call.arguments[1], choices=names)
    value = interpreter.attribute(owner, name, call.node)
    return join(default, value) if default is not None and not isinstance(value, Constant) else value


def _attribute_if_there(interpreter: Interpreter, owner: Value, name: str, node: ast.AST) -> Value | None:
    """An attribute that is known to be there."""
    if isinstance(owner, Container):
        return interpreter.items(owner).get(name) if owner.kind in {"namespace", "config"} else None
    if isinstance(owner, Instance):
        found = interpreter.peek(owner, name) or interpreter._find(owner.cls, name)
        return interpreter.attribute(owner, name, node) if found is not None else None
    if isinstance(owner, (Module, Class)):
        known = interpreter.store.get(owner, name) or (
            interpreter.attribute(owner, name, node) if isinstance(owner, Module) else None
        )
        return (
            None
            if isinstance(known, Unknown)
            and isinstance(owner, Module)
            and interpreter.libraries.all_names(interpreter, owner)
            else known
        )
    if isinstance(owner, Library):
        return interpreter.attribute(owner, name, node)
    return interpreter.peek(owner, name)


def _is_closed(interpreter: Interpreter, owner: Value) -> bool:
    """Whether all attributes of something are known."""
    if isinstance(owner, Container):
        return not interpreter.store.get(owner, "open")
    if isinstance(owner, Instance):
        return not owner.cls.library_bases() and interpreter._find(owner.cls, "__getattr__") is None
    return isinstance(owner, Constant)


@models("setattr", "object.__setattr__")
def set_attribute(interpreter: Interpreter, call: Call) -> Value:
    """Set an attribute by its name."""
    offset = 0 if call.name == "setattr" else -1
    owner = call.argument(0) if not offset else call.receiver
    if call.name == "object.__setattr__" and len(call.arguments) == 3:
        owner, offset = call.arguments[0], 0
    name, value = constant_of(call.argument(1 + offset)), call.argument(2 + offset)
    if owner is not None and isinstance(name, str) and value is not None:
        interpreter.set_attribute(owner, name, value)
    elif isinstance(owner, Container):
        interpreter.libraries.open_up(interpreter, owner)
    return NONE


@models("object.__getattribute__")
def plain_attribute(interpreter: Interpreter, call: Call) -> Value | None:
    """An attribute as Python finds it, past a ``__getattr__`` of the class."""
    named = call.arguments[1:] if call.receiver is None else call.arguments
    owner = call.receiver if call.receiver is not None else call.argument(0)
    name = constant_of(named[0]) if named else None
    return interpreter.peek(owner, name) if owner is not None and isinstance(name, str) else None


@models("vars")
def all_attributes(interpreter: Interpreter, call: Call) -> Value:
    """The attributes of an object as a dictionary."""
    owner = call.argument(0)
    is_known = isinstance(owner, Instance) or (isinstance(owner, Container) and owner.kind in {"namespace", "config"})
    return interpreter._attributes_as_dict(owner) if is_known and owner is not None else Unknown()


@models("globals")
def all_globals(interpreter: Interpreter, call: Call) -> Value:
    """The names of the module, which a program may set through it."""
    module = interpreter.frame.module
    content = {name: interpreter.store.get(module, name) for name in interpreter.names.get(module, ())}
    made = interpreter.container("dict", content, call.node)
    interpreter.store.set(made, "view", module)
    return made


@models("type")
def type_of(_interpreter: Interpreter, call: Call) -> Value:
    """The class of an object."""
    value = call.argument(0)
    if isinstance(value, Instance):
        return value.cls
    if isinstance(value, Constant):
        return Library(type(value.value).__name__)
    return Library(value.kind) if isinstance(value, Container) else Unknown()


@models("callable")
def is_callable(_interpreter: Interpreter, call: Call) -> Value:
    """Whether something can be called."""
    value = call.argument(0)
    if isinstance(value, (Function, Class, Partial, Library)):
        return TRUE
    return FALSE if isinstance(value, (Constant, Container)) else Unknown()


@models(
    "print",
    "logging.info",
    "logging.warning",
    "logging.debug",
    "logging.basicConfig",
    "warnings.warn",
    "warnings.filterwarnings",
)
def say(_interpreter: Interpreter, _call: Call) -> Value:
    """Nothing comes of it."""
    return NONE


@models("input")
def ask(_interpreter: Interpreter, _call: Call) -> Value:
    """What somebody types."""
    return Unknown()


@models("exec", "eval")
def execute_text(interpreter: Interpreter, call: Call) -> Value:
    """Text that is run as code; nanoGPT's ``exec(open('configurator.py').read())`` runs a file of the program."""
    text = call.argument(0)
    if call.name == "eval" and isinstance(text, Constant) and isinstance(text.value, str) and len(text.value) < _LONGEST:
        try:
            body = parse_python(text.value.strip()).body
        except (SyntaxError, ValueError, DocumentError):
            return Unknown()
        return interpreter.evaluate(body[0].value) if len(body) == 1 and isinstance(body[0], ast.Expr) else Unknown()
    names = call.argument(1, "globals")
    if call.name == "exec" and isinstance(names, Container):
        path = text.data if isinstance(text, Result) and text.name == "file text" and isinstance(text.data, str) else ""
        module = interpreter.import_file(path, "(text)") if path.endswith(".py") else None
        if module is not None:
            interpreter.update(names, interpreter.attribute(module, "__dict__", call.node))
        interpreter.libraries.open_up(interpreter, names)
        return NONE
    if call.name == "exec" and isinstance(text, Result) and text.name == "file text" and isinstance(text.data, str):
        source = interpreter.modules.source(text.data)
        if source is not None:
            own, interpreter.frame.source = interpreter.frame.source, source
            try:
                interpreter.block(source.tree.body)
            finally:
                interpreter.frame.source = own
    return NONE if call.name == "exec" else Unknown()
