"""Every loader that the program builds, with what decides how much it holds: workers, prefetch, batch, pinning, persistence.

Loaders are counted in the code, not by flags: RDT's training builds two with persistent workers from one setting, so that eight
workers on eight ranks are 128 processes. A function that builds one counts once for each place that calls it, with what that
place hands over; a comprehension over a list of splits once for each of them.
"""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING, Any

from crashcart.readers.code._callers import callers_of, function_of, last_name, statement_of
from crashcart.readers.code._given import Giving
from crashcart.readers.code._lengths import length_of, sampler_of
from crashcart.readers.code._paths import given_to
from crashcart.readers.code._spread import spread
from crashcart.readers.code.source import FUNCTIONS, keyword, name_of, parents

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.model import Fact
    from crashcart.readers.code._callers import Callers
    from crashcart.readers.code._given import Site
    from crashcart.readers.code.program import Program
    from crashcart.readers.code.source import Source

# An argument, its position, and what torch takes where it is not given.
ARGUMENTS: dict[str, tuple[str, int | None, Any]] = {
    "batch": ("batch_size", 1, 1),
    "workers": ("num_workers", 5, 0),
    "pin": ("pin_memory", 7, False),
    "drop_last": ("drop_last", 8, False),
    "context": ("multiprocessing_context", 11, None),
    "prefetch": ("prefetch_factor", None, None),
    "persistent": ("persistent_workers", None, False),
}
KINDS = ("train", r"val|eval|test", r"sampl|infer|gener")
NAMES = ("train", "eval", "sample")
PARTS = {"random_split", "Subset"}
HOOK = re.compile(r"\w*(?:train|val|test|predict)_dataloader")
_MOST = 8


def look(program: Program) -> Iterator[Fact]:
    """``code.loader``: each argument as a constant with its span or as the key of a setting; and what it is for."""
    callers, giving = callers_of(program), Giving(program)
    method = start_method(program)
    for source in program.sources:
        for call in source.calls("DataLoader"):
            for site in _sites(callers, source, call):
                value = _described(program, giving, source, call, site)
                value["sure"] = callers.certain(source, call) or _is_hook(call)
                value["started_by"] = value["context"].get("value") or method
                for at in range(_repeated(call)):
                    yield source.fact("code.loader", _chosen(value, at), call)


def _chosen(value: dict[str, Any], at: int) -> dict[str, Any]:
    """The loader of one round, where a loop goes over names of parts: ``loader.<train|val>``."""
    part = next((one["part"] for one in value.values() if isinstance(one, dict) and "<" in one.get("part", "")), "")
    names = part.partition("<")[2].partition(">")[0].split("|")
    if not part or at >= len(names):
        return value
    found = {
        name: {**one, "part": re.sub("<.{0,200}>", names[at], one["part"])}
        if isinstance(one, dict) and "part" in one
        else one
        for name, one in value.items()
    }
    kind = next(
        (name for name, words in zip(NAMES, KINDS, strict=True) if re.search(words, names[at].lower())), value["for"]
    )
    return {**found, "for": kind}


def start_method(program: Program) -> str:
    """The start method that the program sets for all of its processes; empty for the system's own."""
    for source in program.sources:
        for call in source.calls("set_start_method"):
            if call.args and isinstance(call.args[0], ast.Constant):
                return str(call.args[0].value)
    return ""


def _sites(callers: Callers, source: Source, call: ast.Call) -> list[Site | None]:
    function = function_of(call)
    if function is None:
        return [None]
    called: list[Site | None] = [(at, node) for at, node in callers.calling(source, function) if isinstance(node, ast.Call)]
    return called if 0 < len(called) <= _MOST else [None]


def _is_hook(call: ast.Call) -> bool:
    function = function_of(call)
    return function is not None and bool(HOOK.fullmatch(function.name))


def _described(program: Program, giving: Giving, source: Source, call: ast.Call, site: Site | None) -> dict[str, Any]:
    adds = spread(giving, source, call, site)
    added, complete = adds.given, adds.complete
    found: dict[str, Any] = {}
    for name, (argument, position, default) in ARGUMENTS.items():
        node = keyword(call, argument, position)
        at, given = (source, node) if node is not None else added.get(argument, (source, None))
        rest: dict[str, Any] = {"value": default} if complete and not adds.parts else {}
        if complete and len(adds.parts) == 1:
            rest = {"part": adds.parts[0], "argument": argument, "default": default}
        found[name] = giving.of(at, given, site) if given is not None else rest
    data = keyword(call, "dataset", 0)
    found["data"] = _made_of(program, source, data, site)
    found["length"] = length_of(program, giving, source, data, site)
    found["sampler"] = sampler_of(source, call, complete=complete)
    found["for"] = _kind(call, data, site)
    found["worker_init"] = keyword(call, "worker_init_fn", 10) is not None or "worker_init_fn" in added or not complete
    found["collate"] = keyword(call, "collate_fn", 6) is not None or "collate_fn" in added or not complete
    found["sampled"] = any(keyword(call, one) is not None for one in ("sampler", "batch_sampler")) or not complete
    return found


def _made_of(program: Program, source: Source, node: ast.expr | None, site: Site | None, depth: int = 5) -> str:
    """The class of the data set, where the code says it."""
    classes = {one.name for own in program.sources for one in own.nodes(ast.ClassDef)}
    if isinstance(node, ast.Call):
        if last_name(node.func) in PARTS and node.args and depth:
            return _made_of(program, source, node.args[0], site, depth - 1)
        name = last_name(_only(source, node.func) if isinstance(node.func, ast.Subscript) else node.func)
        return name if name in classes else ""
    if not isinstance(node, (ast.Name, ast.Attribute)) or not depth:
        return ""
    function = function_of(node)
    given = given_to(source, name_of(node), function) or _one_of(source, name_of(node))
    made = {_made_of(program, source, one, site, depth - 1) for one in given}
    if not given and isinstance(node, ast.Name) and function is not None and site is not None:
        names = [one.arg for one in function.args.args]
        at = names.index(node.id) - (names[:1] == ["self"]) if node.id in names else None
        return _made_of(program, site[0], keyword(site[1], node.id, at), None, depth - 1)
    return made.pop() if len(made) == 1 else ""


def _only(source: Source, node: ast.Subscript) -> ast.expr:
    """What a table of the file holds under a name, or all that it holds where that is one thing: ``KINDS[kind](path)``."""
    given = given_to(source, name_of(node.value), None) if isinstance(node.value, ast.Name) else []
    table = given[0] if len(given) == 1 else None
    if isinstance(table, ast.Dict):
        for key, value in zip(table.keys, table.values, strict=True):
            same = isinstance(key, ast.Constant) and isinstance(node.slice, ast.Constant) and key.value == node.slice.value
            if same or len(table.values) == 1:
                return value
    return node


def _one_of(source: Source, name: str) -> list[ast.expr]:
    """What a name among several is given: ``train, val = random_split(data, sizes)``."""
    return [
        one.value
        for one in source.nodes(ast.Assign)
        if isinstance(one.targets[0], (ast.Tuple, ast.List)) and any(name_of(part) == name for part in one.targets[0].elts)
    ]


def _kind(call: ast.Call, data: ast.expr | None, site: Site | None) -> str:
    """What a loader is for, by the words around it."""
    function = function_of(call)
    said = [_target(call), name_of(data) if data is not None else "", function.name if function is not None else ""]
    if site is not None:
        said = [_target(site[1]), site[0].written(site[1]), *said]
    for words in said:
        for name, pattern in zip(NAMES, KINDS, strict=True):
            if re.search(pattern, words.lower()):
                return name
    return "train"


def _target(call: ast.Call) -> str:
    statement = statement_of(call)
    return " ".join(name_of(one) for one in statement.targets) if isinstance(statement, ast.Assign) else ""


def _repeated(call: ast.Call) -> int:
    """How many loaders a comprehension or a loop over a list in the code makes."""
    for above in parents(call):
        if isinstance(above, FUNCTIONS):
            return 1
        over = above.generators[0].iter if isinstance(above, (ast.DictComp, ast.ListComp)) else None
        over = above.iter if isinstance(above, ast.For) else over
        if isinstance(over, (ast.List, ast.Tuple, ast.Set)):
            return min(max(1, len(over.elts)), _MOST)
    return 1
