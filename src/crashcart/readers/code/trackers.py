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

from crashcart.model import Edit, Span
from crashcart.readers.code._blocks import indent_of, missing_imports, own_lines, step_of
from crashcart.readers.code._callers import HOOKS, callers_of, function_of, statement_of
from crashcart.readers.code._reach import all_come
from crashcart.readers.code._waits import WEB, waits_of
from crashcart.readers.code.source import FUNCTIONS, inside, name_of, parent, parents
from crashcart.record import replace

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.model import Fact
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
TRACKERS = ("wandb.", "mlflow.", "neptune.", "comet_ml.", "clearml.", "swanlab.")
SECONDS = 10
_DEPTH = 4


def look(program: Program) -> Iterator[Fact]:
    """``code.tracker_wait`` between the steps of the training; ``code.tracker_by_all``: a tracker that every rank starts."""
    callers = callers_of(program)
    for source, node, kind in waits_of(program):
        home = _home(callers, source, node, _DEPTH)
        if home is not None and _tells(source, node, kind):
            fact = _fact(source, node, kind)
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


def _home(callers: Callers, source: Source, node: ast.AST, depth: int) -> ast.AST | None:
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
    for other, site in callers.calling(source, function):
        if isinstance(site, ast.Call) and (found := _home(callers, other, site, depth - 1)) is not None:
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


def _tells(source: Source, node: ast.Call | ast.While, kind: Wait) -> bool:
    """Whether it is about telling somebody: what is called, the function, the class or the file are named so."""
    if kind == "upload":
        return True
    function, owner = function_of(node), inside(node, ast.ClassDef)
    words = [ast.unparse(node.test) if isinstance(node, ast.While) else ast.unparse(node)]
    words += [one.name for one in (function, owner) if one is not None]
    words.append(source.path.rsplit("/", 1)[-1].removesuffix(".py"))
    return any(TELLING.search(word.replace("_", " ")) for word in words) or (owner is not None and _sends(source, owner))


def _sends(source: Source, owner: ast.ClassDef) -> bool:
    """Whether a class sends something to a server: what it waits for is that somebody was told, whatever it is called."""
    return any(
        isinstance(one, ast.Call) and (source.called(one.func) in WEB or source.called(one.func).startswith(TRACKERS))
        for one in ast.walk(owner)
    )


def _fact(source: Source, node: ast.Call | ast.While, kind: Wait) -> Fact:
    called = source.called(node.func) if isinstance(node, ast.Call) else ""
    value = {
        "call": name_of(node.func) if isinstance(node, ast.Call) else "while " + ast.unparse(node.test),
        "kind": kind,
        "library": called.split(".")[0],
        "edits": _edits(source, node, kind) if isinstance(node, ast.Call) else (),
    }
    return source.fact("code.tracker_wait", value, node)


def _edits(source: Source, call: ast.Call, kind: Wait) -> tuple[Edit, ...]:
    statement = statement_of(call)
    alone = isinstance(statement, ast.Expr) and statement.value is call and own_lines(source, statement)
    method = call.func.attr if isinstance(call.func, ast.Attribute) else ""
    if kind == "upload" and method == "wait" and alone and isinstance(call.func, ast.Attribute):
        inner = call.func.value
        if isinstance(inner, ast.Call):
            return (Edit(source.span(call), source.written(inner)),)
        return (_dropped(source, statement),)
    if kind == "queue" and alone:
        return (_dropped(source, statement),)
    if kind == "thread" and method in {"wait", "join"}:
        return (Edit(source.span(call), f"{source.written(call)[:-1]}timeout={SECONDS})"),)
    if kind == "server":
        text = _with_time(source.written(call))
        if not alone or inside(call, ast.Try):
            return (Edit(source.span(call), text),)
        indent, step = indent_of(source, statement.lineno), step_of(source)
        lines = [
            *missing_imports(source, "contextlib"),
            "with contextlib.suppress(OSError):  # telling is not worth a training",
        ]
        body = "".join(f"{line}\n{indent}" for line in lines) + step + text.replace("\n", f"\n{step}")
        return (Edit(source.span(statement), body),)
    return ()


def _dropped(source: Source, statement: ast.stmt) -> Edit:
    """A statement taken away; where it is all of its block, nothing in its place."""
    above = parent(statement)
    blocks = [getattr(above, part, None) for part in ("body", "orelse", "finalbody")]
    if any(block == [statement] for block in blocks):
        return Edit(source.span(statement), "pass")
    first, last = statement.lineno, statement.end_lineno or statement.lineno
    end = source.text.find("\n", source.span(statement).end)
    return Edit(Span(source.path, source.offset(first, 0), len(source.text) if end < 0 else end + 1, last), "")


def _with_time(text: str) -> str:
    """A call with a time-out as its last argument."""
    inner = text[:-1].rstrip()
    tail = text[len(inner) : -1]
    comma = "" if inner.endswith(("(", ",")) else ","
    space = "" if inner.endswith("(") else " "
    return f"{inner}{comma}{space}timeout={SECONDS}{tail})"
