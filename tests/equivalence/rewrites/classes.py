"""Methods move to a base class; settings move into a dataclass."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from .program import (
    FUNCTIONS,
    Block,
    Program,
    Scopes,
    add_import,
    assign,
    call,
    load,
    names_in,
    new_class,
    rewrite,
    scoped_blocks,
    single_target,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .scopes import Scope

_PECULIAR_BASES = (
    "Enum",
    "NamedTuple",
    "TypedDict",
    "Protocol",
    "BaseModel",
    "tuple",
    "Generic",
    "BaseSettings",
    "type",
    "Tap",
)


@rewrite
def methods_in_base_class(program: Program) -> None:
    """Every second method of a class moves to a new base class."""
    for module in program.modules.values():
        _move_methods(program, module, lambda names: names[::2])


@rewrite
def constructor_in_base_class(program: Program) -> None:
    """`__init__` moves to a new base class."""
    for module in program.modules.values():
        _move_methods(program, module, lambda _: ["__init__"])


def _move_methods(program: Program, module: ast.Module, chosen: object) -> None:
    assert callable(chosen)
    scopes = Scopes(module)
    registers = any(
        isinstance(node, ast.FunctionDef) and node.name == "__init_subclass__"
        for other in program.modules.values()
        for node in ast.walk(other)
    )
    for number in range(len(module.body) - 1, -1, -1):
        old = module.body[number]
        if not isinstance(old, ast.ClassDef) or registers or not _is_ordinary(old):
            continue
        movable = [part for part in old.body if isinstance(part, ast.FunctionDef) and _is_movable(old, part)]
        ordinary = [part.name for part in movable if not part.name.startswith("__")]
        names = set(chosen(ordinary))
        moved: Block = [part for part in movable if part.name in names]
        if not moved:
            continue
        base = scopes.fresh(f"{old.name}Base")
        old.body = [part for part in old.body if part not in moved] or [ast.Pass()]
        module.body.insert(number, new_class(base, old.bases, moved, []))
        old.bases = [load(base)]


def _is_ordinary(definition: ast.ClassDef) -> bool:
    """Whether a class has nothing that looks at its own body, such as a metaclass or fields."""
    bases = " ".join(ast.unparse(base) for base in definition.bases)
    private = any(
        isinstance(node, ast.Attribute | ast.Name)
        and (name := getattr(node, "attr", getattr(node, "id", ""))).startswith("__")
        and not name.endswith("__")
        for node in ast.walk(definition)
    )
    return (
        not definition.decorator_list
        and not definition.keywords
        and not private
        and not any(name in bases for name in _PECULIAR_BASES)
        and "__slots__" not in names_in(definition)
    )


def _is_movable(definition: ast.ClassDef, method: ast.FunctionDef) -> bool:
    same_name = sum(method.name in _bound_by(part) for part in definition.body)
    by_class = any(method.name in names_in(part) for part in definition.body if not isinstance(part, FUNCTIONS))
    # `super().name` skips the class itself and must go on skipping it.
    skipped = any(
        isinstance(node, ast.Attribute)
        and node.attr == method.name
        and isinstance(node.value, ast.Call)
        and getattr(node.value.func, "id", "") == "super"
        for other in definition.body
        if other is not method
        for node in ast.walk(other)
    )
    named_super = any(
        isinstance(node, ast.Call) and getattr(node.func, "id", "") == "super" and node.args for node in ast.walk(method)
    )
    looks = "__class__" in names_in(method)
    body_names = {name for part in definition.body for name in _bound_by(part)}
    outer: list[ast.expr] = [
        *method.decorator_list,
        *method.args.defaults,
        *(part for part in method.args.kw_defaults if part),
    ]
    by_body = any(body_names & names_in(part) for part in outer)
    return same_name == 1 and not by_class and not skipped and not named_super and not looks and not by_body


def _bound_by(statement: ast.stmt) -> set[str]:
    if isinstance(statement, (*FUNCTIONS, ast.ClassDef)):
        return {statement.name}
    return {node.id for node in ast.walk(statement) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}


@rewrite
def settings_in_dataclass(program: Program) -> None:
    """Constants of a module or function become the fields of a dataclass: `lr = 0.1` becomes `settings.lr`."""
    for path, module in program.modules.items():
        scopes = Scopes(module)
        elsewhere = program.words_elsewhere(path)
        if scopes.reads_its_names() or not scopes.is_builtin("object"):
            continue
        name = scopes.fresh("dataclasses") if "dataclasses" in scopes.words else "dataclasses"
        made: Block = []
        for owner, block in list(scoped_blocks(module)):
            if isinstance(owner, ast.Module | ast.FunctionDef) and block is owner.body:
                hidden = elsewhere if isinstance(owner, ast.Module) else set()
                fields = list(_constants(scopes, scopes.by_node[owner], block, hidden))
                if len(fields) > 0:
                    made.append(_use_dataclass(scopes, owner, fields, name))
        if made:
            first = _behind_imports(module)
            module.body[first:first] = made
            add_import(module, ast.Import([ast.alias("dataclasses", None if name == "dataclasses" else name)]))


@rewrite
def literals_in_dataclass(program: Program) -> None:
    """`DataLoader(data, batch_size=8)` becomes `DataLoader(data, batch_size=settings.batch_size)`; so do defaults of flags."""
    for module in program.modules.values():
        scopes = Scopes(module)
        name = scopes.fresh("dataclasses") if "dataclasses" in scopes.words else "dataclasses"
        kind, holder = scopes.fresh("Settings"), scopes.fresh("settings")
        fields: dict[str, ast.Constant] = {}
        for wish, keyword in _literal_keywords(module):
            value = keyword.value
            assert isinstance(value, ast.Constant)
            if ast.dump(fields.setdefault(wish, value)) == ast.dump(value):
                keyword.value = ast.Attribute(load(holder), wish, ast.Load())
        if fields:
            body: Block = [
                ast.AnnAssign(ast.Name(field, ast.Store()), load("object"), value, 1) for field, value in fields.items()
            ]
            decorator = ast.Attribute(load(name), "dataclass", ast.Load())
            place = _behind_imports(module)
            module.body[place:place] = [new_class(kind, [], body, [decorator]), assign(holder, call(kind))]
            add_import(module, ast.Import([ast.alias("dataclasses", None if name == "dataclasses" else name)]))


def _literal_keywords(module: ast.Module) -> Iterator[tuple[str, ast.keyword]]:
    """Keywords of calls in functions and module code whose value is a number, text or truth value, with a name for it."""
    for owner, block in scoped_blocks(module):
        if isinstance(owner, ast.ClassDef):
            continue
        for statement in block:
            if isinstance(statement, (*FUNCTIONS, ast.ClassDef)) or any(
                isinstance(part, ast.stmt) for part in ast.iter_child_nodes(statement)
            ):
                continue
            for node in [node for node in ast.walk(statement) if isinstance(node, ast.Call)]:
                for keyword in node.keywords:
                    wish = _setting_name(node, keyword)
                    if (
                        wish is not None
                        and isinstance(keyword.value, ast.Constant)
                        and isinstance(keyword.value.value, int | float | str)
                    ):
                        yield wish, keyword


def _setting_name(node: ast.Call, keyword: ast.keyword) -> str | None:
    if not isinstance(node.func, ast.Attribute) or node.func.attr != "add_argument":
        return keyword.arg
    flag = node.args[0].value if node.args and isinstance(node.args[0], ast.Constant) else None
    name = flag.lstrip("-").replace("-", "_") if isinstance(flag, str) else ""
    return name if keyword.arg == "default" and name.isidentifier() else None


def _behind_imports(module: ast.Module) -> int:
    """The place of the first statement that is neither docstring nor import."""
    imports = (ast.Import, ast.ImportFrom)
    numbers = [
        number for number, part in enumerate(module.body) if not isinstance(part, imports) and number >= _header(module)
    ]
    return numbers[0] if numbers else len(module.body)


def _header(module: ast.Module) -> int:
    return 1 if isinstance(module.body[0], ast.Expr) and isinstance(module.body[0].value, ast.Constant) else 0


def _constants(scopes: Scopes, scope: Scope, block: Block, hidden: set[str]) -> Iterator[tuple[str, ast.Assign]]:
    """Variables that get one plain constant, in the block itself, before anything reads them."""
    for number, statement in enumerate(block):
        name = single_target(statement)
        if name is None or not isinstance(statement, ast.Assign) or name in hidden or name.startswith("_"):
            continue
        value = statement.value.operand if isinstance(statement.value, ast.UnaryOp) else statement.value
        if (
            not isinstance(value, ast.Constant)
            or scopes.owner(scope, name) is not scope
            or len(scopes.binders(scope, name)) != 1
        ):
            continue
        before = {id(node) for part in block[:number] for node in ast.walk(part)}
        if scopes.reads(scope, name) and not any(id(place) in before for place in scopes.reads(scope, name)):
            yield name, statement


def _use_dataclass(
    scopes: Scopes, owner: ast.Module | ast.FunctionDef, fields: list[tuple[str, ast.Assign]], module_name: str
) -> ast.ClassDef:
    kind, holder = scopes.fresh("Settings"), scopes.fresh("settings")
    scope = scopes.by_node[owner]
    wanted = {id(place): name for name, _ in fields for place in scopes.reads(scope, name)}

    class Change(ast.NodeTransformer):
        def visit_Name(self, node: ast.Name) -> ast.expr:
            return ast.Attribute(load(holder), wanted[id(node)], ast.Load()) if id(node) in wanted else node

    body: Block = []
    for name, statement in fields:
        body.append(ast.AnnAssign(ast.Name(name, ast.Store()), load("object"), statement.value, 1))
    Change().visit(owner)
    position = owner.body.index(fields[0][1])
    owner.body[position] = assign(holder, call(kind))
    for _, statement in fields[1:]:
        owner.body.remove(statement)
    return new_class(kind, [], body, [ast.Attribute(load(module_name), "dataclass", ast.Load())])
