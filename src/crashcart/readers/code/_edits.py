"""Small changes of a program, written as its author writes: whole lines with the indentation of their neighbours."""

from __future__ import annotations

from typing import TYPE_CHECKING

from crashcart.model import Edit, Span

if TYPE_CHECKING:
    import ast

    from crashcart.readers.code.source import Source

__all__ = ["alone", "indent_of", "line_after", "line_before", "replaced", "step_in"]


def indent_of(source: Source, node: ast.stmt) -> str:
    """The blanks before a statement."""
    line = source.line(node.lineno)
    return line[: len(line) - len(line.lstrip())]


def alone(source: Source, node: ast.stmt) -> bool:
    """Whether nothing else stands on the lines of a statement, so that lines can be put before and after it."""
    before = source.line(node.lineno)[: len(source.line(node.lineno)) - len(source.line(node.lineno).lstrip())]
    start = source.offset(node.lineno, 0)
    if source.text[start : source.offset(node.lineno, node.col_offset)] != before:
        return False
    end = source.offset(node.end_lineno or node.lineno, node.end_col_offset or 0)
    rest = source.text[end:].split("\n", 1)[0].strip()
    return not rest or rest.startswith("#")


def step_in(source: Source) -> str:
    """One step of indentation as this file has it."""
    for line in source.text.split("\n"):
        if line[:1] in {" ", "\t"} and line.strip():
            return line[: len(line) - len(line.lstrip())] if len(line) - len(line.lstrip()) in {1, 2, 4} else "    "
    return "    "


def line_before(source: Source, node: ast.stmt, *lines: str, first: int | None = None) -> Edit:
    """Lines put before a statement."""
    at = source.offset(first or node.lineno, 0)
    text = "".join(f"{indent_of(source, node)}{line}\n" for line in lines)
    return Edit(Span(source.path, at, at, first or node.lineno), text)


def line_after(source: Source, node: ast.stmt, *lines: str, indent: str | None = None) -> Edit:
    """Lines put after a statement."""
    blanks = indent_of(source, node) if indent is None else indent
    number = node.end_lineno or node.lineno
    at = source.offset(number, 0) + len(source.line(number))
    return Edit(Span(source.path, at, at, number), "".join(f"\n{blanks}{line}" for line in lines))


def replaced(source: Source, node: ast.expr | ast.stmt, text: str) -> Edit:
    """A node written differently."""
    return Edit(source.span(node), text)
