"""What every rank fetches or builds at the same time, and long work of the first rank for which the others wait.

Eight processes that download into one folder, or that write an index while another reads it, break each other's files. A guard
(``main_process_first``, a lock, rank 0 and then a barrier) prevents that; a barrier after hours of work of the first rank
ends the job at the process group's time-out.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from crashcart.model import Edit, Span
from crashcart.readers.code._blocks import missing_imports, wrapped
from crashcart.readers.code._callers import callers_of, function_of, statement_of
from crashcart.readers.code._collectives import collectives
from crashcart.readers.code._fetches import asked_name, block_after, builds, fetches, hub_name, is_cached, is_long, whole
from crashcart.readers.code._given import argument
from crashcart.readers.code._guards import side_at, side_of
from crashcart.readers.code._paths import given_to
from crashcart.readers.code._reach import WAITS, all_come, first_comes
from crashcart.readers.code._renames import renamed
from crashcart.readers.code.source import FUNCTIONS, keyword, name_of, parent, parents

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.model import Fact
    from crashcart.readers.code._callers import Callers
    from crashcart.readers.code._fetches import How
    from crashcart.readers.code.program import Program
    from crashcart.readers.code.source import Source

LOCK = 'with open(os.path.join(tempfile.gettempdir(), f"fetch-{os.getuid()}.lock"), "w") as lock:'


def look(program: Program) -> Iterator[Fact]:
    """``code.fetched_by_all``, ``code.long_first`` and ``code.group_start``."""
    if not program.imports("torch", "accelerate", "lightning", "pytorch_lightning", "transformers", "deepspeed"):
        return
    callers = callers_of(program)
    found = [(source, list(fetches(callers, source))) for source in program.sources]
    guarded = {
        name_of(node.func).split(".")[-1]
        for source, own in found
        for node, _ in own
        if isinstance(node, ast.Call) and first_comes(callers, source, node)
    }
    answered = {
        function_of(call)
        for source, call, _ in collectives(program)
        if name_of(call.func).split(".")[-1] not in WAITS and side_at(call, source) == "others"
    }
    for source, own in found:
        for node, how in own:
            named = name_of(node.func).split(".")[-1] if isinstance(node, ast.Call) else ""
            if named not in guarded and function_of(node) not in answered and all_come(callers, source, node):
                yield _fetched(callers, source, node, how)
        yield from _long_first(source, callers)
        for call in source.calls("init_process_group", "InitProcessGroupKwargs"):
            yield _start(source, call)


def _fetched(callers: Callers, source: Source, node: ast.Call | ast.If, how: How) -> Fact:
    first, last = whole(node)
    asked = _handed(callers, source, asked_name(node)) if how == "hub" and isinstance(node, ast.Call) else None
    name = hub_name(asked)
    value = {
        "what": name_of(node.func) if isinstance(node, ast.Call) else "",
        "how": how,
        "name": name,
        "if_address": _if_address(node),
        "renamed": isinstance(node, ast.If) and renamed(source, [node, *block_after(node)]) == "shared",
        "cached": is_cached(name) if name else None,
        "setting": _setting(asked) if not name else "",
        "edits": _one_at_a_time(source, first, last),
    }
    return source.fact("code.fetched_by_all", value, node)


def _if_address(node: ast.AST) -> bool:
    """Whether it comes to that only for a value that is an address: ``if file.startswith("https://")``, ``if is_url(file)``."""
    at = node
    for above in parents(node):
        if isinstance(above, FUNCTIONS):
            return False
        if isinstance(above, (ast.If, ast.IfExp)) and at is not above.test and at not in getattr(above, "orelse", ()):
            for call in (one for one in ast.walk(above.test) if isinstance(one, ast.Call)):
                words = [one.value for one in ast.walk(call) if isinstance(one, ast.Constant)]
                named = name_of(call.func).split(".")[-1]
                if named == "is_url" or (named == "startswith" and any(str(word).startswith("http") for word in words)):
                    return True
        at = above
    return False


def _handed(callers: Callers, source: Source, asked: ast.expr | None, depth: int = 4) -> ast.expr | None:
    """What the one caller hands over, where a name is a parameter; and what a constant stands for."""
    function = function_of(asked) if asked is not None else None
    given = given_to(source, name_of(asked), function) if isinstance(asked, (ast.Name, ast.Attribute)) and depth else []
    if given:
        return _handed(callers, source, given[0], depth - 1) if len(given) == 1 else asked
    if function is None or not isinstance(asked, ast.Name) or depth == 0:
        return asked
    handed = {
        ast.unparse(value): (at, value)
        for at, call in callers.calling(source, function)
        if isinstance(call, ast.Call) and (value := argument(function, call, asked.id)) is not None
    }
    return _handed(callers, *next(iter(handed.values())), depth - 1) if len(handed) == 1 else asked


def _setting(first: ast.expr | None) -> str:
    """The last word of what a call takes its name from: ``cfg.data.dataset_name``, ``cfg["dataset_name"]``."""
    if isinstance(first, ast.Subscript) and isinstance(first.slice, ast.Constant):
        return str(first.slice.value)
    return name_of(first).split(".")[-1] if isinstance(first, (ast.Name, ast.Attribute)) else ""


def _one_at_a_time(source: Source, statement: ast.stmt, last: ast.stmt) -> tuple[Edit, ...]:
    """The statement behind a lock, or where accelerate is at hand, first on the main process."""
    if not isinstance(statement, (ast.Assign, ast.Expr, ast.If, ast.Return)) or isinstance(parent(statement), ast.ClassDef):
        return ()
    function = function_of(statement)
    for made in (one for one in source.nodes(ast.Assign) if name_of(one.value) in {"Accelerator", "accelerate.Accelerator"}):
        if function_of(made) is function and made.lineno < statement.lineno and isinstance(made.targets[0], ast.Name):
            return wrapped(source, statement, last, [f"with {made.targets[0].id}.main_process_first():"], [])
    imports = missing_imports(source, "fcntl", "os", "tempfile")
    return wrapped(source, statement, last, [*imports, LOCK], ["fcntl.flock(lock, fcntl.LOCK_EX)  # one process at a time"])


def _long_first(source: Source, callers: Callers) -> Iterator[Fact]:
    """``if rank == 0: prepare()`` and then a barrier."""
    if not any(True for _ in source.calls(*WAITS)):
        return
    for branch in source.nodes(ast.If):
        known = side_of(branch.test, source)
        if known is None or known[0] != "first" or branch.orelse:
            continue
        wait = _wait_after(branch)
        if wait is None or _has_time_of_its_own(source, wait):
            continue
        for call in (one for part in branch.body for one in ast.walk(part) if isinstance(one, ast.Call)):
            meant = callers.meant(source, call) + callers.made(source, call)
            calls = [(at, one) for at, function in meant for one in ast.walk(function) if isinstance(one, ast.Call)]
            named = is_long(call, source) or any(is_long(one, at) for at, one in calls)
            if named or any(builds(function, at) for at, function in meant):
                inside = [at.called(one.func) for at, one in calls]
                value = {"work": name_of(call.func), "inside": inside, "wait": source.evidence(wait), "named": named}
                yield source.fact("code.long_first", value, call)
                break


def _wait_after(branch: ast.If) -> ast.Call | None:
    """The wait that follows a branch before anything else of weight: in the next two statements of its block."""
    above = parent(branch)
    for part in ("body", "orelse", "finalbody"):
        block = getattr(above, part, None)
        if isinstance(block, list) and branch in block:
            at = block.index(branch)
            for one in block[at + 1 : at + 3]:
                calls = [node for node in ast.walk(one) if isinstance(node, ast.Call)]
                found = next((call for call in calls if name_of(call.func).split(".")[-1] in WAITS), None)
                if found is not None:
                    return found
    return None


def _has_time_of_its_own(source: Source, wait: ast.Call) -> bool:
    """``dist.barrier(group=prepared)``: a group that was made for this wait, with a time-out that its author chose."""
    group = keyword(wait, "group", 0)
    name = name_of(group) if group is not None else ""
    return any(
        keyword(made, "timeout") is not None
        and isinstance(above := parent(made), ast.Assign)
        and name in {name_of(one) for one in above.targets}
        for made in source.calls("new_group", "new_subgroups")
    )


def _start(source: Source, call: ast.Call) -> Fact:
    """Where the process group begins, and the edit that gives it more time."""
    open_ended = keyword(call, "timeout") is not None or any(one.arg is None for one in call.keywords)
    edits = () if open_ended else _with_time(source, call)
    return source.fact("code.group_start", {"timeout": open_ended, "edits": edits}, call)


def _with_time(source: Source, call: ast.Call) -> tuple[Edit, ...]:
    end = source.span(call).end - 1
    at = len(source.text[:end].rstrip())
    comma = {",": " ", "(": ""}.get(source.text[at - 1], ", ")
    known = next((name for name, full in source.names.items() if full in {"datetime.timedelta", "datetime"}), "")
    word = f"{known or 'datetime'}.timedelta" if source.names.get(known) != "datetime.timedelta" else known
    given = Edit(Span(source.path, at, at, call.lineno), f"{comma}timeout={word}(hours=2)")
    if known:
        return (given,)
    statement = statement_of(call)
    line = source.offset(statement.lineno, 0)
    blanks = source.text[line : source.span(statement).start]
    return (
        ()
        if blanks.strip()
        else (Edit(Span(source.path, line, line, statement.lineno), f"{blanks}import datetime\n"), given)
    )
