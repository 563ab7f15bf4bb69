"""A method that opens the files of a data set, called by ``__init__``: called again by each process that reads.

    def _connect(self):
        self.env = lmdb.open(self.path, readonly=True)
        self.txn = self.env.begin()

The attributes become properties of the same names, so that every use stays as it is written; what else the method sets is set
by ``__init__`` as before.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from crashcart.model import Edit, Span
from crashcart.readers.code._blocks import indent_of, own_lines, step_of
from crashcart.readers.code._lazily import added_after, has, imported
from crashcart.readers.code.source import name_of, parent

if TYPE_CHECKING:
    from crashcart.readers.code.source import Function, Source

__all__ = ["opened_again"]


def opened_again(
    source: Source, owner: ast.ClassDef, init: Function, method: Function, kept: list[ast.Assign]
) -> tuple[Edit, ...]:
    """The edits; none where the method needs more than the object, or is called in another way than ``self.open()``."""
    targets = [one.targets[0] for one in kept]
    names = [one.attr for one in targets if isinstance(one, ast.Attribute)]
    begun = [
        one for one in init.body
        if isinstance(one, ast.Expr) and isinstance(one.value, ast.Call) and name_of(one.value.func) == f"self.{method.name}"
    ]  # fmt: skip
    if len(begun) != 1 or len(method.args.args) != 1 or len(names) != len(kept) or has(owner, "__getstate__", *names):
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
    edits.append(added_after(source, begun[0], f"\n{blanks}{unset} = None  # workers open their own"))
    lines: list[str] = []
    for name in names:
        lines += ["", "@property", f"def {name}(self):",
                  f'{step}"""Opened on first use in each process: a handle must not be shared with a worker."""',
                  f"{step}if self._opened_by != os.getpid():", f"{step}{step}self.{method.name}()",
                  f"{step}return self.{_hidden(name)}"]  # fmt: skip
    state = ", ".join(f'"{one}": None' for one in (*map(_hidden, names), "_opened_by"))
    lines += ["", "def __getstate__(self):", f"{step}return {{**self.__dict__, {state}}}"]
    body = "".join(f"\n{margin}{line}" if line else "\n" for line in lines)
    edits.append(added_after(source, method.body[-1], body))
    return (*edits, *imported(source, "os"))


def _hidden(name: str) -> str:
    return f"_own_{name.lstrip('_')}"


def _stored_elsewhere(owner: ast.ClassDef, method: Function, names: list[str]) -> bool:
    """Whether anything but the method sets or deletes one of the attributes."""
    inner = set(ast.walk(method))
    return any(
        isinstance(one, ast.Attribute) and one.attr in names and not isinstance(one.ctx, ast.Load) and one not in inner
        for one in ast.walk(owner)
    ) or not isinstance(parent(method), ast.ClassDef)
