"""A program as a rewrite sees it: the trees of its modules, and the text of everything else.

A rewrite is a function that changes the trees in place, decorated with `@rewrite`. What it left as it was is written as it was;
where it changed nothing at all, it does not apply. It must keep the behaviour of the program: what it prints, writes, and asks
of libraries, in the same order. Left out of that: line numbers, names in tracebacks, what a program learns by inspecting itself.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from .scopes import COMPREHENSIONS, FUNCTIONS, Function, Scopes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

Apply: TypeAlias = "Callable[[Program], None]"
Block: TypeAlias = "list[ast.stmt]"


@dataclass
class Program:
    """The files of a job."""

    modules: dict[str, ast.Module]
    texts: dict[str, str]  # files that are not Python, or do not parse
    command: str = ""
    added: dict[str, ast.Module] = field(default_factory=dict)
    layout: bool = False  # write every module anew, also one whose tree is as it was

    @classmethod
    def read(cls, files: dict[str, str], command: str = "") -> Program:
        """Parse the Python files; one that does not parse is text."""
        modules, texts = {}, {}
        for name, text in files.items():
            tree = parsed(text) if name.endswith(".py") else None
            if tree is None:
                texts[name] = text
            else:
                modules[name] = tree
        return cls(modules, texts, command)

    def outside_words(self) -> set[str]:
        """Every word of the command and of the files that are not Python: a name among them may be used from there."""
        return set(re.findall(r"\w+", "\n".join([self.command, *self.texts.values()])))

    def words_elsewhere(self, path: str) -> set[str]:
        """Every name, attribute and string that other files mention; a variable that is not among them is not used there."""
        words = self.outside_words()
        for other, module in self.modules.items():
            if other != path:
                words |= mentioned(module)
        return words


@dataclass(frozen=True)
class Rewrite:
    """One way to write the same program differently."""

    name: str
    about: str
    apply: Apply

    def __call__(self, files: dict[str, str], command: str = "") -> dict[str, str] | None:
        """The files of the rewritten program; None where the rewrite does not apply."""
        program = Program.read(files, command)
        before = {name: ast.unparse(module) for name, module in program.modules.items()}
        self.apply(program)
        changed = {}
        for name, module in {**program.modules, **program.added}.items():
            text = ast.unparse(ast.fix_missing_locations(module)) + "\n"
            old = files[name] if program.layout else before.get(name, "") + "\n"
            if text != old:
                compile(text, name, "exec", dont_inherit=True)
                changed[name] = text
        return {**files, **changed} if changed else None


REWRITES: dict[str, Rewrite] = {}


def rewrite(function: Apply) -> Apply:
    """Enter a function into the table of rewrites, under its own name."""
    name = function.__name__.replace("_", "-")
    REWRITES[name] = Rewrite(name, (function.__doc__ or "").strip().split("\n")[0], function)
    return function


def parsed(text: str) -> ast.Module | None:
    """The tree of a Python file, if it is one."""
    try:
        return ast.parse(text)
    except (SyntaxError, ValueError):
        return None


def mentioned(module: ast.Module) -> set[str]:
    """Every name, attribute, keyword, imported name and word of a string in a module."""
    words: set[str] = set()
    for node in ast.walk(module):
        if isinstance(node, ast.Name):
            words.add(node.id)
        elif isinstance(node, ast.Attribute):
            words.add(node.attr)
        elif isinstance(node, ast.alias):
            words |= {*node.name.split("."), node.asname or node.name}
        elif isinstance(node, ast.keyword | ast.arg):
            words.add(node.arg or "")
        elif isinstance(node, ast.ImportFrom):
            words |= set((node.module or "").split("."))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            words |= set(re.findall(r"\w+", node.value))
    return words


def blocks(tree: ast.AST, *, classes: bool = False) -> Iterator[Block]:
    """Every list of statements in a tree, inner ones first, so that an outer one may be rebuilt; class bodies only on demand."""
    for node in ast.iter_child_nodes(tree):
        yield from blocks(node, classes=classes)
    for name in ("body", "orelse", "finalbody"):
        block = getattr(tree, name, None)
        if isinstance(block, list) and block and (classes or not isinstance(tree, ast.ClassDef)):
            yield block


def scoped_blocks(module: ast.Module) -> Iterator[tuple[ast.AST, Block]]:
    """Every list of statements with the function, class or module that it belongs to."""

    def walk(node: ast.AST, scope: ast.AST) -> Iterator[tuple[ast.AST, Block]]:
        inner = node if isinstance(node, (*FUNCTIONS, ast.ClassDef, ast.Module)) else scope
        for child in ast.iter_child_nodes(node):
            yield from walk(child, inner)
        for name in ("body", "orelse", "finalbody"):
            block = getattr(node, name, None)
            if isinstance(block, list) and block:
                yield inner, block

    yield from walk(module, module)


def replace_statements(tree: ast.AST, change: Callable[[ast.stmt], list[ast.stmt] | None], *, classes: bool = False) -> None:
    """Put other statements in the place of those for which `change` returns some."""
    for block in blocks(tree, classes=classes):
        for statement in reversed(list(block)):
            others = change(statement)
            if others is not None:
                position = block.index(statement)
                block[position : position + 1] = others


def own_nodes(node: ast.AST) -> Iterator[ast.AST]:
    """The nodes below a node that are run together with it: not those in functions, classes and lambdas inside it."""
    for child in ast.iter_child_nodes(node):
        yield child
        if not isinstance(child, (*FUNCTIONS, ast.ClassDef, ast.Lambda)):
            yield from own_nodes(child)


def functions(module: ast.Module) -> Iterator[Function]:
    """Every function and method of a module."""
    return (node for node in ast.walk(module) if isinstance(node, FUNCTIONS))


def is_generator(function: Function) -> bool:
    """Whether calling the function does not run its body."""
    suspends = (ast.Yield, ast.YieldFrom, ast.Await)
    return isinstance(function, ast.AsyncFunctionDef) or any(isinstance(node, suspends) for node in own_nodes(function))


def load(name: str) -> ast.Name:
    return ast.Name(name, ast.Load())


def assign(name: str, value: ast.expr) -> ast.Assign:
    return ast.Assign([ast.Name(name, ast.Store())], value, lineno=0)


def call(function: ast.expr | str, *arguments: ast.expr) -> ast.Call:
    return ast.Call(load(function) if isinstance(function, str) else function, list(arguments), [])


def new_function(name: str, names: list[str], body: Block) -> ast.FunctionDef:
    """A function of positional parameters; parsed, since each Python has other fields in its tree."""
    function = ast.parse(f"def {name}({', '.join(names)}): pass").body[0]
    assert isinstance(function, ast.FunctionDef)
    function.body = body
    return function


def new_class(name: str, bases: list[ast.expr], body: Block, decorators: list[ast.expr]) -> ast.ClassDef:
    definition = ast.parse(f"class {name}: pass").body[0]
    assert isinstance(definition, ast.ClassDef)
    definition.bases, definition.body, definition.decorator_list = bases, body, decorators
    return definition


def dotted(node: ast.AST) -> str | None:
    """`torch.utils.data` for the expression that says so; None for anything that is no chain of names."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        front = dotted(node.value)
        return front and f"{front}.{node.attr}"
    return None


def single_target(statement: ast.stmt) -> str | None:
    """The variable of a plain `name = value`."""
    if isinstance(statement, ast.Assign) and len(statement.targets) == 1 and isinstance(statement.targets[0], ast.Name):
        return statement.targets[0].id
    return None


def names_in(node: ast.AST | list[ast.stmt]) -> set[str]:
    """Every name that is read or written in a tree."""
    trees = node if isinstance(node, list) else [node]
    return {part.id for tree in trees for part in ast.walk(tree) if isinstance(part, ast.Name)}


def is_simple(node: ast.expr) -> bool:
    """Whether evaluating it does nothing but look at constants and variables."""
    allowed = (ast.Constant, ast.Name, ast.UnaryOp, ast.USub, ast.Not, ast.Load, ast.Tuple, ast.List)
    return all(isinstance(part, allowed) for part in ast.walk(node))


def header_end(module: ast.Module) -> int:
    """The place behind the docstring and the imports from `__future__`."""
    place = 0
    for number, statement in enumerate(module.body):
        is_docstring = number == 0 and isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
        if is_docstring or (isinstance(statement, ast.ImportFrom) and statement.module == "__future__"):
            place = number + 1
    return place


def add_import(module: ast.Module, statement: ast.stmt) -> None:
    module.body.insert(header_end(module), statement)


def suspends(nodes: Sequence[ast.AST]) -> bool:
    """Whether `yield` or `await` stands in it, outside of functions of its own."""
    return any(
        isinstance(part, ast.Yield | ast.YieldFrom | ast.Await) for node in nodes for part in [node, *own_nodes(node)]
    )


def inside_try(module: ast.Module, block: Block) -> bool:
    """Whether an error in the block may be handled: then it matters which of two variables was assigned."""
    tries = (node for node in ast.walk(module) if isinstance(node, ast.Try))
    return any(statement is block[0] for node in tries for statement in ast.walk(node))


__all__ = [
    "COMPREHENSIONS", "FUNCTIONS", "REWRITES", "Block", "Function", "Program", "Rewrite", "Scopes", "add_import", "assign", "blocks",
    "call", "dotted", "functions", "header_end", "inside_try", "is_generator", "is_simple", "load", "mentioned", "names_in", "new_class", "new_function", "own_nodes", "parsed",
    "replace_statements", "rewrite", "scoped_blocks", "single_target", "suspends",
]  # fmt: skip
