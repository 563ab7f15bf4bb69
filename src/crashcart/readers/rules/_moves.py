"""A statement taken out of an ``if``, so that every rank makes it; what stands before and after it stays in the branch.

    if rank == 0:                      if rank == 0:
        write(index)                       write(index)
        dist.barrier()           ->    dist.barrier()
        log("written")                 if rank == 0:
                                           log("written")

Lines are moved as they were written, with their comments. Tests on the way are written again without their part about ranks;
plain names that the statement needs (``path = os.path.join(...)``) are written again before it. Where anything else would be
needed there is no edit: a person has to look.
"""

from __future__ import annotations

import ast
import textwrap

from crashcart.model import Edit, Span
from crashcart.readers.code.edits import indent_of
from crashcart.readers.code.source import Source, name_of, parent
from crashcart.readers.rules._hoisted import hoisted, is_nested

__all__ = ["all_moved_out", "moved_out"]

PURE = {
    "os.path.join",
    "Path",
    "pathlib.Path",
    "str",
    "int",
    "len",
    "join",
    "format",
    "round",
    "min",
    "max",
    "isinstance",
    "get",
}


def moved_out(
    source: Source, guard: ast.If, statement: ast.stmt, call: ast.Call | None, rank_tests: frozenset[str]
) -> tuple[Edit, ...]:
    """The edit that takes a statement out of a branch, or only a call of it; nothing where that cannot be done line by line.

    ``rank_tests`` are the expressions that ask for the rank, as they are written.
    """
    if call is not None and is_nested(statement, call):
        return _call_out(source, guard, statement, call, rank_tests)
    levels = _levels(guard, statement)
    if levels == [guard] and guard.body == [statement] and not _without_ranks(source, guard, rank_tests):
        return (Edit(source.span(guard), source.written(statement)),)
    if levels is None or not _own_lines(source, guard, statement):
        return ()
    needed = _needed(statement, levels)
    if needed is None:
        return ()
    tests = [text for level in levels if (text := _without_ranks(source, level, rank_tests))]
    if any(text == "?" for text in tests):
        return ()
    indent = indent_of(source, guard.lineno)
    step = indent_of(source, guard.body[0].lineno)[len(indent) :] or "    "
    first = _comments_above(source, statement, _before(levels[-1], statement))
    middle: list[str] = []
    for depth, text in enumerate(tests):
        middle.append(f"{indent}{step * depth}if {text}:\n")
    inner = indent + step * len(tests)
    for one in needed:
        middle += _again(source, one, one.lineno, inner)
    middle += _again(source, statement, first, inner)
    text = _head(source, levels, statement, first) + "".join(middle) + _rest(source, levels, statement)
    start, end = source.offset(guard.lineno, 0), _line_end(source, guard.end_lineno or guard.lineno)
    return (Edit(Span(source.path, start, end, guard.lineno), text),)


def _call_out(
    source: Source, guard: ast.If, statement: ast.stmt, call: ast.Call, rank_tests: frozenset[str]
) -> tuple[Edit, ...]:
    """A call taken out of its statement first, which stays in the branch."""
    found = hoisted(source, statement, call)
    branch = next((node for node in found[0].nodes(ast.If) if node.lineno == guard.lineno), None) if found else None
    edits = moved_out(found[0], branch, found[1], None, rank_tests) if found and branch is not None else ()
    if not edits or not found:
        return ()
    span, more = edits[0].span, len(found[0].text) - len(source.text)
    return (Edit(Span(span.file, span.start, span.end - more, span.line), edits[0].text),)


def all_moved_out(
    source: Source, guard: ast.If, statements: list[ast.stmt], calls: list[ast.Call], rank_tests: frozenset[str]
) -> tuple[Edit, ...]:
    """Several statements of one branch, the last one first: what stands before it keeps its lines."""
    at, now, branch = source.offset(guard.lineno, 0), source, guard
    end = _line_end(source, guard.end_lineno or guard.lineno)
    places = {one.lineno: (call.lineno, call.col_offset) for one, call in zip(statements, calls, strict=False)}
    for statement in sorted(statements, key=lambda one: -one.lineno):
        found = next((node for node in now.nodes(type(statement)) if node.lineno == statement.lineno), None)
        place = places.get(statement.lineno)
        call = next((node for node in now.nodes(ast.Call) if (node.lineno, node.col_offset) == place), None)
        edits = moved_out(now, branch, found, call, rank_tests) if found is not None else ()
        if not edits:
            return ()
        text = now.text[: edits[0].span.start] + edits[0].text + now.text[edits[0].span.end :]
        now = Source(source.path, text)
        again = next((node for node in now.nodes(ast.If) if node.lineno == guard.lineno), None)
        if again is None and statement is not min(statements, key=lambda one: one.lineno):
            return ()
        branch = again or branch
    return (Edit(Span(source.path, at, end, guard.lineno), now.text[at : len(now.text) - (len(source.text) - end)]),)


def _levels(guard: ast.If, statement: ast.stmt) -> list[ast.If] | None:
    """The branches from the guard down to the statement; None where something else than plain branches lies between."""
    levels: list[ast.If] = []
    at: ast.AST = statement
    while at is not guard:
        above = parent(at)
        if not isinstance(above, ast.If) or above.orelse or at not in above.body:
            return None
        levels.insert(0, above)
        at = above
    owner = parent(guard)
    chained = isinstance(owner, ast.If) and owner.orelse == [guard]
    return None if chained or not levels else levels


def _own_lines(source: Source, guard: ast.If, statement: ast.stmt) -> bool:
    """Whether the statement and the branch have their lines for themselves."""
    lines = source.line(statement.lineno)
    starts = (
        lines[: len(lines) - len(lines.lstrip())]
        == source.text[source.offset(statement.lineno, 0) : source.span(statement).start]
    )
    rest = source.text[source.span(statement).end : _line_end(source, statement.end_lineno or statement.lineno)].strip()
    return starts and (not rest or rest.startswith("#")) and guard.body[0].lineno > guard.lineno


def _needed(statement: ast.stmt, levels: list[ast.If]) -> list[ast.Assign] | None:
    """The plain assignments of the branch that the statement uses; None where it uses something that is not plain."""
    blocks = [one for level, inner in zip(levels, [*levels[1:], statement], strict=True) for one in _before(level, inner)]
    made: dict[str, ast.stmt] = {}
    for block in blocks:
        for node in ast.walk(block):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                made[node.id] = block
    needed: list[ast.Assign] = []
    waiting = _used(statement) | {name for level in levels[1:] for name in _used(level.test)}
    while waiting:
        maker = made.get(waiting.pop())
        if maker is None or maker in needed:
            continue
        if not isinstance(maker, ast.Assign) or not _pure(maker.value):
            return None
        needed.append(maker)
        waiting |= _used(maker.value)
    return sorted(needed, key=lambda one: one.lineno)


def _used(node: ast.AST) -> set[str]:
    return {one.id for one in ast.walk(node) if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Load)}


def _pure(value: ast.expr) -> bool:
    calls = [node for node in ast.walk(value) if isinstance(node, ast.Call)]
    return all(
        name_of(call.func) in PURE or name_of(call.func).split(".")[-1] in PURE or not name_of(call.func) for call in calls
    )


def _before(level: ast.If, inner: ast.stmt) -> list[ast.stmt]:
    return level.body[: level.body.index(inner)]


def _without_ranks(source: Source, level: ast.If, rank_tests: frozenset[str]) -> str:
    """A test without what it says about ranks; "?" where it cannot be asked twice."""
    values = level.test.values if isinstance(level.test, ast.BoolOp) and isinstance(level.test.op, ast.And) else [level.test]
    left = [value for value in values if ast.unparse(value) not in rank_tests]
    if any(not _pure(one) or isinstance(one, ast.NamedExpr) for one in left):
        return "?"
    texts = [source.written(one) for one in left]
    return "?" if any("\n" in text for text in texts) else " and ".join(texts)


def _head(source: Source, levels: list[ast.If], statement: ast.stmt, first: int) -> str:
    """The branch up to the statement; tests with nothing left below them are dropped."""
    end = first
    inner: ast.stmt = statement
    for level in reversed(levels):
        if level.body[0] is not inner:
            break
        above = parent(level)
        before = above.body[: above.body.index(level)] if isinstance(above, ast.If) and level is not levels[0] else []
        end = _comments_above(source, level, before) if level is not levels[0] else level.lineno
        inner = level
    return source.text[source.offset(levels[0].lineno, 0) : source.offset(end, 0)]


def _rest(source: Source, levels: list[ast.If], statement: ast.stmt) -> str:
    """What follows the statement, under the same tests as before."""
    heads = ""
    inner: ast.stmt = statement
    after: list[str] = []
    for level in reversed(levels):
        follows = level.body[level.body.index(inner) + 1 :]
        last = level.body[-1]
        after.append(_lines(source, (inner.end_lineno or 0) + 1, last.end_lineno or 0) if follows else "")
        inner = level
    for depth, level in enumerate(levels):
        if any(after[: len(levels) - depth]):
            heads += _lines(source, level.lineno, _head_end(source, level))
    return heads + "".join(after)


def _head_end(source: Source, level: ast.If) -> int:
    number = level.body[0].lineno - 1
    while number > level.lineno and source.line(number).strip()[:1] in {"", "#"}:
        number -= 1
    return number


def _lines(source: Source, first: int, last: int) -> str:
    return source.text[source.offset(first, 0) : _line_end(source, last)] if last >= first else ""


def _again(source: Source, node: ast.stmt, first: int, indent: str) -> list[str]:
    """The lines of a statement, with another indentation."""
    text = textwrap.dedent(_lines(source, first, node.end_lineno or node.lineno))
    lines = text.splitlines(keepends=True)
    if lines and not lines[-1].endswith("\n"):
        lines[-1] += "\n"
    return [indent + line if line.strip() else line for line in lines]


def _comments_above(source: Source, node: ast.stmt, before: list[ast.stmt]) -> int:
    """The first line of the comments right above a statement."""
    number = node.lineno
    lowest = (before[-1].end_lineno or 0) if before else 0
    while number - 1 > lowest and source.line(number - 1).strip().startswith("#"):
        number -= 1
    return number


def _line_end(source: Source, number: int) -> int:
    start = source.offset(number, 0)
    found = source.text.find("\n", start)
    return len(source.text) if found < 0 else found + 1
