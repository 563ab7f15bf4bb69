"""The program that a program starts, once for each rank or once: a launcher of the project's own.

cmd = [sys.executable, "-u", args.training_script] + args.training_script_args
for local_rank in range(args.nproc_per_node):
    subprocess.Popen(cmd, env={**os.environ, "RANK": str(local_rank), "WORLD_SIZE": "8"})
"""

from __future__ import annotations

import os
import shlex
from typing import TYPE_CHECKING

from crashcart.model import Fact
from crashcart.numbers import to_count
from crashcart.readers.interpreter.launch import OWN_LAUNCHER
from crashcart.readers.interpreter.values import Unknown, Value, constant_of
from crashcart.readers.job.scripts import read_started

if TYPE_CHECKING:
    from crashcart.readers.interpreter.execution import Execution
    from crashcart.readers.interpreter.trace import Call

__all__ = ["inner_launch"]

_STARTS = ("subprocess.Popen", "subprocess.run", "subprocess.call", "subprocess.check_call")
_UNKNOWN_WORD = '"${UNKNOWN_WORD}"'


def inner_launch(execution: Execution) -> list[Fact]:
    """The facts of the launch of the program that a program starts, which trains nothing itself; none where it starts none."""
    if execution.trains or execution.loaders:
        return []
    for call in execution.trace.named(*_STARTS):
        text = _command(execution, call)
        if text is None:
            continue
        if not text:
            return [Fact("launch.script", _missing_script(execution, call), call.evidence, "code")]
        facts = read_started(call.source.path, "\n" * (call.line - 1) + text + "\n")
        script = next((str(fact.value) for fact in facts if fact.name == "launch.script"), "")
        if script.endswith(".py") and os.path.isfile(script):
            return [*facts, *_ranks(execution, call)]
    return []


def _command(execution: Execution, call: Call) -> str | None:
    """The command as a shell would have it, empty where its program is not there; None where it is not known which it starts."""
    items, _ = execution.interpreter.listed(call.argument(0, "args") or Unknown())
    words = [constant_of(item) for item in items]
    if words and not isinstance(words[0], str):  # ``sys.executable``, mostly
        words[0] = "python"
    texts = [word for word in words if isinstance(word, str)]
    if not any(text.endswith((".py", ".sh")) and os.path.isfile(text) for text in texts):
        return "" if _missing_script(execution, call) else None
    return " ".join(shlex.quote(word) if isinstance(word, str) else _UNKNOWN_WORD for word in words)


def _missing_script(execution: Execution, call: Call) -> str:
    """The program that the words of the launch name, and that is not there."""
    items, _ = execution.interpreter.listed(call.argument(0, "args") or Unknown())
    given = {word for word, known in execution.launch.arguments or () if known}
    named = (constant_of(item) for item in items[:3])
    return next((text for text in named if isinstance(text, str) and text in given and text.endswith((".py", ".sh"))), "")


def _ranks(execution: Execution, call: Call) -> list[Fact]:
    """The ranks that are started in a loop, and how many they are where their environment says it."""
    if not call.region.loops():
        return []
    environment = call.argument(None, "env")
    world = execution.interpreter.store.get(environment, ("item", "WORLD_SIZE")) if environment is not None else None
    world = execution.interpreter.entries(environment).get("WORLD_SIZE", world)
    count = to_count(constant_of(world)) if isinstance(world, Value) else None
    kind = Fact("launch.kind", OWN_LAUNCHER, call.evidence, "code")
    return [kind, Fact("launch.processes", count, call.evidence, "code")] if count else [kind]
