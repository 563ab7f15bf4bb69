"""Waits without an end between the steps of a training, where it only wants to tell a tracker something.

    def on_train_epoch_end(self):
        wandb.log_artifact(artifact).wait()      # until the server has it
        requests.post(WEBHOOK, json=row)         # no time-out: until the server answers

``wandb.log``, TensorBoard's writers and other calls that hand a row to a thread or a local process are none of these.
"""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from crashcart.readers.code._callers import HOOKS, callers_of, function_of, last_name
from crashcart.readers.code._handed import calls_of_handed, is_handed_over
from crashcart.readers.code._reach import all_come
from crashcart.readers.code._unwaited import unpolled, unwaited
from crashcart.readers.code._waits import TRACKERS, asks_server, waits_of
from crashcart.readers.code._web import WEB, goes_nowhere
from crashcart.readers.code.source import FUNCTIONS, inside, name_of, parent, parents
from crashcart.record import replace

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.model import Edit, Fact
    from crashcart.readers.code._callers import Callers
    from crashcart.readers.code._waits import Wait
    from crashcart.readers.code.program import Program
    from crashcart.readers.code.source import Function, Source

TELLING = re.compile(
    r"(?<![a-z])(?:log|logger|logging)(?![a-z])|track|wandb|metric|report|upload|notif|(?<!a)sync|dashboard|webhook|artifact|mlflow|neptune|comet|clearml"
    r"|monitor|telemetry|slack|tensorboard|push|publish|remote",
    re.IGNORECASE,
)
TRAINING = {
    "backward",
    "manual_backward",
    "train_one_epoch",
    "train_epoch",
    "training_step",
    "train_step",
    "run_epoch",
    "fit_epoch",
    "optimizer_step",
}
EPOCHS = {"epoch", "ep", "step", "global_step", "iteration", "batch_idx"}
ENDS = re.compile(r"\w*(?:epoch|batch|step)_(?:end|start|begin)")
_DEPTH = 4
Waiting = tuple["Source", "ast.Call | ast.While", "Wait"]


def look(program: Program) -> Iterator[Fact]:
    """``code.tracker_wait`` between the steps of the training; ``code.tracker_by_all``: a tracker that every rank starts."""
    callers = callers_of(program)
    waits = list(waits_of(program))
    for source, node, kind in waits:
        if kind == "full" and not _stuck(node, waits):
            continue
        home = _home(program, source, node, _DEPTH)
        if home is not None and _tells(callers, source, node, kind):
            fact = _fact(callers, source, node, kind, waits)
            refused = kind == "upload" and str(fact.value["call"]).endswith(".wait") and not program.imports("neptune")
            yield replace(fact, value={**fact.value, "refused_offline": refused, "sure": callers.certain(source, node)})
    for source in program.sources:
        for call in source.calls("mlflow.set_tracking_uri"):
            local = (
                isinstance(call.args[0], ast.Constant) and not str(call.args[0].value).startswith("http")
                if call.args
                else True
            )
            if not local:
                yield source.fact("code.tracker_server", "mlflow", call)
    if program.imports("torch.distributed", "accelerate", "deepspeed"):
        for source in program.sources:
            for call in source.calls("wandb.init", "mlflow.start_run", "neptune.init_run", "comet_ml.Experiment"):
                if all_come(callers, source, call):
                    yield source.fact("code.tracker_by_all", name_of(call.func), call)


def _stuck(node: ast.AST, waits: list[Waiting]) -> bool:
    """Whether what empties a queue may stand still: its class asks a server without a time-out."""
    owner = inside(node, ast.ClassDef)
    return owner is not None and any(kind == "server" and inside(one, ast.ClassDef) is owner for _, one, kind in waits)


def _home(program: Program, source: Source, node: ast.AST, depth: int) -> ast.AST | None:
    """The loop of a training, or a framework's hook in it, from which the program comes to a place."""
    for above in parents(node):
        if isinstance(above, FUNCTIONS):
            break
        if isinstance(above, (ast.For, ast.While)) and _trains(above):
            return above
    function = function_of(node)
    if function is None or depth == 0:
        return None
    if isinstance(parent(function), ast.ClassDef) and _is_hook(function):
        return function
    callers = callers_of(program)
    sites = callers.calling(source, function)
    if not sites and is_handed_over(callers, source, function):
        sites = calls_of_handed(program)
    for other, site in sites:
        if isinstance(site, ast.Call) and (found := _home(program, other, site, depth - 1)) is not None:
            return found
    return None


def _is_hook(function: Function) -> bool:
    """A method that a framework calls again and again; not those at the very end."""
    name = function.name
    if re.search(r"fit_end|train_end$|on_train_start|fit_start|exception|teardown|setup", name) or name in {
        "forward",
        "__call__",
        "__getitem__",
    }:
        return False
    return bool(ENDS.fullmatch(name) or (HOOKS.fullmatch(name) and name.startswith(("on_", "training_", "validation_"))))


def _trains(loop: ast.For | ast.While) -> bool:
    names = {one.id for one in ast.walk(loop.target) if isinstance(one, ast.Name)} if isinstance(loop, ast.For) else set()
    calls = {name_of(one.func).split(".")[-1] for one in ast.walk(loop) if isinstance(one, ast.Call)}
    return bool(calls & TRAINING) or (bool(names & EPOCHS) and bool(calls & {"step", "train", "zero_grad"}))


def _tells(callers: Callers, source: Source, node: ast.Call | ast.While, kind: Wait) -> bool:
    """Whether it is about telling somebody: what is called, the function, the class or the file are named so."""
    started = isinstance(node, ast.Call) and name_of(node.func).rpartition(".")[2] not in {"wait", "communicate"}
    if kind in {"upload", "full"} or (kind == "process" and started):
        return True
    if (
        kind == "server"
        and isinstance(node, ast.Call)
        and _sent(node)
        and goes_nowhere(node, function_of(node) or source.tree)
    ):
        return True
    if isinstance(node, ast.While) and asks_server(callers, source, node):
        return True
    function, owner = function_of(node), inside(node, ast.ClassDef)
    constant = isinstance(node, ast.While) and isinstance(node.test, ast.Constant)
    words = [ast.unparse(node.test) if isinstance(node, ast.While) and not constant else ast.unparse(node)]
    words += [one.name for one in (function, owner) if one is not None]
    words.append(source.path.rsplit("/", 1)[-1].removesuffix(".py"))
    if kind in {"thread", "queue"}:
        words += _behind(source, kind)
    return any(TELLING.search(word.replace("_", " ")) for word in words) or (owner is not None and _sends(source, owner))


def _behind(source: Source, kind: Wait) -> Iterator[str]:
    """What threads and queues of a file are for: what they are made to run, and who takes from a queue to send it."""
    if kind == "thread":
        run = [ast.unparse(one) for call in source.calls("Thread", "Process", "submit") for one in _given(call)]
        yield from ["upload"] if run and all(TELLING.search(one.replace("_", " ")) for one in run) else []
        return
    for function in source.nodes(ast.FunctionDef):
        calls = [one for one in ast.walk(function) if isinstance(one, ast.Call)]
        takes = any(isinstance(one.func, ast.Attribute) and one.func.attr in {"get", "get_nowait"} for one in calls)
        if takes and any(source.called(one.func) in WEB or source.called(one.func).startswith(TRACKERS) for one in calls):
            yield "upload"


def _given(call: ast.Call) -> list[ast.expr]:
    return [*call.args[:1], *(one.value for one in call.keywords if one.arg == "target")]


def _sent(call: ast.Call) -> bool:
    """Whether a request gives something to the server."""
    return any(one.arg in {"json", "data", "files", "body"} for one in call.keywords)


def _sends(source: Source, owner: ast.ClassDef) -> bool:
    """Whether a class sends something to a server: what it waits for is that somebody was told, whatever it is called."""
    return any(
        isinstance(one, ast.Call) and (source.called(one.func) in WEB or source.called(one.func).startswith(TRACKERS))
        for one in ast.walk(owner)
    )


def _fact(callers: Callers, source: Source, node: ast.Call | ast.While, kind: Wait, waits: list[Waiting]) -> Fact:
    called = source.called(node.func) if isinstance(node, ast.Call) else ""
    value = {
        "call": name_of(node.func) if isinstance(node, ast.Call) else f"while {ast.unparse(node.test)}",
        "kind": kind,
        "library": called.split(".")[0],
        "edits": _edits(callers, source, node, kind, waits) if isinstance(node, ast.Call) else unpolled(source, node),
    }
    return source.fact("code.tracker_wait", value, node)


def _edits(callers: Callers, source: Source, call: ast.Call, kind: Wait, waits: list[Waiting]) -> tuple[Edit, ...]:
    """An end for a wait, and for the others of a class or a thread that sends: else the training passes and stands at its end."""
    found = unwaited(callers, source, call, kind)
    owner = inside(call, ast.ClassDef)
    if not found or kind not in {"queue", "thread", "full"}:
        return found
    run = {last_name(one) for made in source.calls("Thread", "Process", "submit") for one in _given(made)}
    for at, one, what in waits:
        function = function_of(one)
        beside = owner is not None and inside(one, ast.ClassDef) is owner
        if one is call or not (beside or (at is source and function is not None and function.name in run)):
            continue
        if isinstance(one, ast.Call) and what in {"server", "thread", "full", "queue"}:
            found += tuple(edit for edit in unwaited(callers, at, one, what) if edit not in found)
    return found
