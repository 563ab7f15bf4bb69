"""Edits that let a data set open its files on first use in each process, instead of in ``__init__``.

    self.file = h5py.File(path, "r")                                     `open_lazily`
    self.files[name] = h5py.File(path)     in a loop                     `open_many_lazily`
    self._connect()                        a method that opens them      `open_again_in_each_process`

What a file is opened with is kept, and a property of the old name opens it once in each process, so that every use stays as it is
written. Workers that are spawned get the data set without its handles.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from crashcart.model import Edit, Span
from crashcart.readers.code.edits import indent_of, own_lines, step_of
from crashcart.readers.code.source import FUNCTIONS, inside, name_of, parent

if TYPE_CHECKING:
    from crashcart.readers.code.source import Function, Source

__all__ = ["add_imports", "open_again_in_each_process", "open_lazily", "open_many_lazily"]


def open_lazily(
    source: Source, owner: ast.ClassDef, init: Function, kept: ast.Assign, derived: list[ast.Assign]
) -> tuple[Edit, ...]:
    """The edits, none where the class is shaped otherwise; of a list of handles each is opened, once in each process."""
    listed = kept.value if isinstance(kept.value, ast.ListComp) else None
    call, target = kept.value if listed is None else listed.elt, kept.targets[0]
    if not isinstance(call, ast.Call) or not isinstance(target, ast.Attribute) or len(kept.targets) != 1:
        return ()
    if not all(own_lines(source, one) for one in (kept, init.body[-1], *derived)) or _defines(
        owner, "__getstate__", target.attr
    ):
        return ()
    if not _is_imported_by_file(source, call):
        return ()
    if any(_local(one, init) for one in derived) or any(_defines(owner, one.targets[0].attr) for one in derived):  # type: ignore[attr-defined]
        return ()
    name = target.attr
    opened = source.written(call.func)
    given = _arguments_text(source, call)
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
    lines = _property_lines(name, opening.format(own=own), step, more)
    last = init.body[-1]
    inner = indent_of(source, init.body[0].lineno)
    closing = (
        f"\n{inner}{own}_handle = {own}_pid = None  # workers open their own" if _is_used_in(init, name, kept, owner) else ""
    )
    body = "".join(f"\n{margin}{line}" if line else "\n" for line in ["", *lines])
    if last is kept:
        first = edits[0]
        edits[0] = Edit(first.span, first.text + body)
    elif last in derived:
        edits[-1] = Edit(edits[-1].span, f"{closing}{body}"[1:] + "\n")
    else:
        edits.append(_insert_after(source, last, closing + body))
    return (*edits, *add_imports(source, "os"))


def _property_lines(name: str, opening: str, step: str, more: list[str]) -> list[str]:
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


def _insert_after(source: Source, node: ast.stmt, text: str) -> Edit:
    """Text after the last line of a statement."""
    number = node.end_lineno or node.lineno
    at = source.offset(number, 0) + len(source.line(number))
    return Edit(Span(source.path, at, at, number), text)


def _is_used_in(init: Function, name: str, kept: ast.stmt, owner: ast.ClassDef) -> bool:
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


def _arguments_text(source: Source, call: ast.Call) -> str:
    """The arguments of a call kept for later: plain data goes to every process, a function of C may not."""
    given = "".join(f"{source.written(argument)}, " for argument in call.args)
    given = given if len(call.args) == 1 else given.removesuffix(", ")
    named = [
        f'"{keyword.arg}": {source.written(keyword.value)}' if keyword.arg else f"**{source.written(keyword.value)}"
        for keyword in call.keywords
    ]
    return f"(({given.strip()}), {{{', '.join(named)}}})"


def _local(node: ast.Assign, init: Function) -> bool:
    """Whether a statement uses names that only ``__init__`` knows."""
    own = {argument.arg for argument in init.args.args if argument.arg != "self"}
    own |= {one.id for one in ast.walk(init) if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store)}
    return any(isinstance(one, ast.Name) and one.id in own for one in ast.walk(node.value))


def _is_imported_by_file(source: Source, call: ast.Call) -> bool:
    """Whether the library is imported by the file and not by a function alone."""
    root = name_of(call.func).split(".")[0]
    imports: list[ast.Import | ast.ImportFrom] = [*source.nodes(ast.Import), *source.nodes(ast.ImportFrom)]
    named = [one for one in imports if any((name.asname or name.name.split(".")[0]) == root for name in one.names)]
    return any(inside(one, *FUNCTIONS) is None for one in named)


def _defines(owner: ast.ClassDef, *names: str) -> bool:
    return any(isinstance(one, ast.FunctionDef) and one.name in names for one in owner.body)


def add_imports(source: Source, *modules: str) -> list[Edit]:
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


def open_many_lazily(
    source: Source, owner: ast.ClassDef, init: Function, call: ast.Call, attribute: str, held: ast.Name | None = None
) -> tuple[Edit, ...]:
    """The edits, none where the handles are gathered or used in another way; ``held`` is the name that each had before."""
    put = held if held is not None else call
    if (
        _defines(owner, "__getstate__", attribute)
        or not _is_imported_by_file(source, call)
        or not own_lines(source, init.body[-1])
    ):
        return ()
    uses = [node for node in ast.walk(init) if isinstance(node, ast.Attribute) and name_of(node) == f"self.{attribute}"]
    begun = next((parent(node) for node in uses if isinstance(node.ctx, ast.Store)), None)
    if not isinstance(begun, ast.Assign) or len(begun.targets) != 1 or not own_lines(source, begun):
        return ()
    keyed = _is_keyed(begun.value, call)
    filled = [node for node in uses if node is not begun.targets[0]]
    if keyed is None or not all(_fills(node, put) or _only_counted(node) for node in filled):
        return ()
    if inside(begun, ast.For, ast.While, ast.If) or _calls_own(init, owner):
        return ()
    own = f"self._{attribute.lstrip('_')}"
    opened = f"{source.written(call.func)}(*one, **named)"
    opening = (
        f"{{key: {opened} for key, (one, named) in {own}_given.items()}}"
        if keyed
        else f"[{opened} for one, named in {own}_given]"
    )
    margin = indent_of(source, init.lineno)
    body = "".join(
        f"\n{margin}{line}" if line else "\n" for line in ["", *_property_lines(attribute, opening, step_of(source), [])]
    )
    start = f"{own}_handle = {own}_pid = None\n{indent_of(source, begun.lineno)}{own}_given"
    return (
        Edit(source.span(begun.targets[0]), start),
        *(Edit(source.span(node), f"{own}_given") for node in filled),
        Edit(source.span(put), _arguments_text(source, call)),
        _insert_after(source, init.body[-1], body),
        *add_imports(source, "os"),
    )


def _calls_own(init: Function, owner: ast.ClassDef) -> bool:
    """Whether ``__init__`` calls methods of the class or takes its length: these may use the handles."""
    methods = {f"self.{one.name}" for one in owner.body if isinstance(one, ast.FunctionDef)}
    calls = [node for node in ast.walk(init) if isinstance(node, ast.Call)]
    return any(
        name_of(call.func) in methods or (name_of(call.func) == "len" and name_of(call.args[0]) == "self") for call in calls
    )


def _is_keyed(value: ast.expr, call: ast.Call) -> bool | None:
    """Whether the handles are kept by key or in order; None for anything else."""
    if isinstance(value, ast.DictComp):
        return True if value.value is call else None
    if isinstance(value, ast.Call) and not value.args and not value.keywords:
        return {"dict": True, "list": False}.get(name_of(value.func))
    if isinstance(value, ast.Dict) and not value.keys:
        return True
    return False if isinstance(value, ast.List) and not value.elts else None


def _only_counted(node: ast.Attribute) -> bool:
    """``len(self.files)``, which is the same for what they are opened with."""
    above = parent(node)
    return isinstance(above, ast.Call) and name_of(above.func) == "len"


def _fills(node: ast.Attribute, call: ast.expr) -> bool:
    """Whether this use puts the handle in: ``self.files[key] = ...`` or ``self.files.append(...)``."""
    above = parent(node)
    if isinstance(above, ast.Subscript):
        statement = parent(above)
        return isinstance(statement, ast.Assign) and statement.value is call
    adding = parent(above) if isinstance(above, ast.Attribute) and above.attr == "append" else None
    return isinstance(adding, ast.Call) and adding.args == [call]


def open_again_in_each_process(
    source: Source, owner: ast.ClassDef, init: Function, method: Function, kept: list[ast.Assign]
) -> tuple[Edit, ...]:
    """The edits; none where the method needs more than the object, or is called in another way than ``self.open()``."""
    targets = [one.targets[0] for one in kept]
    names = [one.attr for one in targets if isinstance(one, ast.Attribute)]
    begun = [
        one for one in init.body
        if isinstance(one, ast.Expr) and isinstance(one.value, ast.Call) and name_of(one.value.func) == f"self.{method.name}"
    ]  # fmt: skip
    if len(begun) != 1 or len(method.args.args) != 1 or len(names) != len(kept) or _defines(owner, "__getstate__", *names):
        return ()
    if _stored_elsewhere(owner, method, names) or not all(
        own_lines(source, one) for one in (*kept, begun[0], method.body[-1])
    ):
        return ()
    step, margin = step_of(source), indent_of(source, method.lineno)
    edits = [
        Edit(source.span(target), f"self.{_hidden(target.attr)}") for target in targets if isinstance(target, ast.Attribute)
    ]
    first = method.body[1] if ast.get_docstring(method) and len(method.body) > 1 else method.body[0]
    at = source.offset(first.lineno, 0)
    inner = indent_of(source, first.lineno)
    edits.append(Edit(Span(source.path, at, at, first.lineno), f"{inner}self._opened_by = os.getpid()\n"))
    unset = " = ".join(f"self.{one}" for one in (*map(_hidden, names), "_opened_by"))
    blanks = indent_of(source, begun[0].lineno)
    edits.append(_insert_after(source, begun[0], f"\n{blanks}{unset} = None  # workers open their own"))
    lines: list[str] = []
    for name in names:
        lines += ["", "@property", f"def {name}(self):",
                  f'{step}"""Opened on first use in each process: a handle must not be shared with a worker."""',
                  f"{step}if self._opened_by != os.getpid():", f"{step}{step}self.{method.name}()",
                  f"{step}return self.{_hidden(name)}"]  # fmt: skip
    state = ", ".join(f'"{one}": None' for one in (*map(_hidden, names), "_opened_by"))
    lines += ["", "def __getstate__(self):", f"{step}return {{**self.__dict__, {state}}}"]
    body = "".join(f"\n{margin}{line}" if line else "\n" for line in lines)
    edits.append(_insert_after(source, method.body[-1], body))
    return (*edits, *add_imports(source, "os"))


def _hidden(name: str) -> str:
    return f"_own_{name.lstrip('_')}"


def _stored_elsewhere(owner: ast.ClassDef, method: Function, names: list[str]) -> bool:
    """Whether anything but the method sets or deletes one of the attributes."""
    inner = set(ast.walk(method))
    return any(
        isinstance(node, ast.Attribute) and node.attr in names and not isinstance(node.ctx, ast.Load) and node not in inner
        for node in ast.walk(owner)
    ) or not isinstance(parent(method), ast.ClassDef)
