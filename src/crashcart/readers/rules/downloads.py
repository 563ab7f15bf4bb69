"""What every rank fetches or builds at the same time, and long work of rank 0 for which the others wait.

Eight processes that download into one folder, or that write an index while another reads it, break each other's files. A lock, a
turn for each (``main_process_first``), or rank 0 first and then a barrier prevents that; a barrier after hours of work of rank 0
ends the job at the process group's time-out.
"""

from __future__ import annotations

import ast
import os
import re
from typing import TYPE_CHECKING

from crashcart.readers.code.edits import missing_imports, wrapped
from crashcart.readers.code.source import name_of, parent
from crashcart.readers.interpreter.libraries.collectives import is_barrier
from crashcart.readers.interpreter.libraries.fetches import (
    LOCKS,
    RENAMES,
    asked_on_hub,
    fetch_of,
    is_builder,
    is_own,
    prepares_data,
    same_path,
    written_path,
)
from crashcart.readers.interpreter.trace import Call
from crashcart.readers.interpreter.values import Constant, Result, Unknown, constant_of
from crashcart.readers.rules._rank_flow import collectives_of, turns
from crashcart.readers.rules._settings import called_as
from crashcart.readers.rules._statements import statement_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.model import Edit, Fact
    from crashcart.readers.code.source import Source
    from crashcart.readers.interpreter.execution import Execution
    from crashcart.readers.interpreter.trace import Region
    from crashcart.readers.interpreter.values import Value

_LOCK = 'with open(os.path.join(tempfile.gettempdir(), f"fetch-{os.getuid()}.lock"), "w") as lock:'
_REPOSITORY = re.compile(r"(?!(?:data|datasets?|raw|inputs?|files|\.+)/)[\w.-]+/[\w.-]+")
_OFFLINE = ("HF_HUB_OFFLINE", "HF_DATASETS_OFFLINE", "TRANSFORMERS_OFFLINE")
_WAITS = (
    "time.sleep",
    "torch.distributed.TCPStore.wait",
    "torch.distributed.FileStore.wait",
    "torch.distributed.HashStore.wait",
)
_ELSEWHERE = {"worker", "thread", "maybe"}


def look(execution: Execution) -> Iterator[Fact]:
    """``code.fetched_by_all`` and ``code.long_first``."""
    if execution.ranks == 1:
        return
    yield from _long_first(execution)
    in_turns = _Turns(execution)
    offline = _is_offline(execution)
    reported: set[ast.AST] = set()
    for call in execution.trace.calls:
        if call.node in reported or not in_turns.all_at_once(call):
            continue
        how = fetch_of(execution.interpreter, call)
        branch = _absent(call) if how is None else None
        if branch is not None and branch.node not in reported:
            reported.add(branch.node)  # type: ignore[arg-type]
            yield _built(call, branch)
        elif how is not None and not (how == "hub" and offline):
            reported.add(call.node)
            yield _fetched(call, how)


class _Turns:
    """Where ranks come one after the other."""

    def __init__(self, execution: Execution) -> None:
        self.turns = turns(collectives_of(execution))
        self.done_first = {_key(execution, call) for call in execution.trace.calls if call.region.ranks() == "first"} - {
            None
        }
        self.waits = [call.number for call in execution.trace.named(*_WAITS) if call.region.ranks() == "others"]
        self.locked = [
            call.number for call in execution.trace.named("fcntl.flock", "fcntl.lockf", "filelock.FileLock.acquire")
        ]
        self.execution = execution

    def all_at_once(self, call: Call) -> bool:
        """Whether every rank comes to a call at about the same time, and nobody did it before them."""
        number = call.number
        return not (
            call.region.ranks()
            or any(begin < number < end for begin, end in self.turns)
            or any(waited < number for waited in (*self.waits, *self.locked))
            or any(_lets_one_in(region) for region in call.region.above())
            or (bool(self.done_first) and _key(self.execution, call) in self.done_first)
        )


def _key(execution: Execution, call: Call) -> object:
    """What is fetched or built: the same call elsewhere finds it done."""
    if fetch_of(execution.interpreter, call) is not None:
        return call.name
    branch = _absent(call)
    return branch.node if branch is not None else None


def _lets_one_in(region: Region) -> bool:
    if region.kind in _ELSEWHERE or (region.kind == "branch" and region.test is not None and "rank" in region.test.tags):
        return True
    return region.kind == "with" and isinstance(region.value, Result) and region.value.name in LOCKS


def _absent(call: Call) -> Region | None:
    """The branch around a write that is entered where the file is not there yet."""
    path = written_path(call)
    if path is None:
        return None
    for region in call.region.above():
        test = region.test
        if region.kind == "branch" and isinstance(test, Unknown) and isinstance(region.node, ast.If):
            is_absent = ("missing" in test.tags and region.sense) or ("exists" in test.tags and not region.sense)
            rename = _renamed_to(region, test.bound) if is_absent else None
            if rename is not None:
                return region if not is_own(_renamed_from(rename)) else None
            if is_absent and same_path(test.bound, path):
                return region
    return None


def _renamed_to(region: Region, path: Value | None) -> Call | None:
    """The call that gives a file its final name when it is whole."""
    for event in region.events():
        if isinstance(event, Call) and event.name in RENAMES:
            target = event.argument(0) if event.name.startswith("pathlib.") else event.argument(1, "dst")
            if same_path(target, path):
                return event
    return None


def _renamed_from(rename: Call) -> Value | None:
    return rename.receiver if rename.name.startswith("pathlib.") else rename.argument(0, "src")


def _built(call: Call, branch: Region) -> Fact:
    rename = _renamed_to(branch, branch.test.bound) if isinstance(branch.test, Unknown) else None
    value = {
        "what": "",
        "library": "",
        "how": "build",
        "name": "",
        "cached": None,
        "if_address": False,
        "renamed": rename is not None,
        "reached": branch.parent is None or branch.parent.is_certain(),
        "edits": _one_at_a_time(branch.source, *_around(call, branch)),
    }
    return branch.source.fact("code.fetched_by_all", value, branch.node)  # type: ignore[arg-type]


def _fetched(call: Call, how: str) -> Fact:
    name = _hub_name(asked_on_hub(call)) if how == "hub" else ""
    branch = next((region for region in call.region.above() if _asks_for_file(region) or region.kind == "call"), None)
    at_branch = branch if branch is not None and branch.kind == "branch" else None
    value = {
        "what": called_as(call),
        "library": call.name,
        "how": how,
        "name": name,
        "cached": _is_cached(name) if name else None,
        "if_address": any(region.test is not None and "address" in region.test.tags for region in call.region.above()),
        "renamed": False,
        "edits": _one_at_a_time(call.source, *_around(call, at_branch)),
    }
    return call.fact("code.fetched_by_all", value)


def _asks_for_file(region: Region) -> bool:
    return (
        region.kind == "branch"
        and isinstance(region.node, ast.If)
        and isinstance(region.test, Unknown)
        and bool(region.test.tags & {"exists", "missing"})
    )


def _around(call: Call, branch: Region | None) -> tuple[ast.stmt, ast.stmt]:
    """The first and last statement of what one process at a time must do: from the test whether it is there.

    Two processes that both saw nothing fetch one after the other, over each other's files; so the test belongs to it, and so
    does what comes after a test that leaves with what was there.
    """
    if branch is None or not isinstance(branch.node, ast.If):
        statement = statement_of(call.node)
        return statement, statement
    block = _block(branch.node)
    inside = call.source is not branch.source or any(node is call.node for node in ast.walk(branch.node))
    return branch.node, branch.node if inside or not block else block[-1]


def _block(statement: ast.stmt) -> list[ast.stmt]:
    """The statements from one to the end of its block."""
    for part in ("body", "orelse", "finalbody"):
        block = getattr(parent(statement), part, None)
        if isinstance(block, list) and statement in block:
            return block[block.index(statement) :]
    return []


def _one_at_a_time(source: Source, first: ast.stmt, last: ast.stmt) -> tuple[Edit, ...]:
    """The statements behind a lock, or where an accelerator is at hand, first on the main process."""
    if not isinstance(first, (ast.Assign, ast.Expr, ast.If, ast.Return)) or isinstance(parent(first), ast.ClassDef):
        return ()
    for made in source.nodes(ast.Assign):
        if (
            name_of(made.value) in {"Accelerator", "accelerate.Accelerator"}
            and isinstance(made.targets[0], ast.Name)
            and parent(made) is parent(first)
            and made.lineno < first.lineno
        ):
            return wrapped(source, first, last, [f"with {made.targets[0].id}.main_process_first():"], [])
    imports = missing_imports(source, "fcntl", "os", "tempfile")
    return wrapped(source, first, last, [*imports, _LOCK], ["fcntl.flock(lock, fcntl.LOCK_EX)  # one process at a time"])


def _is_offline(execution: Execution) -> bool:
    """``os.environ["HF_HUB_OFFLINE"] = "1"``: nothing is asked for any more."""
    store = execution.interpreter.store
    return any(str(constant_of(store.get("os.environ", ("item", name)))) in {"1", "true", "True"} for name in _OFFLINE)


def _hub_name(value: Value | None) -> str:
    """The name on a hub; empty where it is not known, or a path of this machine."""
    name = constant_of(value)
    if not isinstance(value, Constant) or not isinstance(name, str) or not name:
        return ""
    if name.startswith((".", "/", "~")) or os.path.exists(name) or is_builder(name):
        return ""
    return name if not value.origins or _REPOSITORY.fullmatch(name) else ""


def _is_cached(name: str) -> bool:
    """Whether the hub's cache on this machine holds something under that name."""
    home = os.environ.get("HF_HOME") or os.path.join(os.path.expanduser("~"), ".cache", "huggingface")
    hub, plain = os.environ.get("HF_HUB_CACHE") or os.path.join(home, "hub"), name.replace("/", "--")
    data = os.environ.get("HF_DATASETS_CACHE") or os.path.join(home, "datasets")
    folders = [
        *(os.path.join(hub, f"{kind}s--{plain}") for kind in ("dataset", "model")),
        os.path.join(data, name.replace("/", "___")),
    ]
    return any(map(os.path.isdir, folders))


# ---- long work of rank 0


def _long_first(execution: Execution) -> Iterator[Fact]:
    """Work of minutes that rank 0 does alone, before a call in which all ranks wait for it."""
    every = collectives_of(execution)
    starts = execution.trace.named(
        "torch.distributed.init_process_group", "accelerate.Accelerator", "deepspeed.init_distributed"
    )
    reported: set[ast.AST] = set()
    for call in execution.trace.calls:
        if call.region.ranks() != "first" or not starts or starts[0].number > call.number or execution.is_training(call):
            continue  # what is done again in every epoch finds it done
        named = prepares_data(execution.interpreter, call)
        if not named and _absent(call) is None:
            continue
        place = _entry(call)
        wait = next((each for each in every if each.number > call.number and each.waits == "always"), None)
        if wait is None or wait.side or not is_barrier(wait.call) or place.node in reported:
            continue
        reported.add(place.node)
        value = {
            "work": called_as(place),
            "inside": [call.name],
            "wait": wait.call.evidence,
            "named": named,
        }
        yield place.fact("code.long_first", value)


def _entry(call: Call) -> Call:
    """The call by which rank 0 alone comes to a place."""
    place = call
    for region in call.region.above():
        if region.side:
            break
        if region.call is not None:
            place = region.call
    return place
