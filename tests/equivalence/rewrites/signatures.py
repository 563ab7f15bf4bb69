"""What the parameters of a called function are named, for functions of the program and some that every trainer calls."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from .program import FUNCTIONS, Function, Program, Scopes, dotted

if TYPE_CHECKING:
    from collections.abc import Iterator

_LIBRARY = {
    "torch.save": "obj f",
    "torch.load": "f map_location",
    "torch.nn.Linear": "in_features out_features bias",
    "torch.optim.SGD": "params lr",
    "torch.optim.Adam": "params lr betas eps",
    "torch.optim.AdamW": "params lr betas eps",
    "torch.utils.data.DataLoader": "dataset batch_size shuffle sampler batch_sampler num_workers",
    "torch.utils.data.DistributedSampler": "dataset num_replicas rank",
    "torch.utils.data.distributed.DistributedSampler": "dataset num_replicas rank",
    "torch.nn.utils.clip_grad_norm_": "parameters max_norm",
    "torch.distributed.init_process_group": "backend init_method",
    "torch.distributed.all_reduce": "tensor op",
    "torch.distributed.broadcast": "tensor src",
    "torch.multiprocessing.spawn": "fn args nprocs",
    "torch.nn.parallel.DistributedDataParallel": "module device_ids",
    "os.makedirs": "name mode exist_ok",
    "json.dump": "obj fp",
    "yaml.safe_load": "stream",
    "yaml.load": "stream Loader",
    "open": "file mode",
    "h5py.File": "name mode",
}


class Signatures:
    """The names of the positional parameters of what a module calls."""

    def __init__(self, program: Program, path: str) -> None:
        self.module = program.modules[path]
        self.scopes = Scopes(self.module)
        self.imports = dict(_imported_as(self.module))
        self.definitions = dict(self._own_definitions(program))
        self.methods = dict(_lone_methods(program))

    def of(self, node: ast.Call) -> list[str] | None:
        """The parameters that the arguments of a call go to, in order; None where it is not known what is called."""
        name = dotted(node.func)
        if name is None:
            return None
        front, _, rest = name.partition(".")
        if front == "self" and rest in self.methods:
            return self.methods[rest]
        if any(front in scope.bound for scope in self.scopes.root.descendants() if scope is not self.scopes.root):
            return None
        if name in self.definitions:
            return self.definitions[name]
        known = f"{self.imports[front]}.{rest}".rstrip(".") if front in self.imports else name if front == "open" else ""
        return _LIBRARY[known].split() if known in _LIBRARY else None

    def _own_definitions(self, program: Program) -> Iterator[tuple[str, list[str]]]:
        modules = {path.removesuffix(".py").replace("/", "."): module for path, module in program.modules.items()}
        for definition in self.module.body:
            if (
                isinstance(definition, (*FUNCTIONS, ast.ClassDef))
                and len(self.scopes.binders(self.scopes.root, definition.name)) == 1
            ):
                yield from _signature(definition.name, definition)
        for name, source in self.imports.items():
            holder, _, attribute = source.rpartition(".")
            if holder not in modules or len(self.scopes.binders(self.scopes.root, name)) != 1:
                continue
            found = [
                part
                for part in modules[holder].body
                if isinstance(part, (*FUNCTIONS, ast.ClassDef)) and part.name == attribute
            ]
            if len(found) == 1:
                yield from _signature(name, found[0])


def _signature(name: str, definition: Function | ast.ClassDef) -> Iterator[tuple[str, list[str]]]:
    if definition.decorator_list:
        return
    if isinstance(definition, ast.ClassDef):
        own = [part for part in definition.body if isinstance(part, ast.FunctionDef) and part.name == "__init__"]
        made = [part for part in definition.body if isinstance(part, ast.FunctionDef) and part.name == "__new__"]
        if (
            len(own) == 1
            and not made
            and not definition.keywords
            and not own[0].args.posonlyargs
            and not own[0].decorator_list
        ):
            yield name, [part.arg for part in own[0].args.args[1:]]
    elif not definition.args.posonlyargs:
        yield name, [part.arg for part in definition.args.args]


def _lone_methods(program: Program) -> Iterator[tuple[str, list[str]]]:
    """Methods whose name is defined once in the whole program: `self.name` can be no other."""
    found: dict[str, list[ast.FunctionDef]] = {}
    stored = {
        node.attr
        for module in program.modules.values()
        for node in ast.walk(module)
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)
    }
    for module in program.modules.values():
        for node in ast.walk(module):
            if isinstance(node, ast.ClassDef):
                for part in node.body:
                    if isinstance(part, ast.FunctionDef):
                        found.setdefault(part.name, []).append(part)
    for name, methods in found.items():
        if len(methods) == 1 and not methods[0].decorator_list and not methods[0].args.posonlyargs and name not in stored:
            yield name, [part.arg for part in methods[0].args.args[1:]]


def _imported_as(module: ast.Module) -> Iterator[tuple[str, str]]:
    """What the names that a module imports stand for."""
    for statement in module.body:
        if isinstance(statement, ast.Import):
            for part in statement.names:
                yield (part.asname, part.name) if part.asname else (part.name.split(".")[0], part.name.split(".")[0])
        elif isinstance(statement, ast.ImportFrom) and not statement.level:
            for part in statement.names:
                yield part.asname or part.name, f"{statement.module}.{part.name}"
