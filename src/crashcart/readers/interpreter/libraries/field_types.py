"""The fields of dataclasses and the parameters of functions, with their types: what typed command lines are made of.

    lr: float = 1e-3
    layers: list[int] = field(default_factory=lambda: [2, 2])
    optimizer: Literal["adam", "sgd"] | None = None

An annotation is read as written, its names looked up where it stands. The dataclasses of transformers and trl are in a table
(``library_fields.txt``), so that neither need be installed.
"""

from __future__ import annotations

import ast
import os
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from crashcart.documents import DocumentError, parse_python
from crashcart.model import Evidence, Fact
from crashcart.names import canonical, is_secret
from crashcart.readers.interpreter.interpreter import Frame
from crashcart.readers.interpreter.values import (
    Bound,
    Class,
    Constant,
    Function,
    Library,
    Module,
    Partial,
    Result,
    Unknown,
    Value,
    constant_of,
)
from crashcart.record import record
from crashcart.regular_files import read_whole

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.readers.interpreter.interpreter import Interpreter
    from crashcart.readers.interpreter.trace import Call

__all__ = [
    "ANY",
    "Field",
    "Kind",
    "defaulted",
    "evaluate_annotation",
    "field_table",
    "fields_in",
    "kind_of",
    "parameters_of",
]

_SEQUENCES = {"list": "list", "List": "list", "Sequence": "list", "Iterable": "list", "MutableSequence": "list", "Collection": "list",
              "set": "set", "Set": "set", "frozenset": "set", "FrozenSet": "set"}  # fmt: skip
_MAPPINGS = {"dict", "Dict", "Mapping", "MutableMapping", "OrderedDict"}
_PLAIN = {"int", "float", "str", "bool", "bytes", "complex"}
_WRAPPED = {"Annotated", "Final", "InitVar", "Required", "NotRequired", "Positional", "Fixed", "Suppress"}
_FIELD_CALLS = (
    ".field",
    ".Field",
    ".HfArg",
    ".ib",
    "attr.ib",
    ".list_field",
    ".mutable_field",
    ".choice",
    ".flag",
    ".subgroups",
    ".subparsers",
)
_FACTORIES = {"simple_parsing.mutable_field": 0, "draccus.mutable_field": 0}
_DEEPEST = 12
_LARGEST_TABLE = 1_000_000
_TABLE = os.path.join(os.path.dirname(__file__), "library_fields.txt")


@record(frozen=True)
class Kind:
    """A type: ``name`` is int, float, str, bool, none, path, literal, enum, list, tuple, set, dict, union, class, dataclass or any."""

    name: str
    parts: tuple[Kind, ...] = ()
    choices: tuple[Any, ...] = ()
    cls: Class | Library | None = None
    notes: tuple[Value, ...] = ()  # what ``Annotated`` adds

    @property
    def optional(self) -> bool:
        """Whether None is allowed."""
        return self.name == "union" and any(part.name == "none" for part in self.parts)

    @property
    def inner(self) -> Kind:
        """The type without None."""
        kept = [part for part in self.parts if part.name != "none"] if self.name == "union" else []
        return kept[0] if len(kept) == 1 else Kind("union", tuple(kept), notes=self.notes) if kept else self


ANY = Kind("any")
NOTHING = Kind("none")


@record
class Field:
    """A field of a dataclass or a parameter of a function; no ``default`` means that it must be given."""

    name: str
    kind: Kind
    default: Value | None
    declared: Result | None = None  # ``dataclasses.field(...)`` and its like
    node: ast.AST | None = None
    library: str = ""
    is_annotated: bool = True
    is_keyword: bool = False
    init: bool = True
    options: dict[str, Any] | None = None  # of the table

    def metadata(self, interpreter: Interpreter) -> dict[str, Value]:
        """What ``field(metadata={...})`` says."""
        given = self.declared.argument(None, "metadata") if self.declared is not None else None
        items = interpreter.items(given) if given is not None else {}
        found = {str(name): value for name, value in items.items()} if isinstance(items, dict) else {}
        if self.options:
            found.update({name: _plain_value(interpreter, value) for name, value in self.options.items()})
        return found


def _plain_value(interpreter: Interpreter, value: Any) -> Value:  # noqa: ANN401 - data of the table
    if isinstance(value, (list, tuple)):
        return interpreter.container("list", [Constant(item) for item in value])
    if isinstance(value, dict):
        return interpreter.container("dict", {name: Constant(item) for name, item in value.items()})
    return Constant(value)


# ---- annotations


def kind_of(interpreter: Interpreter, annotation: ast.expr | None, owner: Class | Function | None, depth: int = 0) -> Kind:
    """The type that an annotation means, its names looked up where its owner is defined."""
    if annotation is None or depth > _DEEPEST:
        return ANY
    if isinstance(annotation, ast.Constant):
        if annotation.value is None:
            return NOTHING
        if not isinstance(annotation.value, str):
            return ANY
        try:
            body = parse_python(annotation.value.strip()).body
        except (SyntaxError, DocumentError, ValueError):
            return ANY
        written = body[0].value if len(body) == 1 and isinstance(body[0], ast.Expr) else None
        return kind_of(interpreter, written, owner, depth + 1)
    if isinstance(annotation, ast.BinOp) and isinstance(annotation.op, ast.BitOr):
        sides = [kind_of(interpreter, side, owner, depth + 1) for side in (annotation.left, annotation.right)]
        return union(sides)
    if isinstance(annotation, ast.Subscript):
        return _generic(interpreter, annotation, owner, depth)
    return kind_of_value(_resolve(interpreter, annotation, owner))


def _generic(interpreter: Interpreter, annotation: ast.Subscript, owner: Class | Function | None, depth: int) -> Kind:
    base = _resolve(interpreter, annotation.value, owner)
    last = base.name.rpartition(".")[2] if isinstance(base, Library) else ""
    inside = annotation.slice.elts if isinstance(annotation.slice, ast.Tuple) else [annotation.slice]

    def below(number: int) -> Kind:
        return kind_of(interpreter, inside[number], owner, depth + 1)

    if last == "Optional":
        return union([below(0), NOTHING])
    if last == "Union":
        return union([below(number) for number in range(len(inside))])
    if last == "Literal":
        choices = [constant_of(_resolve(interpreter, item, owner), ANY) for item in inside]
        return Kind("literal", choices=tuple(choices)) if ANY not in choices else ANY
    if last in _SEQUENCES:
        return Kind(_SEQUENCES[last], (below(0),))
    if last in {"tuple", "Tuple"}:
        many = len(inside) == 2 and isinstance(inside[1], ast.Constant) and inside[1].value is ...
        return Kind("tuple", (below(0),), choices=("...",)) if many else Kind("tuple", tuple(map(below, range(len(inside)))))
    if last in _MAPPINGS:
        return Kind("dict", tuple(map(below, range(len(inside)))))
    is_mark = isinstance(base, Library) and base.name.startswith("tyro.conf.")
    if last in _WRAPPED or is_mark:
        kind = below(0)
        notes = tuple(evaluate_annotation(interpreter, item, owner) for item in inside[1:])
        marks = (Library(f"({last})"),) if last in {"Positional", "Fixed", "Suppress"} or is_mark else ()
        return Kind(kind.name, kind.parts, kind.choices, kind.cls, (*kind.notes, *notes, *marks))
    if last in {"Type", "type"}:
        return Kind("type", (below(0),))
    return kind_of_value(base) if not isinstance(base, Library) else ANY


def union(kinds: list[Kind]) -> Kind:
    """One of several types; a union in a union is flat."""
    parts: list[Kind] = []
    for kind in kinds:
        parts += [part for part in (kind.parts if kind.name == "union" else (kind,)) if part not in parts]
    notes = tuple(note for kind in kinds for note in kind.notes)
    return parts[0] if len(parts) == 1 else Kind("union", tuple(parts), notes=notes)


def kind_of_value(value: Value) -> Kind:
    """The type that a name stands for."""
    from crashcart.readers.interpreter.libraries.standard import has_fields

    if isinstance(value, Library):
        last = value.name.rpartition(".")[2]
        if value.name in _PLAIN:
            return Kind(value.name)
        if last in {"Path", "PosixPath", "PathLike"}:
            return Kind("path")
        if last in _SEQUENCES:
            return Kind(_SEQUENCES[last])
        if last in {"tuple", "Tuple"}:
            return Kind("tuple")
        if last in _MAPPINGS:
            return Kind("dict")
        if field_table(value.name):
            return Kind("dataclass", cls=value)
        if last == "NoneType":
            return NOTHING
        return Kind("class", cls=value) if last[:1].isupper() and last != "Any" else ANY
    if isinstance(value, Class):
        if value.is_a("Enum", "IntEnum", "StrEnum", "Flag"):
            return Kind("enum", cls=value)
        return Kind("dataclass" if has_fields(value) or _table_bases(value) else "class", cls=value)
    if isinstance(value, Constant) and value.value is None:
        return NOTHING
    if isinstance(value, Result) and isinstance(value.data, Kind):
        return value.data
    return ANY


def _table_bases(cls: Class) -> list[str]:
    return [name for name in cls.library_bases() if field_table(name)]


def _resolve(interpreter: Interpreter, expression: ast.expr, owner: Class | Function | None) -> Value:
    """What a name in an annotation stands for; an alias of a type is followed to where it was written."""
    if isinstance(expression, ast.Name) and owner is not None:
        alias = _alias(interpreter, expression.id, owner)
        if alias is not None:
            return Result("type alias", None, data=alias)
    return evaluate_annotation(interpreter, expression, owner)


def _alias(interpreter: Interpreter, name: str, owner: Class | Function) -> Kind | None:
    """``Size = Literal["small", "large"]`` in the same file."""
    for statement in owner.source.tree.body:
        if isinstance(statement, ast.Assign) and isinstance(statement.value, (ast.Subscript, ast.BinOp)):
            target = statement.targets[0]
            if isinstance(target, ast.Name) and target.id == name:
                return kind_of(interpreter, statement.value, owner, 2)
    return None


def evaluate_annotation(interpreter: Interpreter, expression: ast.expr, owner: Class | Function | None) -> Value:
    """The value of an expression where a class or a function is defined."""
    if isinstance(expression, ast.Constant):
        return Constant(expression.value)
    if owner is None:
        return Library(ast.unparse(expression)) if isinstance(expression, (ast.Name, ast.Attribute)) else Unknown()
    module = interpreter.loaded.get(owner.source.path) or Module("?", owner.source)
    closure = owner.closure[0] if isinstance(owner, Function) and isinstance(owner.closure, tuple) else None
    frame, interpreter.frame = interpreter.frame, Frame(owner.source, module, closure)
    try:
        return interpreter.evaluate(expression)
    finally:
        interpreter.frame = frame


# ---- fields


def fields_in(interpreter: Interpreter, cls: Class | Library) -> list[Field]:
    """The fields of a dataclass in the order of its ``__init__``, those of its bases first."""
    found: dict[str, Field] = {}
    lineage: list[Value] = cls.lineage() if isinstance(cls, Class) else [cls]
    for each in reversed(lineage):
        if isinstance(each, Library):
            for field in _table_fields(interpreter, each.name):
                found.pop(field.name, None)
                found[field.name] = field
        elif isinstance(each, Class):
            for statement in each.node.body:
                if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
                    interpreter.tick()
                    own = _own_field(interpreter, cls, each, statement)
                    if own is not None:
                        found[own.name] = own
    return list(found.values())


def _own_field(interpreter: Interpreter, cls: Class | Library, owner: Class, statement: ast.AnnAssign) -> Field | None:
    name = statement.target.id  # type: ignore[union-attr]
    annotation = statement.annotation
    if isinstance(annotation, ast.Subscript) and ast.unparse(annotation.value).endswith("ClassVar"):
        return None
    value = interpreter._find(cls, name) if isinstance(cls, Class) else None
    declared = value if isinstance(value, Result) and value.name.endswith(_FIELD_CALLS) else None
    kind = kind_of(interpreter, annotation, owner)
    if declared is None and (isinstance(value, Function) and not isinstance(statement.value, (ast.Name, ast.Lambda))):
        value = None
    default = default_in(interpreter, declared, statement) if declared is not None else value
    init = constant_of(declared.argument(None, "init"), True) if declared is not None else True
    return Field(name, kind, default, declared, statement, init=init is not False)


def default_in(interpreter: Interpreter, declared: Result, node: ast.AST) -> Value | None:
    """The default that ``field(...)`` gives."""
    if declared.name in _FACTORIES and declared.call is not None:
        factory: Value | None = declared.argument(0)
        return interpreter.call(factory, list(declared.call.arguments[1:]), {}, node) if factory is not None else None
    if declared.name.endswith(".list_field") and declared.call is not None:
        return interpreter.container("list", declared.call.arguments, node)
    is_first = declared.name.endswith(("ydantic.Field", "simple_parsing.field", "simple_parsing.flag"))
    default = declared.argument(0 if is_first else None, "default")
    if declared.name.endswith(".choice") and default is None:
        return None
    if default is not None:
        return None if isinstance(default, Constant) and default.value is ... else default
    factory = declared.argument(None, "default_factory") or declared.argument(None, "factory")
    return interpreter.call(factory, [], {}, node) if factory is not None else None


def parameters_of(interpreter: Interpreter, function: Value, *, skip: int = 0) -> tuple[list[Field], bool]:
    """The parameters of a function or of the ``__init__`` of a class, and whether it takes any other keyword."""
    given: set[str] = set()
    while isinstance(function, (Partial, Bound)):
        if isinstance(function, Partial):
            given |= set(function.keywords)
            skip += len(function.arguments)
        elif not isinstance(function.function, Library):
            skip += 1
        function = function.function
    if isinstance(function, Class):
        method = interpreter._find_method(function, "__init__")
        if method is None:
            return [field for field in fields_in(interpreter, function) if field.init], False
        return parameters_of(interpreter, method, skip=1)
    if not isinstance(function, Function):
        return [], True
    arguments = function.node.args
    found: list[Field] = []
    for number, parameter in enumerate([*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]):
        if number < skip or parameter.arg in given:
            continue
        kind = kind_of(interpreter, parameter.annotation, function)
        is_keyword = parameter in arguments.kwonlyargs
        found.append(
            Field(
                parameter.arg,
                kind,
                function.defaults.get(parameter.arg),
                node=parameter,
                is_annotated=parameter.annotation is not None,
                is_keyword=is_keyword,
            )
        )
    return found, arguments.kwarg is not None


# ---- dataclasses of libraries


@lru_cache(maxsize=1)
def _table() -> dict[str, tuple[str, list[ast.AnnAssign], dict[str, dict[str, Any]]]]:
    """Each class of the table by its full name: its base, its fields, the options of some."""
    text = read_whole(_TABLE, _LARGEST_TABLE).decode()
    lines = text.splitlines()
    found: dict[str, tuple[str, list[ast.AnnAssign], dict[str, dict[str, Any]]]] = {}
    for library in parse_python(text).body:
        for cls in library.body if isinstance(library, ast.ClassDef) else ():
            if not isinstance(cls, ast.ClassDef) or not isinstance(library, ast.ClassDef):
                continue
            fields = [statement for statement in cls.body if isinstance(statement, ast.AnnAssign)]
            options = {}
            for field in fields:
                _, mark, comment = lines[field.lineno - 1].partition("  # {")
                if mark:
                    options[ast.unparse(field.target)] = ast.literal_eval("{" + comment)
            base = ast.unparse(cls.bases[0]) if cls.bases else ""
            found[f"{library.name}.{cls.name}"] = base, fields, options
    return found


def field_table(name: str) -> bool:
    """Whether the fields of a library class are in the table."""
    return name in _table()


def _table_fields(interpreter: Interpreter, name: str) -> Iterator[Field]:
    base, fields, options = _table().get(name, ("", [], {}))
    if base:
        yield from _table_fields(interpreter, base)
    for statement in fields:
        own = ast.unparse(statement.target)
        default: Value | None = None
        if statement.value is not None:
            plain = ast.literal_eval(statement.value)
            default = Unknown() if plain is ... else _plain_value(interpreter, plain)
        yield Field(own, kind_of(interpreter, statement.annotation, None), default, library=name, options=options.get(own))


# ---- defaults as settings


def defaulted(field: Field, spelling: str, call: Call) -> Value:
    """The default of a field as a setting with its place."""
    value = field.default
    if not isinstance(value, Constant):
        return value if value is not None else Unknown(kind="flag")
    plain = None if is_secret(field.name) else value.value
    span = None
    if field.library:
        evidence = Evidence("library", f"{field.name} = {value.value!r}", field.library)
    elif value.source is not None and value.node is not None:
        evidence, span = value.source.evidence(value.node), value.source.span(value.node)
    else:
        evidence = call.evidence
    fact = Fact(canonical(field.name) or f"flag.{field.name}", plain, evidence, "default", spelling, span)
    return Constant(value.value, (*value.origins, fact), direct=True, source=value.source, node=value.node)
