"""Calls that wait for every rank and stand where only one of them comes.

    if accelerator.is_main_process:
        accelerator.save_state(path)      # under FSDP or DeepSpeed every rank must call it

A wait has its counterpart where the others wait too: in the other branch, or before the branch under the opposite test, as
in ``if rank != 0: barrier()`` ... ``if rank == 0: barrier()``. A function that waits and is called in such a branch is seen
at the call.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from crashcart.readers.code._answering import waits_too
from crashcart.readers.code._callers import callers_of, function_of, statement_of
from crashcart.readers.code._collectives import collectives
from crashcart.readers.code._first_writes import written_by_first
from crashcart.readers.code._guards import guards, side_at
from crashcart.readers.code._moves import all_moved_out, moved_out
from crashcart.readers.code.source import FUNCTIONS, inside, keyword, name_of, parents
from crashcart.record import replace

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.model import Edit, Fact
    from crashcart.readers.code._callers import Callers
    from crashcart.readers.code._collectives import Kind
    from crashcart.readers.code._guards import Guard
    from crashcart.readers.code.program import Program
    from crashcart.readers.code.source import Function, Source

STARTERS = (
    "torch.multiprocessing.spawn", "multiprocessing.Process", "mp.Process", "notebook_launcher", "elastic_launch", "lightning.Trainer",
    "pytorch_lightning.Trainer", "pl.Trainer", "L.Trainer", "Fabric", "submitit.AutoExecutor", "TorchTrainer", "torch.multiprocessing.start_processes",
)  # fmt: skip
Waits = tuple["Source", ast.Call, "Kind"]
_DEPTH = 3


def look(program: Program) -> Iterator[Fact]:
    """``code.lone_wait``: a call that waits for all, where only the first rank comes; ``code.starts_ranks``."""
    for source in program.sources:
        for call in source.calls(*STARTERS):
            value = {"call": name_of(call.func), "number": _started(call)}
            yield source.fact("code.starts_ranks", value, call)
    if not program.imports("torch", "accelerate", "lightning", "pytorch_lightning", "deepspeed", "transformers"):
        return
    waits = list(collectives(program))
    callers = callers_of(program)
    answered = {home for source, call, _ in waits for home in _answers(callers, source, call)}
    told: set[ast.AST] = set()
    paired = {
        home for source, call, _ in waits if side_at(call, source) == "others" for home in _calling(callers, source, call)
    }
    lone = [
        (source, call, kind)
        for source, call, kind in waits
        if side_at(call, source) != "first" or not (paired | answered) & _calling(callers, source, call) - {None}
    ]
    lone = [one for one in lone if side_at(one[1], one[0]) != "first" or _home(one[1]) not in paired]
    found = [fact for wait in lone for fact in _followed(callers, wait, answered, told)]
    yield from _joined(found, {source.path: source for source in program.sources})


def _joined(facts: list[Fact], sources: dict[str, Source]) -> Iterator[Fact]:
    """The facts, with one edit for those that stand in the same branch."""
    for fact in facts:
        near = [
            one for one in facts if one.value["branch"] is fact.value["branch"] and one.value["kind"] == fact.value["kind"]
        ]
        branch, statements = fact.value["branch"], [one.value["statement"] for one in near]
        if len(near) > 1 and isinstance(branch, ast.If) and all(one.value["edits"] for one in near):
            calls = [one.value["place"] for one in near]
            edits = all_moved_out(sources[near[0].value["path"]], branch, statements, calls)
            fact = replace(fact, value={**fact.value, "edits": edits})  # noqa: PLW2901 - the same fact, with more in it
        kept = {name: value for name, value in fact.value.items() if name not in {"branch", "statement", "path", "place"}}
        yield replace(fact, value=kept)


def _started(call: ast.Call) -> int | None:
    """How many ranks a call starts, where it says so in a number."""
    count = 1
    for name in ("nprocs", "devices", "num_processes", "num_nodes"):
        given = keyword(call, name)
        if given is not None and not (isinstance(given, ast.Constant) and type(given.value) is int):
            return None
        if isinstance(given, ast.Constant) and isinstance(given.value, int):
            count *= given.value
    return count if count > 1 else None


def _followed(callers: Callers, wait: Waits, answered: set[ast.AST | None], told: set[ast.AST]) -> Iterator[Fact]:
    """A wait, and the calls through which the program comes to it, up to where only one rank goes on."""
    source, node, _ = wait
    path: list[tuple[Source, ast.AST, int]] = [(source, node, 0)]
    seen: set[ast.AST] = set()
    while path:
        at, place, depth = path.pop()
        side = side_at(place, at)
        if side == "first" and _home(place) not in answered and _home(node) not in answered:
            if place not in told and isinstance(place, ast.Call):
                told.add(place)
                yield _fact(callers, at, place, wait)
            continue
        function = function_of(place)
        if side is not None or function is None or function in seen or depth == _DEPTH or (depth == 0 and _asked(place, at)):
            continue
        seen.add(function)
        path += [(other, site, depth + 1) for other, site in _sites(callers, at, function)]


def _answers(callers: Callers, source: Source, node: ast.AST) -> Iterator[ast.AST | None]:
    """Where the other ranks wait: at a wait itself, or at a call that leads to it (``if not first: helper.serve()``)."""
    path: list[tuple[Source, ast.AST, int]] = [(source, node, 0)]
    seen: set[ast.AST] = set()
    while path:
        at, place, depth = path.pop()
        if side_at(place, at) == "others":
            yield _home(place)
            continue
        function = function_of(place)
        if function is not None and function not in seen and depth < _DEPTH:
            seen.add(function)
            path += [(other, site, depth + 1) for other, site in _sites(callers, at, function)]


def _calling(callers: Callers, source: Source, node: ast.AST) -> set[ast.AST | None]:
    """Where the function around a wait is called: ``after_first(rank)``, then ``before_others(rank)``, wait for each other."""
    function = function_of(node)
    return {_home(site) for _, site in _sites(callers, source, function)} if function is not None else set()


def _sites(callers: Callers, source: Source, function: Function) -> list[tuple[Source, ast.AST]]:
    found = callers.calling(source, function)
    return [(other, site) for other, site in found if isinstance(site, ast.Call) and len(callers.meant(other, site)) == 1]


def _asked(place: ast.AST, source: Source) -> bool:
    """Whether a wait inside of a function stands under a test that its caller decides."""
    function = function_of(place)
    around = inside(place, ast.If)
    while around is not None and function is not None and function_of(around) is function:
        if not any(guard.node is around for guard in guards(place, source)):
            return True
        around = inside(around, ast.If)
    return False


def _home(node: ast.AST) -> ast.AST | None:
    """Where a counterpart is looked for: the class, or the outermost function, in which a wait stands."""
    outermost = [one for one in parents(node) if isinstance(one, FUNCTIONS)][-1:]
    return inside(node, ast.ClassDef) or next(iter(outermost), None)


def _fact(callers: Callers, source: Source, place: ast.Call, wait: Waits) -> Fact:
    guard = next(one for one in guards(place, source) if one.side == "first")
    through = None if wait[1] is place else wait[0].evidence(wait[1])
    line = getattr(guard.node, "lineno", place.lineno)
    edits = _edits(source, guard, place, wait[1])
    if edits and through is not None and wait[2] == "always":
        edits += written_by_first(callers, source, place)
    value = {
        "call": name_of(place.func),
        "waits_in": name_of(wait[1].func),
        "kind": wait[2],
        "sure": callers.certain(source, place),
        "through": through,
        "guard": source.line(line).strip(),
        "edits": edits,
        "branch": None if guard.leaves else guard.node,
        "statement": statement_of(place),
        "path": source.path,
        "place": place,
    }
    return source.fact("code.lone_wait", value, place)


def _only_waits(wait: ast.Call, place: ast.Call) -> bool:
    """Whether the function that is called here does nothing but this wait, so that all ranks may call it."""
    function = function_of(wait)
    if function is None or function.name != name_of(place.func).split(".")[-1]:
        return False
    done = [node for part in function.body for node in ast.walk(part) if isinstance(node, ast.stmt)]
    return all(
        isinstance(node, (ast.If, ast.Return, ast.Pass))
        or (isinstance(node, ast.Expr) and (isinstance(node.value, ast.Constant) or node.value is wait))
        for node in done
    )


def _in_test(statement: ast.stmt, place: ast.Call) -> bool:
    """``if evaluate(model) > best:`` asks every time."""
    return isinstance(statement, ast.If) and any(one is place for one in ast.walk(statement.test))


def _edits(source: Source, guard: Guard, place: ast.Call, wait: ast.Call) -> tuple[Edit, ...]:
    statement = statement_of(place)
    if guard.leaves and isinstance(guard.node, ast.If):
        waits = name_of(wait.func).split(".")[-1] in {"barrier", "wait_for_everyone"} and (
            wait is place or _only_waits(wait, place)
        )
        return waits_too(source, guard.node, place) if waits else ()
    if (
        not isinstance(guard.node, ast.If)
        or not (isinstance(statement, (ast.Expr, ast.Assign)) or _in_test(statement, place))
        or statement in guard.node.orelse
    ):
        return ()
    return moved_out(source, guard.node, statement, place)
