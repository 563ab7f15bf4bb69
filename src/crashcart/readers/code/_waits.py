"""Calls that wait without an end: for a server, a thread, a queue, a process, or a flag that is asked again and again.

What an object is, is known from what it was made by (``self.done = threading.Event()``), anywhere in the program. A wait with a
time-out of its own is no such thing.
"""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING, Literal

from crashcart.readers.code.source import FUNCTIONS, keyword, name_of, parents

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.readers.code.program import Program
    from crashcart.readers.code.source import Source

__all__ = ["WEB", "Wait", "waits_of"]

Wait = Literal["server", "upload", "thread", "queue", "process", "poll"]
MADE = {
    "Event": "event", "Condition": "event", "Barrier": "event", "Thread": "thread", "Process": "thread", "Queue": "queue", "JoinableQueue": "queue",
    "SimpleQueue": "queue", "Popen": "process", "submit": "future", "Artifact": "artifact", "log_artifact": "artifact", "init_run": "neptune",
    "run_coroutine_threadsafe": "future", "log_model": "artifact",
}  # fmt: skip
WEB = ("requests.post", "requests.put", "requests.get", "requests.patch", "requests.request", "urllib.request.urlopen", "urlopen",
       "socket.create_connection", "http.client.HTTPConnection", "http.client.HTTPSConnection")  # fmt: skip
SESSION = ("post", "put", "patch")
UPLOADS = (
    "mlflow.log_artifact",
    "mlflow.log_artifacts",
    "mlflow.log_model",
    "mlflow.pytorch.log_model",
    "mlflow.log_image",
    "mlflow.log_figure",
)
ASKS = {
    "wandb": ("wandb.restore", "use_artifact", "wandb.Api", "wandb.finish", "run.finish"),
    "comet_ml": ("experiment.flush", "experiment.end"),
}
PLACES = {"requests.post": 2, "urlopen": 2, "urllib.request.urlopen": 2, "socket.create_connection": 1}
SYNC = re.compile(r"\b(?:wandb|neptune|clearml|comet|dvclive|aim)\b.{0,12}\b(?:sync|upload|push)\b")
ASKED = re.compile(
    r"run|artifact|wandb|api|upload|sync|status|state|server|queue|pending|ack|done|ready|flush", re.IGNORECASE
)


def waits_of(program: Program) -> Iterator[tuple[Source, ast.Call | ast.While, Wait]]:
    """Every wait without an end of a program."""
    kinds = _made(program)
    asks = [name for library, names in ASKS.items() if program.imports(library) for name in names]
    for source in program.sources:
        for call in source.calls(*WEB, *SESSION):
            if _to_a_server(source, call):
                yield source, call, "server"
        for call in source.calls(*UPLOADS, *asks):
            yield source, call, "upload"
        for call in source.calls("wait", "join", "result", "sync", "communicate"):
            kind = _object(source, call, kinds)
            if kind is not None:
                yield source, call, kind
        for call in source.calls("os.system", "subprocess.run", "subprocess.call", "subprocess.check_call"):
            if keyword(call, "timeout") is None and call.args and SYNC.search(_words(call.args[0])):
                yield source, call, "process"
        for loop in source.nodes(ast.While):
            if _polls(source, loop):
                yield source, loop, "poll"


def _made(program: Program) -> dict[str, str]:
    """The last words of names, and what they hold."""
    kinds: dict[str, str] = {}
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
    return kinds


def _to_a_server(source: Source, call: ast.Call) -> bool:
    if keyword(call, "timeout") is not None or any(one.arg is None for one in call.keywords):
        return False
    name = source.called(call.func)
    last = name.split(".")[-1]
    if last in SESSION and not name.startswith("requests."):
        owner = name.split(".")[-2].lower() if "." in name else ""
        return owner in {"session", "_session", "http", "client", "_client"} and any(
            one.arg in {"json", "data"} for one in call.keywords
        )
    if name.startswith("socket.") and "settimeout" in source.text:
        return False
    return len(call.args) <= PLACES.get(name, len(call.args))


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


def _polls(source: Source, loop: ast.While) -> bool:
    """``while not run.synced: time.sleep(1)``: nothing but the flag ends it."""
    body = [node for part in loop.body for node in ast.walk(part)]
    sleeps = any(isinstance(node, ast.Call) and source.called(node.func) in {"time.sleep", "sleep"} for node in body)
    leaves = any(isinstance(node, (ast.Break, ast.Return, ast.Raise)) for node in body)
    words = ast.unparse(loop.test)
    steps = any(isinstance(node, ast.AugAssign) for node in body)
    timed = re.search(r"time\(|monotonic|deadline|timeout|tries|attempt|retr|<|>", words)
    endless = isinstance(loop.test, ast.Constant)
    return sleeps and not leaves and not timed and not steps and not endless and bool(ASKED.search(words))


def _words(node: ast.expr) -> str:
    return " ".join(one.value for one in ast.walk(node) if isinstance(one, ast.Constant) and isinstance(one.value, str))
