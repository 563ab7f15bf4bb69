"""Small changes of a program, written as its author would: whole lines with the indentation of their neighbours."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from crashcart.model import Edit, Span
from crashcart.record import replace

if TYPE_CHECKING:
    from crashcart.readers.code.source import Source

__all__ = [
    "alone",
    "indent_of",
    "line_after",
    "line_before",
    "missing_imports",
    "own_lines",
    "replaced",
    "step_of",
    "tried",
    "wrapped",
]


def indent_of(source: Source, number: int) -> str:
    """The blanks before a line."""
    line = source.line(number)
    return line[: len(line) - len(line.lstrip())]


def alone(source: Source, node: ast.stmt) -> bool:
    """Whether nothing else stands on the lines of a statement, so that lines can be put before and after it."""
    span = source.span(node)
    before = source.text[source.offset(node.lineno, 0) : span.start]
    rest = source.text[span.end :].split("\n", 1)[0].strip()
    return not before.strip() and (not rest or rest.startswith("#"))


def own_lines(source: Source, node: ast.stmt) -> bool:
    """Whether a statement has its lines for itself, and no text in it that spans lines."""
    texts = (each for each in ast.walk(node) if isinstance(each, (ast.Constant, ast.JoinedStr)))
    return alone(source, node) and all(text.end_lineno == text.lineno for text in texts)


def step_of(source: Source) -> str:
    """One step of indentation as this file has it."""
    for line in source.text.split("\n"):
        if line[:1] == "\t":
            return "\t"
        blanks = len(line) - len(line.lstrip(" "))
        if line.strip() and blanks in {2, 4}:
            return " " * blanks
    return "    "


def missing_imports(source: Source, *modules: str) -> list[str]:
    """The import lines that a file lacks; they are put where they are used."""
    return [f"import {module}" for module in modules if source.names.get(module) != module]


def wrapped(source: Source, node: ast.stmt, end: ast.stmt, before: list[str], inside: list[str]) -> tuple[Edit, ...]:
    """Statements one step deeper, with lines before them (the last one ends with a colon) and lines above them inside."""
    if not own_lines(source, node) or not own_lines(source, end):
        return ()
    first, last = node.lineno, end.end_lineno or end.lineno
    texts = source.nodes(ast.Constant, ast.JoinedStr) if first < last else []
    if any(first <= text.lineno <= last and text.end_lineno != text.lineno for text in texts):
        return ()  # blanks before its later lines would become part of a text
    indent, step = indent_of(source, first), step_of(source)
    start = source.offset(first, 0)
    stop = source.offset(last, 0) + len(source.line(last))
    lines = [f"{indent}{line}" for line in before] + [f"{indent}{step}{line}" for line in inside]
    lines += [f"{step}{line}" if line.strip() else line for line in source.text[start:stop].split("\n")]
    return (Edit(Span(source.path, start, stop, first), "\n".join(lines)),)


def tried(source: Source, node: ast.stmt, end: ast.stmt, handler: str, *lines: str) -> list[Edit]:
    """Statements in a ``try``, and the handler of what they raise."""
    indent, step = indent_of(source, node.lineno), step_of(source)
    more = "".join(f"\n{indent}{line}" for line in (handler, *(f"{step}{line}" for line in lines)))
    return [replace(edit, text=edit.text + more) for edit in wrapped(source, node, end, ["try:"], [])]


def line_before(source: Source, node: ast.stmt, *lines: str, first: int | None = None) -> Edit:
    """Lines put before a statement."""
    at = source.offset(first or node.lineno, 0)
    text = "".join(f"{indent_of(source, node.lineno)}{line}\n" for line in lines)
    return Edit(Span(source.path, at, at, first or node.lineno), text)


def line_after(source: Source, node: ast.stmt, *lines: str, indent: str | None = None) -> Edit:
    """Lines put after a statement."""
    blanks = indent_of(source, node.lineno) if indent is None else indent
    number = node.end_lineno or node.lineno
    at = source.offset(number, 0) + len(source.line(number))
    return Edit(Span(source.path, at, at, number), "".join(f"\n{blanks}{line}" for line in lines))


def replaced(source: Source, node: ast.expr | ast.stmt, text: str) -> Edit:
    """A node written differently."""
    return Edit(source.span(node), text)
