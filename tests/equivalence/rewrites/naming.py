"""Other names for variables and imports."""

from __future__ import annotations

import ast
import importlib.util
import sys
from typing import TYPE_CHECKING

from .program import FUNCTIONS, Function, Program, Scopes, dotted, mentioned, rewrite
from .scopes import Scope, parameters, rename

if TYPE_CHECKING:
    from collections.abc import Iterator

# `from torch import nn` imports a module, `from torch import Tensor` does not; these are loaded with torch itself.
_MODULES_OF_TORCH = frozenset(
    {"nn", "optim", "distributed", "multiprocessing", "functional", "data", "cuda", "amp", "utils", "autograd", "backends"}
)
_KNOWN_PACKAGES = frozenset(
    {
        "torch",
        "torchvision",
        "numpy",
        "yaml",
        "transformers",
        "accelerate",
        "lightning",
        "omegaconf",
        "hydra",
        "wandb",
        "h5py",
        "datasets",
        "deepspeed",
    }
)


@rewrite
def renamed_locals(program: Program) -> None:
    """Local variables get other names; so do the parameters of functions that are only ever called, and by position."""
    for path, module in program.modules.items():
        scopes = Scopes(module)
        if scopes.reads_its_names():
            continue
        for node, scope in list(scopes.by_node.items()):
            if isinstance(node, FUNCTIONS):
                _rename_locals(program, path, scopes, scope)


def _rename_locals(program: Program, path: str, scopes: Scopes, scope: Scope) -> None:
    function = scope.node
    assert isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
    fixed = {part.arg for part in parameters(function.args)}
    if called_by_position(program, path, scopes, function):
        fixed -= {part.arg for part in function.args.args}
    for name in sorted(scope.bound - set(scope.elsewhere) - fixed):
        places = scopes.places(scope, name)
        if not name.startswith("_") and not any(isinstance(place, ast.alias | ast.ClassDef) for place in places):
            rename(places, name, scopes.fresh("local"))


def called_by_position(program: Program, path: str, scopes: Scopes, function: Function) -> bool:
    """Whether a function of the module is known to be called by position alone: every use of its name is such a call."""
    if (
        function not in getattr(scopes.root.node, "body", [])
        or function.decorator_list
        or function.name in program.outside_words()
    ):
        return False
    if any(function.name in mentioned(other) for name, other in program.modules.items() if name != path):
        return False
    calls = {id(node.func): node for node in ast.walk(scopes.root.node) if isinstance(node, ast.Call)}
    uses = scopes.reads(scopes.root, function.name)
    if len(scopes.binders(scopes.root, function.name)) != 1:
        return False
    return bool(uses) and all(id(use) in calls and not calls[id(use)].keywords for use in uses)


@rewrite
def renamed_imports(program: Program) -> None:
    """`import torch` becomes `import torch as imported_torch`; `from a import b` becomes `from a import b as imported_b`."""
    for path, module in program.modules.items():
        scopes = Scopes(module)
        elsewhere = program.words_elsewhere(path) if path.endswith("__init__.py") else _taken_from(program, path)
        if scopes.reads_its_names() or any(name == "__all__" for name in scopes.root.bound):
            continue
        for alias in _imported(module):
            name = alias.asname or alias.name
            binders = scopes.binders(scopes.root, name)
            if "." in name or name == "*" or binders != [alias] or name in elsewhere or _in_text_annotation(module, name):
                continue
            rename(scopes.places(scopes.root, name), name, scopes.fresh(f"imported_{name}"))


def _imported(module: ast.Module) -> Iterator[ast.alias]:
    for statement in module.body:
        if isinstance(statement, ast.Import) or (isinstance(statement, ast.ImportFrom) and statement.module != "__future__"):
            yield from statement.names


def _taken_from(program: Program, path: str) -> set[str]:
    """Every name that another module imports from this one or looks up in it."""
    stem = path.removesuffix(".py").rpartition("/")[2]
    taken: set[str] = set()
    for other, module in program.modules.items():
        if other == path:
            continue
        for node in ast.walk(module):
            if isinstance(node, ast.ImportFrom) and (node.module or "").rpartition(".")[2] == stem:
                taken |= {part.name for part in node.names}
            elif isinstance(node, ast.Attribute) and stem in (dotted(node.value) or "").split("."):
                taken.add(node.attr)
    return taken


def _in_text_annotation(module: ast.Module, name: str) -> bool:
    annotations = [
        part for node in ast.walk(module) for part in (getattr(node, "annotation", None), getattr(node, "returns", None))
    ]
    nodes = [node for part in annotations if isinstance(part, ast.AST) for node in ast.walk(part)]
    return any(isinstance(node, ast.Constant) and isinstance(node.value, str) and name in node.value for node in nodes)


@rewrite
def full_import_path(program: Program) -> None:
    """`from torch.utils.data import DataLoader` becomes `import torch.utils.data`, and its uses get the full path."""
    own = {path.removesuffix(".py").replace("/", "."): path for path in program.modules}
    for path, module in program.modules.items():
        scopes = Scopes(module)
        taken = _taken_from(program, path)
        for statement in [part for part in module.body if isinstance(part, ast.ImportFrom)]:
            for alias in list(statement.names):
                name = alias.asname or alias.name
                target = _module_path(program, own, statement, alias)
                if (
                    target is None
                    or name in taken
                    or scopes.binders(scopes.root, name) != [alias]
                    or _in_text_annotation(module, name)
                ):
                    continue
                holder, attribute = target
                root = holder.split(".")[0]
                if not _free_for_module(scopes, root) or "__all__" in scopes.root.bound:
                    continue
                _write_path(module, scopes.reads(scopes.root, name), f"{holder}.{attribute}" if attribute else holder)
                statement.names.remove(alias)
                wanted = ast.Import([ast.alias(holder)])
                if not any(ast.unparse(part) == ast.unparse(wanted) for part in module.body):
                    module.body.insert(module.body.index(statement), wanted)
            if not statement.names:
                module.body.remove(statement)


def _module_path(
    program: Program, own: dict[str, str], statement: ast.ImportFrom, alias: ast.alias
) -> tuple[str, str] | None:
    """The module to import, and the name to take from it; "" where the name is a module itself."""
    source = statement.module or ""
    root = source.split(".")[0]
    if statement.level or alias.name == "*" or root == "__future__":
        return None
    if source in own:
        defined = program.modules[own[source]].body
        by_definition = any(isinstance(node, (*FUNCTIONS, ast.ClassDef)) and node.name == alias.name for node in defined)
        return (source, alias.name) if by_definition and "." not in source else None
    if root == "torch" and alias.name in _MODULES_OF_TORCH:
        return f"{source}.{alias.name}", ""
    if root in _KNOWN_PACKAGES:
        return (source, alias.name) if not alias.name.islower() or "_" in alias.name else None
    if root not in sys.stdlib_module_names:
        return None
    found = importlib.util.find_spec(source)
    is_package = found is not None and found.submodule_search_locations is not None
    is_module = is_package and importlib.util.find_spec(f"{source}.{alias.name}") is not None
    return None if found is None or is_module else (source, alias.name)


def _free_for_module(scopes: Scopes, root: str) -> bool:
    """Whether a name stands for nothing but that module, wherever it is bound."""
    imports = [node for node in ast.walk(scopes.root.node) if isinstance(node, ast.Import)]
    modules = {id(part) for node in imports for part in node.names if part.asname is None}
    for scope in scopes.root.descendants():
        for place in scope.places.get(root, []):
            bound_by_import = id(place) in modules
            reads = isinstance(place, ast.Name) and isinstance(place.ctx, ast.Load)
            if not bound_by_import and not reads:
                return False
    return True


def _write_path(module: ast.Module, uses: list[ast.Name], path: str) -> None:
    wanted = {id(use) for use in uses}

    class Change(ast.NodeTransformer):
        def visit_Name(self, node: ast.Name) -> ast.expr:
            return ast.parse(path, mode="eval").body if id(node) in wanted else node

    Change().visit(module)
