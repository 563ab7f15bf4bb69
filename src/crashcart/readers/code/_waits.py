"""Calls that wait without an end: for a server, a thread, a queue, a process, or a flag that is asked again and again.

What an object is, is known from what it was made by (``self.done = threading.Event()``), anywhere in the program. A wait with a
time-out of its own is no such thing.
"""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING, Literal

from crashcart.readers.code._callers import callers_of
from crashcart.readers.code._web import WEB, requests_of
from crashcart.readers.code.source import FUNCTIONS, keyword, name_of, parent, parents

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.readers.code._callers import Callers
    from crashcart.readers.code.program import Program
    from crashcart.readers.code.source import Source

__all__ = ["TRACKERS", "Wait", "asks_server", "waits_of"]

Wait = Literal["server", "upload", "thread", "queue", "full", "process", "poll"]
MADE = {
    "Event": "event", "Condition": "event", "Barrier": "event", "Thread": "thread", "Process": "thread", "Queue": "queue", "JoinableQueue": "queue",
    "SimpleQueue": "queue", "Popen": "process", "submit": "future", "Artifact": "artifact", "log_artifact": "artifact", "init_run": "neptune",
    "run_coroutine_threadsafe": "future", "log_model": "artifact",
}  # fmt: skip
UPLOADS = (
    "mlflow.log_artifact",
    "mlflow.log_artifacts",
    "mlflow.log_model",
    "mlflow.pytorch.log_model",
    "mlflow.log_image",
    "mlflow.log_figure",
)
RUN = ("os.system", "subprocess.run", "subprocess.call", "subprocess.check_call", "subprocess.check_output")
ASKS = {
    "wandb": ("wandb.restore", "use_artifact", "wandb.finish", "run.finish"),
    "comet_ml": ("experiment.flush", "experiment.end"),
}
SYNC = re.compile(
    r"\b(?:wandb|neptune|clearml|comet|dvclive|aim|hf|huggingface-cli|dvc|git)\b.{0,12}\b(?:sync|upload|push)\b"
    r"|^(?:rsync|scp|rclone|gsutil|azcopy|s5cmd|curl)\b|\baws\b.{0,12}\bs3\b"
)
TRACKERS = ("wandb.", "mlflow.", "neptune.", "comet_ml.", "clearml.", "swanlab.")
_FEW = 5
TIMED = re.compile(
    r"(?<!run)time\(|monotonic|perf_counter|deadline|time_?out|tries|attempt|retr|elapsed|waited|patience|limit|until|give_?up",
    re.IGNORECASE,
)
ASKED = re.compile(
    r"run|artifact|wandb|api|upload|sync|status|state|server|queue|pending|ack|done|ready|flush", re.IGNORECASE
)


def waits_of(program: Program) -> Iterator[tuple[Source, ast.Call | ast.While, Wait]]:
    """Every wait without an end of a program."""
    kinds, callers = _made(program), callers_of(program)
    asks = [name for library, names in ASKS.items() if program.imports(library) for name in names]
    yield from ((source, call, "server") for source, call in requests_of(program))
    bounded = set(_bounded(program))
    for source in program.sources:
        for call in source.calls(*UPLOADS, *asks):
            yield source, call, "upload"
        for call in source.calls("wait", "join", "result", "sync", "communicate"):
            kind = _object(source, call, kinds)
            if kind is not None:
                yield source, call, kind
        yield from ((source, call, kind) for call, kind in _together(source, bounded))
        for call in source.calls(*RUN):
            if keyword(call, "timeout") is None and call.args and SYNC.search(_words(call.args[0])):
                yield source, call, "process"
        for loop in source.nodes(ast.While):
            if _polls(callers, source, loop):
                yield source, loop, "poll"


def _made(program: Program) -> dict[str, str]:
    """The last words of names, and what they hold."""
    kinds: dict[str, str] = {}
    lists: dict[str, str] = {}
    for source in program.sources:
        for call in source.calls(*MADE):
            above = getattr(call, "parent", None)
            targets = (
                above.targets
                if isinstance(above, ast.Assign)
                else [above.target]
                if isinstance(above, ast.AnnAssign)
                else []
            )
            for target in targets:
                kinds[name_of(target).split(".")[-1]] = MADE[source.called(call.func).split(".")[-1]]
            if listed := _listed(call):
                lists[listed] = MADE[source.called(call.func).split(".")[-1]]
    for source in program.sources:
        loops: list[ast.For | ast.comprehension] = [*source.nodes(ast.For), *source.nodes(ast.comprehension)]
        for each in loops:
            over = name_of(each.iter).split(".")[-1]
            if over in lists and isinstance(each.target, ast.Name):
                kinds.setdefault(each.target.id, lists[over])
    return kinds


def _listed(call: ast.Call) -> str:
    """The list that something is put into: ``[Thread(...) for ...]``, ``pending.append(pool.submit(...))``."""
    above = parent(call)
    if isinstance(above, ast.Call) and call in above.args and name_of(above.func).endswith(".append"):
        return name_of(above.func).split(".")[-2]
    if isinstance(above, (ast.ListComp, ast.List)) and isinstance(holder := parent(above), ast.Assign):
        return name_of(holder.targets[0]).split(".")[-1]
    return ""


def _bounded(program: Program) -> Iterator[str]:
    """The names that hold a queue with room for so many rows only."""
    for source in program.sources:
        for call in source.calls("queue.Queue", "multiprocessing.Queue", "torch.multiprocessing.Queue", "JoinableQueue"):
            size, above = keyword(call, "maxsize", 0), parent(call)
            endless = isinstance(size, ast.Constant) and isinstance(size.value, int) and size.value <= 0
            if size is not None and not endless and isinstance(above, (ast.Assign, ast.AnnAssign)):
                yield name_of(above.targets[0] if isinstance(above, ast.Assign) else above.target).rpartition(".")[2]


def _together(source: Source, bounded: set[str]) -> Iterator[tuple[ast.Call, Wait]]:
    """Waits for several calls at once, and for room in a queue."""
    for call in source.calls("concurrent.futures.wait", "concurrent.futures.as_completed"):
        if keyword(call, "timeout", 1) is None:
            yield call, "thread"
    for call in source.calls("put"):
        if _last(call) in bounded and len(call.args) == 1 and not call.keywords:
            yield call, "full"


def _last(call: ast.Call) -> str:
    return name_of(call.func).split(".")[-2] if "." in name_of(call.func) else ""


def _object(source: Source, call: ast.Call, kinds: dict[str, str]) -> Wait | None:
    """What a method without a time-out waits for."""
    if not isinstance(call.func, ast.Attribute) or keyword(call, "timeout") is not None:
        return None
    method, value = call.func.attr, call.func.value
    made = source.called(value.func).split(".")[-1] if isinstance(value, ast.Call) else ""
    kind = MADE.get(made) if made else kinds.get(name_of(value).split(".")[-1])
    if kind == "neptune" and method in {"wait", "sync"}:
        return "upload"
    if call.args or (kind == "future" and _is_done(call)):
        return None
    waits: dict[tuple[str, str], Wait] = {
        ("artifact", "wait"): "upload", ("event", "wait"): "thread", ("thread", "join"): "thread", ("queue", "join"): "queue",
        ("future", "result"): "thread", ("process", "wait"): "process", ("process", "communicate"): "process",
    }  # fmt: skip
    return waits.get((kind or "", method))


def _is_done(call: ast.Call) -> bool:
    """``if future.done(): future.result()``: what is there already is not waited for."""
    for above in parents(call):
        if isinstance(above, FUNCTIONS):
            break
        if isinstance(above, ast.If) and any(
            isinstance(one, ast.Attribute) and one.attr == "done" for one in ast.walk(above.test)
        ):
            return True
    return False


def _polls(callers: Callers, source: Source, loop: ast.While) -> bool:
    """``while not run.synced: time.sleep(1)``: nothing but the answer ends it; nor ``while True`` with a break for it."""
    body = [node for part in loop.body for node in ast.walk(part)]
    if not any(isinstance(node, ast.Call) and source.called(node.func) in {"time.sleep", "sleep"} for node in body):
        return False
    if loop.orelse or any(isinstance(node, (ast.AugAssign, ast.Raise)) for node in body):
        return False
    leaves = [node for node in body if isinstance(node, (ast.Break, ast.Return))]
    if not isinstance(loop.test, ast.Constant):
        return not leaves and _only_asks(callers, source, loop.test)
    branches = [parent(one) for one in leaves]
    small = len(loop.body) <= _FEW and not any(isinstance(node, (ast.For, ast.While)) for node in body)
    return (
        small and bool(leaves) and all(isinstance(one, ast.If) and _only_asks(callers, source, one.test) for one in branches)
    )


def _only_asks(callers: Callers, source: Source, test: ast.expr) -> bool:
    """Whether a test asks for a state and for no time or count; a number that is asked for may be compared."""
    words = ast.unparse(test)
    compared = isinstance(test, ast.Compare) and any(isinstance(one, ast.Call) for one in ast.walk(test))
    timed = TIMED.search(words) or (not compared and re.search(r"[<>]", words))
    return not timed and (bool(ASKED.search(words)) or asks_server(callers, source, test))


def asks_server(callers: Callers, source: Source, node: ast.AST) -> bool:
    """Whether a function of the program that is called here asks a tracker or another server."""
    return any(
        name.startswith(TRACKERS) or name in WEB
        for call in ast.walk(node)
        if isinstance(call, ast.Call)
        for at, function in callers.meant(source, call)
        for name in (at.called(one.func) for one in ast.walk(function) if isinstance(one, ast.Call))
    )


def _words(node: ast.expr) -> str:
    return " ".join(one.value for one in ast.walk(node) if isinstance(one, ast.Constant) and isinstance(one.value, str))
