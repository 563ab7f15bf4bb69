"""A handle that a data set opens in ``__init__``, opened on first use in each process instead.

    self.file = h5py.File(path, "r")

becomes what it is opened with, and a property of the old name that opens it once in each process, so that every use stays as it
is written. Workers that are spawned get the data set without its handle.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from crashcart.model import Edit, Span
from crashcart.readers.code._blocks import indent_of, own_lines, step_of
from crashcart.readers.code.source import FUNCTIONS, inside, name_of

if TYPE_CHECKING:
    from crashcart.readers.code.source import Function, Source

__all__ = ["added_after", "given_to", "has", "imported", "known_to_all", "opened_lazily", "opener", "used_in"]


def opened_lazily(
    source: Source, owner: ast.ClassDef, init: Function, kept: ast.Assign, derived: list[ast.Assign]
) -> tuple[Edit, ...]:
    """The edits, none where the class is shaped otherwise; of a list of handles each is opened, once in each process."""
    listed = kept.value if isinstance(kept.value, ast.ListComp) else None
    call, target = kept.value if listed is None else listed.elt, kept.targets[0]
    if not isinstance(call, ast.Call) or not isinstance(target, ast.Attribute) or len(kept.targets) != 1:
        return ()
    if not all(own_lines(source, one) for one in (kept, init.body[-1], *derived)) or has(owner, "__getstate__", target.attr):
        return ()
    if not known_to_all(source, call):
        return ()
    if any(_local(one, init) for one in derived) or any(has(owner, one.targets[0].attr) for one in derived):  # type: ignore[attr-defined]
        return ()
    name = target.attr
    opened = source.written(call.func)
    given = given_to(source, call)
    opening = f"{opened}(*{{own}}_given[0], **{{own}}_given[1])"
    if listed is not None:
        rest = source.text[source.span(listed.elt).end : source.span(listed).end]
        given, opening = f"[{given}{rest}", f"[{opened}(*one, **named) for one, named in {{own}}_given]"
    step, margin = step_of(source), indent_of(source, init.lineno)
    own = f"self._{name.lstrip('_')}"
    edits = [
        Edit(source.span(kept), f"{own}_given = {given}\n{indent_of(source, kept.lineno)}{own}_handle = {own}_pid = None")
    ]
    edits += [_without(source, one) for one in derived]
    more: list[str] = []
    for one in derived:
        more += ["", "@property", f"def {one.targets[0].attr}(self):", f"{step}return {source.written(one.value)}"]  # type: ignore[attr-defined]
    lines = opener(name, opening.format(own=own), step, more)
    last = init.body[-1]
    inner = indent_of(source, init.body[0].lineno)
    closing = (
        f"\n{inner}{own}_handle = {own}_pid = None  # workers open their own" if used_in(init, name, kept, owner) else ""
    )
    body = "".join(f"\n{margin}{line}" if line else "\n" for line in ["", *lines])
    if last is kept:
        first = edits[0]
        edits[0] = Edit(first.span, first.text + body)
    elif last in derived:
        edits[-1] = Edit(edits[-1].span, f"{closing}{body}"[1:] + "\n")
    else:
        edits.append(added_after(source, last, closing + body))
    return (*edits, *imported(source, "os"))


def opener(name: str, opening: str, step: str, more: list[str]) -> list[str]:
    """The property that opens a handle once in each process, and the state that is sent without it."""
    own = f"self._{name.lstrip('_')}"
    state = ", ".join(f'"{own[5:]}_{what}": None' for what in ("handle", "pid"))
    return [
        "@property",
        f"def {name}(self):",
        f'{step}"""Opened on first use in each process: a handle must not be shared with a worker."""',
        f"{step}if {own}_pid != os.getpid():",
        f"{step}{step}{own}_handle, {own}_pid = {opening}, os.getpid()",
        f"{step}return {own}_handle",
        *more,
        "",
        "def __getstate__(self):",
        f"{step}return {{**self.__dict__, {state}}}",
    ]


def added_after(source: Source, node: ast.stmt, text: str) -> Edit:
    """Text after the last line of a statement."""
    number = node.end_lineno or node.lineno
    at = source.offset(number, 0) + len(source.line(number))
    return Edit(Span(source.path, at, at, number), text)


def used_in(init: Function, name: str, kept: ast.stmt, owner: ast.ClassDef) -> bool:
    """Whether ``__init__`` uses the handle itself, or calls a method of the class that may."""
    methods = {one.name for one in owner.body if isinstance(one, ast.FunctionDef)}
    for node in ast.walk(init):
        later = isinstance(node, ast.expr) and node.lineno > kept.lineno
        if later and isinstance(node, ast.Attribute) and name_of(node.value) == "self" and node.attr in {name, *methods}:
            return True
        if later and isinstance(node, ast.Call) and name_of(node.func) == "len":
            return True
    return False


def _without(source: Source, node: ast.Assign) -> Edit:
    """The lines of a statement taken out."""
    begin, end = source.offset(node.lineno, 0), node.end_lineno or node.lineno
    return Edit(Span(source.path, begin, source.offset(end, 0) + len(source.line(end)) + 1, node.lineno), "")


def given_to(source: Source, call: ast.Call) -> str:
    """The arguments of a call kept for later: plain data goes to every process, a function of C may not."""
    given = "".join(f"{source.written(one)}, " for one in call.args)
    given = given if len(call.args) == 1 else given.removesuffix(", ")
    named = [
        f'"{one.arg}": {source.written(one.value)}' if one.arg else f"**{source.written(one.value)}" for one in call.keywords
    ]
    return f"(({given.strip()}), {{{', '.join(named)}}})"


def _local(node: ast.Assign, init: Function) -> bool:
    """Whether a statement uses names that only ``__init__`` knows."""
    own = {one.arg for one in init.args.args if one.arg != "self"}
    own |= {one.id for one in ast.walk(init) if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store)}
    return any(isinstance(one, ast.Name) and one.id in own for one in ast.walk(node.value))


def known_to_all(source: Source, call: ast.Call) -> bool:
    """Whether the library is imported by the file and not by a function alone."""
    root = name_of(call.func).split(".")[0]
    imports: list[ast.Import | ast.ImportFrom] = [*source.nodes(ast.Import), *source.nodes(ast.ImportFrom)]
    named = [one for one in imports if any((name.asname or name.name.split(".")[0]) == root for name in one.names)]
    return any(inside(one, *FUNCTIONS) is None for one in named)


def has(owner: ast.ClassDef, *names: str) -> bool:
    return any(isinstance(one, ast.FunctionDef) and one.name in names for one in owner.body)


def imported(source: Source, *modules: str) -> list[Edit]:
    """The imports that a file lacks, after its docstring and its words to the future."""
    lacking = [module for module in modules if source.names.get(module) != module]
    body = source.tree.body
    begin = next(
        (
            one
            for one in body
            if isinstance(one, ast.Import) or (isinstance(one, ast.ImportFrom) and one.module != "__future__")
        ),
        None,
    )
    if not lacking or begin is None:
        return []
    at = source.offset(begin.lineno, 0)
    return [Edit(Span(source.path, at, at, begin.lineno), "".join(f"import {module}\n" for module in lacking))]
