"""A wait given an end, or taken away, so that a training goes on when nobody answers.

An answer that does not come in time raises: what depends on it stands under a ``suppress`` with it, so that the error of a
server ends nothing. Where the rest of the program uses what was waited for, there is no edit that leaves it whole, and none.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from crashcart.model import Edit, Span
from crashcart.readers.code.edits import indent_of, missing_imports, own_lines, step_of
from crashcart.readers.code.source import inside, name_of, parent
from crashcart.readers.rules._statements import statement_of

if TYPE_CHECKING:
    from crashcart.readers.code.source import Function, Source
    from crashcart.readers.interpreter.execution import Execution
    from crashcart.readers.interpreter.libraries.waits import Wait

__all__ = ["CallSites", "unpolled", "unwaited"]

Edits = tuple[Edit, ...]
SECONDS, UPLOAD = 10, 60
WHY = "  # telling is not worth a training"
_BLOCKS = ("body", "orelse", "finalbody")
GROWS = frozenset({"append", "add", "extend", "update", "insert"})


class CallSites:
    """Where the functions of the program are called."""

    def __init__(self, execution: Execution) -> None:
        self.sites: dict[ast.AST, dict[ast.AST, Source]] = {}
        for call in execution.trace.calls:
            if call.function is not None:
                self.sites.setdefault(call.function.node, {})[call.node] = call.source

    def calling(self, function: Function) -> list[tuple[Source, ast.AST]]:
        """The places that call a function."""
        return [(source, node) for node, source in self.sites.get(function, {}).items()]


def function_of(node: ast.AST) -> Function | None:
    """The function in which something stands."""
    return inside(node, ast.FunctionDef, ast.AsyncFunctionDef)  # type: ignore[return-value]  # one of the two


def unwaited(callers: CallSites, source: Source, call: ast.Call, kind: Wait) -> Edits:
    """The edits for one wait; none where the code is shaped so that a person has to look."""
    statement = statement_of(call)
    alone = isinstance(statement, ast.Expr) and statement.value is call and own_lines(source, statement)
    method = call.func.attr if isinstance(call.func, ast.Attribute) else ""
    if kind == "upload" and method == "wait" and isinstance(call.func, ast.Attribute):
        return _upload(callers, source, call, alone=alone)
    if kind == "queue" and alone:
        return (_dropped(source, statement),)
    if kind == "thread" and method in {"wait", "join"}:
        return (Edit(source.span(call), f"{source.written(call)[:-1]}timeout={SECONDS})"),)
    if kind == "thread" and method == "result":
        text = _with(source.written(call), f"timeout={SECONDS}")
        errors = "concurrent.futures.TimeoutError, OSError"
        return _suppressed(source, _depending(statement), {call: text}, errors, "concurrent.futures")
    if kind == "full" and alone:
        empty = isinstance(call.args[0], ast.Constant) if call.args else True
        text = _with(source.written(call), f"timeout={SECONDS}" if empty else "block=False")
        return _suppressed(source, [statement], {call: text}, "queue.Full", "queue")
    if kind == "server":
        return _server(callers, source, call)
    return ()


def unpolled(source: Source, loop: ast.While) -> Edits:
    """A loop that asks again and again, with an end."""
    if not own_lines(source, loop) or "give_up" in source.text:
        return ()
    indent = indent_of(source, loop.lineno)
    heads = [*missing_imports(source, "time"), f"give_up = time.monotonic() + {SECONDS}{WHY}"]
    start = source.span(loop).start
    first = Edit(Span(source.path, start, start, loop.lineno), "".join(f"{line}\n{indent}" for line in heads))
    test, ending = source.written(loop.test), "time.monotonic() < give_up"
    if not isinstance(loop.test, ast.Constant):
        loose = isinstance(loop.test, (ast.BoolOp, ast.IfExp, ast.NamedExpr, ast.Lambda)) or "\n" in test
        ending = f"({test}) and {ending}" if loose else f"{test} and {ending}"
    return (first, Edit(source.span(loop.test), ending))


def _upload(callers: CallSites, source: Source, call: ast.Call, *, alone: bool) -> Edits:
    """Without the wait; where the artifact's number is asked for later, with an end, and what needs it left out then."""
    statement, value = statement_of(call), call.func.value if isinstance(call.func, ast.Attribute) else call
    used = _used_later(callers, source, call)
    if not used and alone:
        return (
            Edit(source.span(call), source.written(value)) if isinstance(value, ast.Call) else _dropped(source, statement),
        )
    if not used or source.names.get("wandb") != "wandb":
        return ()
    timed = Edit(source.span(call), _with(source.written(call), f"timeout={UPLOAD}"))
    home, at = used[-1]
    if home is source and at is statement:
        return _suppressed(source, _depending(at), {call: timed.text}, "wandb.Error", "wandb")
    edits = _suppressed(home, _depending(at), {}, "wandb.Error", "wandb")
    return (timed, *edits) if edits else ()


def _used_later(callers: CallSites, source: Source, call: ast.Call) -> list[tuple[Source, ast.stmt]]:
    """The statements that use what was waited for, from the wait to the last caller; empty where nobody does."""
    statement, function = statement_of(call), function_of(call)
    value = call.func.value if isinstance(call.func, ast.Attribute) else call
    names = {name_of(value)} if not isinstance(value, ast.Call) else set()
    if isinstance(statement, ast.Assign):
        names |= {name_of(target) for target in statement.targets}
    chained = isinstance(parent(call), ast.Attribute)
    later = [
        node
        for node in ast.walk(function or source.tree)
        if isinstance(node, (ast.Name, ast.Attribute)) and isinstance(node.ctx, ast.Load) and name_of(node) in names
        and node.lineno > (statement.end_lineno or 0)
    ]  # fmt: skip
    if not later and not chained and not isinstance(statement, ast.Return):
        return []
    found: list[tuple[Source, ast.stmt]] = [(source, statement)]
    returned = isinstance(statement, ast.Return) or any(isinstance(statement_of(one), ast.Return) for one in later)
    if returned and function is not None:
        sites = [(other, site) for other, site in callers.calling(function) if isinstance(site, ast.Call)]
        kept = [one for one in sites if not isinstance(parent(one[1]), ast.Expr)]
        if not kept and all(isinstance(statement_of(one), ast.Return) for one in later) and not chained:
            return []  # it is given back, and nobody takes it
        return [*found, (kept[0][0], statement_of(kept[0][1]))] if len(sites) == 1 and kept else found
    return found


def _server(callers: CallSites, source: Source, call: ast.Call) -> Edits:
    text = _with(_without_none(source, call), f"timeout={SECONDS}")
    statements = _depending(statement_of(call))
    function = function_of(call)
    gives = any(isinstance(node, ast.Return) and node.value is not None for part in statements for node in ast.walk(part))
    sites = callers.calling(function) if function is not None else []
    taken = gives and any(isinstance(site, ast.Call) and not isinstance(parent(site), ast.Expr) for _, site in sites)
    made = source.called(call.func).rpartition(".")[2] in {"create_connection", "HTTPConnection", "HTTPSConnection"}
    if inside(call, ast.Try) or taken or made:
        return (Edit(source.span(call), text),)
    return _suppressed(source, statements, {call: text}, "OSError") or (Edit(source.span(call), text),)


def _depending(statement: ast.stmt) -> list[ast.stmt]:
    """A statement with those after it in its block, up to the last that needs what it makes."""
    at = statement
    block = next((body for part in _BLOCKS if at in (body := getattr(parent(at), part, []) or [])), [at])
    made = _made(at)
    taken = [at]
    for number, one in enumerate(block[block.index(at) + 1 :], 1):
        if made & {name_of(node) for node in ast.walk(one) if isinstance(node, (ast.Name, ast.Attribute))}:
            taken = block[block.index(at) : block.index(at) + number + 1]
            made |= _made(one)
    return taken


def _made(statement: ast.stmt) -> set[str]:
    """The names that a statement sets, and the lists that it adds to."""
    found = set()
    for node in ast.walk(statement):
        if isinstance(node, (ast.Name, ast.Attribute)) and isinstance(node.ctx, ast.Store):
            found.add(name_of(node))
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in GROWS:
            found.add(name_of(node.func.value))
    return found


def _suppressed(source: Source, statements: list[ast.stmt], texts: dict[ast.Call, str], error: str, *modules: str) -> Edits:
    """The statements under ``with contextlib.suppress(...)``, calls in them written differently."""
    first, last = statements[0], statements[-1]
    if not own_lines(source, first) or not own_lines(source, last):
        return ()
    inner = [node for node in source.nodes(ast.Constant, ast.JoinedStr) if node.end_lineno != node.lineno]
    if any(first.lineno <= one.lineno <= (last.end_lineno or 0) for one in inner):
        return ()
    start, end = source.span(first).start, source.span(last).end
    body = source.text[start:end]
    for call, text in sorted(texts.items(), key=lambda pair: -pair[0].lineno):
        span = source.span(call)
        body = body[: span.start - start] + text + body[span.end - start :]
    indent, step = indent_of(source, first.lineno), step_of(source)
    heads = [*missing_imports(source, "contextlib", *modules), f"with contextlib.suppress({error}):{WHY}"]
    lines = "".join(f"{line}\n{indent}" for line in heads)
    deeper = "\n".join(f"{step}{line}" if line.strip() and number else line for number, line in enumerate(body.split("\n")))
    return (Edit(Span(source.path, start, end, first.lineno), f"{lines}{step}{deeper}"),)


def _dropped(source: Source, statement: ast.stmt) -> Edit:
    """A statement taken away; where it is all of its block, nothing in its place."""
    above = parent(statement)
    if any(getattr(above, part, None) == [statement] for part in _BLOCKS):
        return Edit(source.span(statement), "pass")
    first, last = statement.lineno, statement.end_lineno or statement.lineno
    end = source.text.find("\n", source.span(statement).end)
    return Edit(Span(source.path, source.offset(first, 0), len(source.text) if end < 0 else end + 1, last), "")


def _without_none(source: Source, call: ast.Call) -> str:
    """The text of a call without ``timeout=None``."""
    text = source.written(call)
    return text.replace(", timeout=None", "").replace("timeout=None, ", "")


def _with(text: str, given: str) -> str:
    """A call with one more argument at its end."""
    inner = text[:-1].rstrip()
    tail = text[len(inner) : -1]
    comma = "" if inner.endswith(("(", ",")) else ","
    space = "" if inner.endswith("(") else " "
    return f"{inner}{comma}{space}{given}{tail})"
