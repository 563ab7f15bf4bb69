"""Code moves into a function of its module, or definitions into a module of their own."""

from __future__ import annotations

import ast
import copy

from .program import (
    FUNCTIONS,
    Block,
    Function,
    Program,
    Scopes,
    call,
    header_end,
    mentioned,
    new_function,
    rewrite,
    suspends,
)
from .scopes import BUILTINS

_ASKS_WHERE = frozenset({"__file__", "__name__", "__package__", "__spec__"})


@rewrite
def module_code_into_main(program: Program) -> None:
    """The statements behind the definitions of a script move into a function that is called at once."""
    for path, module in program.modules.items():
        if not _is_started(program, path):
            continue
        last = max(
            (
                number
                for number, part in enumerate(module.body)
                if isinstance(part, (*FUNCTIONS, ast.ClassDef, ast.Import, ast.ImportFrom))
            ),
            default=-1,
        )
        start = max(last + 1, header_end(module))
        rest = module.body[start:]
        if rest and not all(isinstance(part, ast.If) and _is_guard(part) for part in rest):
            function = _as_function(program, path, rest, "main")
            if function is not None:
                module.body[start:] = [function, ast.Expr(call(function.name))]


@rewrite
def guarded_code_into_function(program: Program) -> None:
    """The statements below `if __name__ == "__main__":` move into a function that is called there."""
    for path, module in program.modules.items():
        for number, statement in enumerate(module.body):
            if isinstance(statement, ast.If) and _is_guard(statement) and not statement.orelse:
                function = _as_function(program, path, statement.body, "run_script")
                if function is not None:
                    statement.body = [ast.Expr(call(function.name))]
                    module.body.insert(number, function)
                break


def _is_guard(statement: ast.If) -> bool:
    return any(isinstance(node, ast.Name) and node.id == "__name__" for node in ast.walk(statement.test))


def _is_started(program: Program, path: str) -> bool:
    """Whether a command names the module as a program; one that is only imported or read as a config stays as it is."""
    text = "\n".join(
        [program.command, *(text for name, text in program.texts.items() if name.endswith((".sh", ".sbatch", "Makefile")))]
    )
    name = path.rpartition("/")[2]
    return name in text or f"-m {path.removesuffix('.py').replace('/', '.')}" in text


def _as_function(program: Program, path: str, statements: Block, wish: str) -> ast.FunctionDef | None:
    """Statements of a module as a function; names that others see stay names of the module."""
    module = program.modules[path]
    scopes = Scopes(module)
    nodes = [node for part in statements for node in ast.walk(part)]
    if (
        scopes.reads_its_names()
        or suspends(statements)
        or any(isinstance(node, ast.ImportFrom) and node.names[0].name == "*" for node in nodes)
    ):
        return None
    inside = {id(node) for node in nodes}
    elsewhere = program.words_elsewhere(path)
    shared = []
    for name in sorted(scopes.root.bound):
        binders = [node for node in scopes.binders(scopes.root, name) if id(node) in inside]
        if not binders:
            continue
        others = [node for node in scopes.places(scopes.root, name) if id(node) not in inside]
        if others or name in elsewhere or name in BUILTINS or _is_defined_as(binders):
            shared.append(name)
    if any(
        isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.target.id in shared for node in nodes
    ):
        return None
    head: Block = [ast.Global(shared)] if shared else []
    return new_function(scopes.fresh(wish), [], [*head, *statements])


def _is_defined_as(binders: list[ast.AST]) -> bool:
    """Functions and classes stay in the module: a local one could not be pickled."""
    return any(isinstance(node, (*FUNCTIONS, ast.ClassDef)) for node in binders)


@rewrite
def functions_in_new_module(program: Program) -> None:
    """Functions that need nothing but imports and each other move to a new module, from which they are imported."""
    for path, module in list(program.modules.items()):
        _split(program, path, [part for part in module.body if isinstance(part, FUNCTIONS)], "functions")


@rewrite
def classes_in_new_module(program: Program) -> None:
    """Classes that need nothing but imports and each other move to a new module, from which they are imported."""
    for path, module in list(program.modules.items()):
        _split(program, path, [part for part in module.body if isinstance(part, ast.ClassDef)], "classes")


def _split(program: Program, path: str, candidates: list[Function] | list[ast.ClassDef], suffix: str) -> None:
    module = program.modules[path]
    scopes = Scopes(module)
    holder = _import_name(program, path, suffix)
    if holder is None or scopes.reads_its_names():
        return
    patched = {
        node.attr
        for other in program.modules.values()
        for node in ast.walk(other)
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)
    }
    movable = [
        part
        for part in candidates
        if not part.decorator_list and part.name not in patched and len(scopes.binders(scopes.root, part.name)) == 1
    ]
    imports = _imports_of(program, path, scopes)
    while True:
        names = {part.name for part in movable}
        kept = [part for part in movable if _needs(scopes, part) <= names | set(imports)]
        if len(kept) == len(movable):
            break
        movable = kept
    if not movable:
        return
    used = set().union(*(_needs(scopes, part) for part in movable))
    header = [
        copy.deepcopy(part) for part in module.body if isinstance(part, ast.ImportFrom) and part.module == "__future__"
    ]
    copied = list({ast.dump(imports[name]): imports[name] for name in sorted(used) if name in imports}.values())
    program.added[f"{path.removesuffix('.py')}_{suffix}.py"] = ast.Module([*header, *copied, *movable], [])
    position = min(module.body.index(part) for part in movable)
    dotted_name, level = holder
    module.body[position : position + 1] = [
        ast.ImportFrom(dotted_name, [ast.alias(part.name) for part in movable], level),
        *([] if module.body[position] in movable else [module.body[position]]),
    ]
    module.body = [part for part in module.body if part not in movable]


def _needs(scopes: Scopes, definition: Function | ast.ClassDef) -> set[str]:
    """The names of its module that a definition uses."""
    inside = {id(node) for node in ast.walk(definition)}
    needed = {
        name
        for name in scopes.root.bound
        if name != definition.name and any(id(place) in inside for place in scopes.places(scopes.root, name))
    }
    asked = {node.id for node in ast.walk(definition) if isinstance(node, ast.Name) and node.id in _ASKS_WHERE}
    declared = {"global" for node in ast.walk(definition) if isinstance(node, ast.Global)}
    return needed | asked | declared


def _imports_of(program: Program, path: str, scopes: Scopes) -> dict[str, ast.stmt]:
    """The imports of a module that another may repeat: at its top, each name bound once, of nothing that imports the module."""
    stem = path.removesuffix(".py").rpartition("/")[2]
    back = {
        name.removesuffix(".py").rpartition("/")[2]
        for name, other in program.modules.items()
        if name != path and stem in mentioned(other)
    }
    found: dict[str, ast.stmt] = {}
    for statement in scopes.root.node.body if isinstance(scopes.root.node, ast.Module) else []:
        if not isinstance(statement, ast.Import | ast.ImportFrom) or getattr(statement, "module", "") == "__future__":
            continue
        for part in statement.names:
            name = part.asname or part.name.split(".")[0]
            source = set((getattr(statement, "module", "") or part.name).split(".")) | {part.name}
            if source & back or part.name == "*" or (name in found and "." not in part.name):
                continue
            if len([node for node in scopes.binders(scopes.root, name) if not isinstance(node, ast.alias)]) == 0:
                single = copy.deepcopy(statement)
                single.names = [copy.deepcopy(part)]
                found.setdefault(name, single)
    return found


def _import_name(program: Program, path: str, suffix: str) -> tuple[str, int] | None:
    """How the module can import a new one beside it: the name, and the number of dots before it."""
    stem = path.removesuffix(".py")
    if stem.endswith("__init__") or f"{stem}_{suffix}.py" in program.modules:
        return None
    last = stem.rpartition("/")[2]
    relative = any(isinstance(node, ast.ImportFrom) and node.level for node in ast.walk(program.modules[path]))
    if "/" not in stem or (_is_started(program, path) and not relative):
        return f"{last}_{suffix}", 0
    if relative:
        return f"{last}_{suffix}", 1
    name = stem.replace("/", ".")
    imported = any(
        name
        in {
            getattr(node, "module", None),
            *(part.name for part in getattr(node, "names", []) if isinstance(part, ast.alias)),
        }
        for other in program.modules.values()
        for node in ast.walk(other)
    )
    return (f"{name}_{suffix}", 0) if imported else None
